"""The URL of a metadata store, as in `metadataStoreUrl` of Pulsar's broker.conf."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, NamedTuple

from readonly_engine.metadata.errors import MetadataError

FORMS: Final = "zk:HOST:PORT[,HOST:PORT...][/chroot] or oxia://HOST:PORT[/namespace]"
"""The forms of URLs, for errors and references."""

_HOST: Final = r"(?:[^/:,\s\[\]]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}"
_ZOOKEEPER: Final = re.compile(rf"zk:({_HOST}(?:,{_HOST})*)((?:/\S*)?)")
_OXIA: Final = re.compile(rf"oxia://({_HOST})(?:/([^/\s]*))?")
PATTERN: Final = rf"^(metadata-store:)?({_ZOOKEEPER.pattern}|{_OXIA.pattern})$"
"""The forms as a regular expression for schemas."""

_DEFAULT_NAMESPACE: Final = "default"


class StoreKind(StrEnum):
    """A kind of metadata store."""

    ZOOKEEPER = "zk"
    OXIA = "oxia"


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
        match = _ZOOKEEPER.fullmatch(text)
        if match is not None:
            return cls(StoreKind.ZOOKEEPER, match[1], match[2].rstrip("/"))
        match = _OXIA.fullmatch(text)
        if match is not None:
            return cls(StoreKind.OXIA, match[1], match[2] or _DEFAULT_NAMESPACE)
        raise MetadataError(f"must be {FORMS}, not {given!r}")
