"""A topic's schemas in Pulsar's registry: a znode with the location of each version, and one entry for each version."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from google.protobuf.message import DecodeError

from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.schema_pb2 import SchemaEntry, SchemaInfo, SchemaLocator

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSION_BYTES = 8


class SchemaPlace(NamedTuple):
    """Location of one version of a schema."""

    version: int
    ledger_id: int
    entry_id: int


class StoredSchema(NamedTuple):
    """One version of a schema.

    Attributes:
        kind: the name of a SchemaInfo.Type.
        definition: the definition, in the format of its kind; empty for primitive kinds.
        deleted: whether this version deletes the schema.
        properties: the properties of the schema; some kinds have parts of their definition there.
    """

    kind: str
    definition: bytes
    deleted: bool = False
    properties: Mapping[str, str] = {}


def decode_schema_locator(value: bytes) -> list[SchemaPlace]:
    """Decode a schema's znode: its versions, ascending.

    Raises:
        MalformedFrameError: not a schema's znode.
    """
    try:
        locator = SchemaLocator.FromString(value)
    except DecodeError as error:
        raise MalformedFrameError("a schema's znode is damaged") from error
    places = {
        entry.version: SchemaPlace(entry.version, entry.position.ledger_id, entry.position.entry_id)
        for entry in (*locator.index, locator.info)
    }
    return [places[version] for version in sorted(places)]


def decode_schema(payload: bytes) -> StoredSchema:
    """Decode the entry of one version.

    Raises:
        MalformedFrameError: not a schema.
    """
    try:
        info = SchemaInfo.FromString(SchemaEntry.FromString(payload).schema_data)
    except DecodeError as error:
        raise MalformedFrameError("an entry of a schema ledger is damaged") from error
    properties = {str(pair.key): str(pair.value) for pair in info.props}
    return StoredSchema(SchemaInfo.Type.Name(info.type), info.schema, info.deleted, properties)


def decode_schema_version(version: bytes) -> int:
    """Decode the version's number in messages (LongSchemaVersion).

    Raises:
        MalformedFrameError: another length.
    """
    if len(version) != _VERSION_BYTES:
        raise MalformedFrameError(f"a schema version of {len(version)} bytes; expected {_VERSION_BYTES} bytes")
    return int.from_bytes(version, "big", signed=True)
