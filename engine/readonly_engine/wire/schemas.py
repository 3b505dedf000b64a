"""A topic's schemas as Pulsar's registry stores them: a znode that tells where each version is, and one entry a version."""

from __future__ import annotations

from typing import NamedTuple

from google.protobuf.message import DecodeError

from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.schema_pb2 import SchemaEntry, SchemaInfo, SchemaLocator

_VERSION_BYTES = 8


class SchemaPlace(NamedTuple):
    """Where one version of a schema is."""

    version: int
    ledger_id: int
    entry_id: int


class StoredSchema(NamedTuple):
    """One version of a schema.

    Attributes:
        kind: the name of a SchemaInfo.Type.
        definition: what it says, in the way of its kind; empty for primitive ones.
        deleted: whether the schema was deleted by this version.
    """

    kind: str
    definition: bytes
    deleted: bool = False


def decode_schema_locator(value: bytes) -> list[SchemaPlace]:
    """Every version that a schema's znode knows, ascending.

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
    """One version, from its entry.

    Raises:
        MalformedFrameError: not a schema.
    """
    try:
        info = SchemaInfo.FromString(SchemaEntry.FromString(payload).schema_data)
    except DecodeError as error:
        raise MalformedFrameError("an entry of a schema ledger is damaged") from error
    return StoredSchema(SchemaInfo.Type.Name(info.type), info.schema, info.deleted)


def decode_schema_version(version: bytes) -> int:
    """The version's number as messages have it (LongSchemaVersion).

    Raises:
        MalformedFrameError: of another form.
    """
    if len(version) != _VERSION_BYTES:
        raise MalformedFrameError(f"a schema version of {len(version)} bytes; {_VERSION_BYTES} are right")
    return int.from_bytes(version, "big", signed=True)
