"""The URL of a metadata store, as in `metadataStoreUrl` of Pulsar's broker.conf."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.metadata.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Mapping

_HOST: Final = r"(?:[^/:,\s\[\]]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}"


class StoreKind(StrEnum):
    """A kind of metadata store."""

    ZOOKEEPER = "zk"
    OXIA = "oxia"


class StoreForm(NamedTuple):
    """The declaration of a kind of metadata store: its URLs, and how its servers are reached (connect.py connects).

    Attributes:
        scheme: begin of its URLs.
        root: word for the place of the cluster's nodes in the store.
        several: whether a URL may name several servers.
        nested: whether a root may have slashes. Then it has its first slash, too.
        default_root: root of a URL without one.
        port: usual port of the servers.
        protocols: protocols that a TLS handshake must offer (ALPN).
    """

    scheme: str
    root: str
    several: bool = False
    nested: bool = False
    default_root: str = ""
    port: int = 0
    protocols: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The form of its URLs, for errors and references."""
        return f"{self.scheme}HOST:PORT{'[,HOST:PORT...]' if self.several else ''}[/{self.root}]"

    @property
    def pattern(self) -> str:
        """The form as a regular expression, with groups for hosts and root."""
        hosts = rf"{_HOST}(?:,{_HOST})*" if self.several else _HOST
        root = r"((?:/\S*)?)" if self.nested else r"(?:/([^/\s]*))?"
        return f"{self.scheme}({hosts}){root}"


STORES: Final[Mapping[StoreKind, StoreForm]] = {
    StoreKind.ZOOKEEPER: StoreForm("zk:", "chroot", several=True, nested=True, port=2181),
    StoreKind.OXIA: StoreForm("oxia://", "namespace", default_root="default", port=6648, protocols=("h2",)),
}

FORMS: Final = " or ".join(form.text for form in STORES.values())
"""The forms of URLs, for errors and references."""

PATTERN: Final = f"^(metadata-store:)?({'|'.join(form.pattern for form in STORES.values())})$"
"""The forms as a regular expression for schemas."""


class MetadataUrl(NamedTuple):
    """The URL of a metadata store.

    Attributes:
        kind: kind of the store.
        hosts: `HOST:PORT[,HOST:PORT...]`.
        root: ZooKeeper's chroot with its first slash, empty for none; namespace of Oxia.
    """

    kind: StoreKind
    hosts: str
    root: str

    @classmethod
    def parse(cls, text: str) -> MetadataUrl:
        """Parse a URL. Before it may be `metadata-store:`, as in metadataServiceUri of bookkeeper.conf.

        Raises:
            MetadataError: the URL is invalid, or of another kind of store.
        """
        given, text = text, text.removeprefix("metadata-store:")
        for kind, form in STORES.items():
            if match := re.fullmatch(form.pattern, text):
                return cls(kind, match[1], (match[2] or "").rstrip("/") or form.default_root)
        raise MetadataError(f"must be {FORMS}, not {given!r}")
