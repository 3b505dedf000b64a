"""ReadOnlyBrokerPool: spec.sourceRef, and status.source with the connection that the pool uses.

The status is the only place from which pools take their source. So a pool keeps its connection when the ReadOnlySource is
deleted, when its spec names another cluster, and when another process of the operator takes over.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from readonly_operator.api.pool.source import Source
from readonly_operator.api.reader import ApiSpecError, spec_value
from readonly_operator.api.schema import Declared, Nested, Number, Record, declare, load
from readonly_operator.api.status import Copied, Reported
from readonly_operator.api.values import OBJECT_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCE_CACHE_SIZE = 4096
"""Parsed sources that are cached: more than one operator's pools."""


class UnresolvedSourceError(ApiSpecError):
    """A pool has no usable source.

    Args:
        reason: SourceNotFound, InvalidSource or OtherCluster.
        text: the reason and the remedy.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class SourceRef:
    """Reference to a ReadOnlySource of the pool's namespace.

    Attributes:
        name: of the ReadOnlySource.
    """

    name: str = field(
        metadata=declare(
            OBJECT_NAME,
            "A ReadOnlySource of the pool's namespace. Another one must be of the same cluster, with a common host of "
            "metadataStoreUrl. Otherwise the pool keeps its connection, and SourceResolved is False.",
            required="give the name of a ReadOnlySource, for example pulsar",
        )
    )


@dataclass(frozen=True, slots=True)
class UsedSource:
    """Connection that a pool uses, from its status.

    Attributes:
        name: of the ReadOnlySource; empty for spec.source.
        uid: of the ReadOnlySource; empty for spec.source.
        generation: of its spec; 0 for spec.source.
        spec: its spec, JSON.
        source: its spec, parsed.
        since: since when the pool has a connection, as the API server writes times; empty if it had one of its own before.
    """

    name: str
    uid: str
    generation: int
    spec: Mapping[str, Any]
    source: Source
    since: str = ""

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> UsedSource | None:
        """Return the recorded connection of a pool; None for none, and for a damaged record."""
        record = (body.get("status") or {}).get("source")
        if not isinstance(record, dict) or not isinstance(record.get("spec"), dict):
            return None
        try:
            return cls._read(record, "status.source")
        except ApiSpecError:
            return None

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> UsedSource:
        """Parse a ReadOnlySource.

        Raises:
            ApiSpecError: its spec is invalid; the text names the field.
        """
        metadata = body["metadata"]
        record = {
            "name": metadata["name"],
            "uid": metadata["uid"],
            "generation": metadata.get("generation", 0),
            "spec": body.get("spec") or {},
        }
        return cls._read(record, f"ReadOnlySource {metadata['name']}")

    @classmethod
    def inline(cls, body: Mapping[str, Any]) -> UsedSource | None:
        """Parse spec.source of a pool; None for none.

        Raises:
            ApiSpecError: it is invalid; the text names the field.
        """
        spec = (body.get("spec") or {}).get("source")
        return None if spec is None else cls("", "", 0, spec, _parsed(json.dumps(spec), "spec.source"))

    @property
    def title(self) -> str:
        """Return its name for messages."""
        return f"ReadOnlySource {self.name}" if self.name else "spec.source"

    @classmethod
    def _read(cls, record: Mapping[str, Any], path: str) -> UsedSource:
        spec = record["spec"]
        name, uid, generation = record.get("name") or "", record.get("uid") or "", record.get("generation") or 0
        since = record.get("since") or ""
        return cls(name, uid, generation, spec, _parsed(json.dumps(spec), f"{path}: spec"), since)

    def record(self) -> dict[str, Any]:
        """Return the value of status.source."""
        origin = {"name": self.name, "uid": self.uid, "generation": self.generation} if self.name else {}
        return {**origin, "spec": dict(self.spec), **({"since": self.since} if self.since else {})}


@lru_cache(maxsize=SOURCE_CACHE_SIZE)
def _parsed(spec: str, path: str) -> Source:
    return load(Source, json.loads(spec), path)


def source_in_use(body: Mapping[str, Any], inline: Source | None) -> Source:
    """Return the source of a pool: the recorded one, else that of its spec.

    A record goes before the spec: a changed spec counts when the operator has compared it with the record.

    Args:
        body: the pool.
        inline: spec.source, parsed; None for none.

    Raises:
        ApiSpecError: the pool has no source, or both spec.source and spec.sourceRef.
    """
    reference = spec_value(body, "sourceRef", "name")
    if inline is not None and reference:
        raise ApiSpecError("spec must have either source or sourceRef, and not both")
    if inline is None and not reference:
        raise ApiSpecError(
            "spec must have either source or sourceRef: say which source cluster to read, with serviceUrl, adminUrl and "
            "metadataStoreUrl, or name a ReadOnlySource"
        )
    used = UsedSource.of(body)
    if used is not None:
        return used.source
    if inline is not None:
        return inline
    raise UnresolvedSourceError("SourceNotFound", f"spec.sourceRef: ReadOnlySource {reference} has not been read yet")


def has_source(body: Mapping[str, Any]) -> bool:
    """Return whether a pool has a source in its spec or in its status."""
    return UsedSource.of(body) is not None or bool((body.get("spec") or {}).get("source"))


def metadata_store_of(body: Mapping[str, Any]) -> Any:
    """Return the metadataStoreUrl of a pool unparsed; None while it has none."""
    used = UsedSource.of(body)
    return spec_value(body, "source", "metadataStoreUrl") if used is None else used.source.metadata_store_url


def bookkeeper_store_of(body: Mapping[str, Any]) -> Any:
    """Return the bookkeeperMetadataStoreUrl of a pool unparsed; None without one."""
    used = UsedSource.of(body)
    if used is None:
        return spec_value(body, "source", "bookkeeperMetadataStoreUrl")
    return used.source.bookkeeper_metadata_store_url


def connected_since(body: Mapping[str, Any]) -> str:
    """Return since when a pool that began with a sourceRef has a connection; empty if it began with spec.source, or has none."""
    used = UsedSource.of(body)
    return "" if used is None else used.since


def source_fields(body: Mapping[str, Any]) -> str:
    """Return the beginning of the names of a source's fields, for messages about a pool."""
    used = UsedSource.of(body)
    return "spec.source." if used is None or not used.name else f"{used.title}: spec."


USED_SOURCE = Declared(
    Record(
        {
            "name": Declared(Reported(), "The ReadOnlySource. Without it, the connection is from spec.source."),
            "uid": Declared(Reported(), "Its uid."),
            "generation": Declared(Number(wide=True), "The metadata.generation of its spec."),
            "spec": Declared(Copied(Nested(Source)), "Its spec."),
            "since": Declared(
                Reported((("format", "date-time"),)),
                "First use of a connection, unless the pool began with spec.source. Claims of its bindings begin then.",
            ),
        }
    ),
    "Connection that the pool uses. It stays when the ReadOnlySource is deleted, and when the spec names another cluster.",
)
