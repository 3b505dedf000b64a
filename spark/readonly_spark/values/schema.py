"""Versions of a topic's schema, and the types that they map to. Pure.

A message names the schema version that its value was written with. Values are read as the newest version, or as the schema of an
option. Avro resolves the two by its own rules; JSON and Protobuf match fields by name. A deleted version is an error, as for
stock clients.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from google.protobuf.message import DecodeError
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.schemas import decode_schema_version

from readonly_spark.values.avro import FieldType, field_type
from readonly_spark.values.protobuf import message_class, message_type
from readonly_spark.values.type_names import TIMESTAMP, TypeNameError

if TYPE_CHECKING:
    from collections.abc import Mapping

NUMBERS: Final = {
    "INT8": (pa.int8(), ">b"),
    "INT16": (pa.int16(), ">h"),
    "INT32": (pa.int32(), ">i"),
    "INT64": (pa.int64(), ">q"),
    "FLOAT": (pa.float32(), ">f"),
    "DOUBLE": (pa.float64(), ">d"),
}
"""Pulsar's numeric schemas; values are big endian."""

TIMES: Final = {"DATE", "TIMESTAMP"}
"""ms since the epoch, 8 bytes, big endian (DateSchema, TimestampSchema)."""

_SAME_BYTES: Final = {("STRING", "JSON"), ("JSON", "STRING"), ("PROTOBUF", "PROTOBUF_NATIVE")}
"""Pairs of kinds whose bytes can be read as the other kind, whatever the version."""

KINDS: Final = ("AVRO", "JSON", "PROTOBUF_NATIVE", "STRING", "BOOLEAN", *NUMBERS, *sorted(TIMES), "BYTES")
"""Kinds of schemas that can be decoded."""

UNREADABLE: Final = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    EOFError,
    OverflowError,
    RecursionError,
    struct.error,
    DecodeError,
    pa.ArrowException,
    MalformedFrameError,
)
"""Exceptions of the decoders for bytes that do not match their schema."""


class SchemaError(ValueError):
    """An unusable schema."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One version of a schema.

    Attributes:
        kind: one of KINDS, or a kind that cannot be decoded.
        text: the definition, in the format of its kind.
    """

    kind: str
    text: bytes = b""


@dataclass(frozen=True, slots=True)
class ValueSchema:
    """The schema to decode a topic's values.

    Attributes:
        newest: the version to read values as.
        versions: the versions that values were written with.
        nulls: True if a value that cannot be decoded becomes null; False if it is an error.
        unversioned: True if a message without a version was written with the newest one.
    """

    newest: Definition
    versions: Mapping[int, Definition] = field(default_factory=dict)
    nulls: bool = False
    unversioned: bool = True

    def writer(self, version: bytes | None) -> Definition:
        """Return the schema that a message was written with.

        Args:
            version: the version that the message names; None for none.

        Raises:
            SchemaError: the version was deleted.
            MalformedFrameError: the bytes are not a schema version.
        """
        if version is None:
            if not self.unversioned:
                raise SchemaError("the message names no schema version, and the newest version was deleted")
            return self.newest
        number = decode_schema_version(version)
        found = self.versions.get(number)
        if found is None:
            raise SchemaError(f"the message names schema version {number}, which was deleted")
        if found.kind in {"BYTES", self.newest.kind}:
            return self.newest if found.kind == "BYTES" else found
        if (found.kind, self.newest.kind) in _SAME_BYTES:
            return self.newest
        return found


def parse_definition(text: str) -> Definition:
    """Parse the option `valueSchema`, `{"type": "AVRO", "schema": {...}}`.

    Raises:
        SchemaError: the type is unknown.
    """
    found = json.loads(text)
    kind = str(found.get("type", "")).upper()
    if kind == "PROTOBUFNATIVE":
        kind = "PROTOBUF_NATIVE"
    if kind not in KINDS:
        raise SchemaError(f"valueSchema: type {found.get('type')!r} must be one of {', '.join(KINDS)}")
    schema = found.get("schema", "")
    return Definition(kind, (schema if isinstance(schema, str) else json.dumps(schema)).encode())


def value_type(definition: Definition) -> pa.DataType:
    """Return the Arrow type of decoded values.

    Raises:
        SchemaError: values cannot be decoded, or Spark has no matching type.
    """
    return value_field_type(definition).arrow


def value_field_type(definition: Definition) -> FieldType:
    """Return the Arrow type of decoded values, and the conversion from JSON.

    Raises:
        SchemaError: values cannot be decoded, or Spark has no matching type.
    """
    kind = definition.kind
    if kind in NUMBERS:
        return FieldType(NUMBERS[kind][0])
    simple = {"STRING": pa.string(), "BYTES": pa.binary(), "BOOLEAN": pa.bool_(), **dict.fromkeys(TIMES, TIMESTAMP)}
    if kind in simple:
        return FieldType(simple[kind])
    try:
        if kind in {"AVRO", "JSON"}:
            return field_type(json.loads(definition.text))
        if kind == "PROTOBUF_NATIVE":
            return FieldType(message_type(message_class(definition.text).DESCRIPTOR))
    except (TypeNameError, *UNREADABLE) as error:
        raise SchemaError(f"unusable {kind} schema: {error}; set valueSchema=raw to read bytes") from error
    raise SchemaError(f"values of a {kind} schema cannot be decoded; set valueSchema=raw to read bytes")
