"""Schemas of topics, read from the storage of Pulsar's schema registry."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from readonly_engine.bookkeeper.ledger import LedgerReader
from readonly_engine.metadata.topic_name import encode_name
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.schemas import decode_schema, decode_schema_locator

from readonly_spark.errors import SourceError
from readonly_spark.values.schema import Definition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_engine.bookkeeper.pool import BookiePool
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.metadata.store import MetadataStore
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.wire.schemas import SchemaPlace

MAX_KNOWN_VERSIONS: Final = 20_000
"""Versions of all topics that are kept; more are read again."""

_KINDS: Final = {
    "PROTOBUFNATIVE": "PROTOBUF_NATIVE",
    "NONE": "BYTES",
    "KEYVALUE": "KEY_VALUE",
    "LOCALDATE": "LOCAL_DATE",
    "LOCALTIME": "LOCAL_TIME",
    "LOCALDATETIME": "LOCAL_DATE_TIME",
}
"""Kinds that the registry names differently than clients do."""


@dataclass(frozen=True, slots=True)
class TopicSchemas:
    """The schemas of one topic.

    Attributes:
        versions: the versions that can be read.
        newest: the number of the newest version, deleted or not; None if the topic never had a schema.
    """

    versions: Mapping[int, Definition]
    newest: int | None

    @property
    def deleted(self) -> bool:
        """Whether the newest version was deleted, or records the deletion of the schema."""
        return self.newest is not None and self.newest not in self.versions


class SchemaRegistry:
    """Read the schemas of topics. Versions never change, so each is read from the bookies once.

    Args:
        store: the metadata store.
        cluster: Pulsar's metadata in this store.
        pool: connections to the bookies.
    """

    def __init__(self, store: MetadataStore, cluster: ClusterMetadata, pool: BookiePool) -> None:
        self._store = store
        self._cluster = cluster
        self._pool = pool
        self._known: OrderedDict[SchemaPlace, Definition | None] = OrderedDict()

    async def read(self, topic: TopicName) -> TopicSchemas:
        """Return every version of a topic's schema; none for a topic without a schema.

        Args:
            topic: the topic, or a partition.

        Raises:
            SourceError: the stored schema is damaged.
            MetadataError: the metadata store does not answer.
            BookKeeperError: a version cannot be read.
        """
        base = topic.base
        node = await self._store.get(f"/schemas/{base.tenant}/{base.namespace}/{encode_name(base.local_name)}")
        if node is None:
            return TopicSchemas({}, None)
        found: dict[int, Definition] = {}
        newest = None
        try:
            for place in decode_schema_locator(node.value):
                newest = place.version
                definition = await self._version(place)
                if definition is not None:
                    found[place.version] = definition
        except WireError as error:
            raise SourceError(f"the schema of {base}: {error}") from error
        return TopicSchemas(found, newest)

    async def _version(self, place: SchemaPlace) -> Definition | None:
        """Return one version; None if it was deleted."""
        # A topic that was deleted and made again has its versions in other ledgers.
        if place in self._known:
            self._known.move_to_end(place)
            return self._known[place]
        metadata = await self._cluster.ledger(place.ledger_id)
        if metadata is None:
            return None
        (entry,) = await LedgerReader(place.ledger_id, metadata, self._pool).read(place.entry_id, place.entry_id)
        schema = decode_schema(entry.payload)
        kind = _KINDS.get(schema.kind, schema.kind)
        self._known[place] = None if schema.deleted else Definition(kind, schema.definition, schema.properties)
        if len(self._known) > MAX_KNOWN_VERSIONS:
            self._known.popitem(last=False)
        return self._known[place]
