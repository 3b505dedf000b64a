"""Schemas of topics, read from the storage of Pulsar's schema registry."""

from __future__ import annotations

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


async def read_schemas(
    store: MetadataStore, cluster: ClusterMetadata, pool: BookiePool, topic: TopicName
) -> TopicSchemas:
    """Read every version of a topic's schema; none for a topic without a schema.

    Args:
        store: the metadata store.
        cluster: Pulsar's metadata in this store.
        pool: connections to the bookies.
        topic: the topic, or a partition.

    Raises:
        SourceError: the stored schema is damaged.
        MetadataError: the metadata store does not answer.
        BookKeeperError: a version cannot be read.
    """
    base = topic.base
    node = await store.get(f"/schemas/{base.tenant}/{base.namespace}/{encode_name(base.local_name)}")
    if node is None:
        return TopicSchemas({}, None)
    found: dict[int, Definition] = {}
    newest = None
    try:
        for place in decode_schema_locator(node.value):
            newest = place.version
            metadata = await cluster.ledger(place.ledger_id)
            if metadata is None:
                continue  # the version was deleted
            (entry,) = await LedgerReader(place.ledger_id, metadata, pool).read(place.entry_id, place.entry_id)
            schema = decode_schema(entry.payload)
            if not schema.deleted:
                kind = _KINDS.get(schema.kind, schema.kind)
                found[place.version] = Definition(kind, schema.definition, schema.properties)
    except WireError as error:
        raise SourceError(f"the schema of {base}: {error}") from error
    return TopicSchemas(found, newest)
