"""Versions of a topic's schema, and the types that they map to. Pure.

A message names the schema version that its value was written with. Values are read as the newest version, or as the schema of an
option. Avro resolves the two by its own rules; JSON and Protobuf match fields by name. A deleted version is an error, as for
stock clients.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from fastavro.read import SchemaResolutionError
from google.protobuf.message import DecodeError
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.schemas import decode_schema_version

from readonly_spark.values.avro import field_type
from readonly_spark.values.key_value import (
    INLINE,
    KEY,
    KEY_VALUE,
    SEPARATED,
    VALUE,
    KeyValueSchema,
    Part,
    format_key_value,
    parse_key_value,
)
from readonly_spark.values.protobuf import listed_message_class, message_class, message_type
from readonly_spark.values.type_names import LOCAL_TIMESTAMP, TIMESTAMP, TypeNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from google.protobuf.message import Message

NUMBERS: Final = {
    "INT8": (pa.int8(), ">b"),
    "INT16": (pa.int16(), ">h"),
    "INT32": (pa.int32(), ">i"),
    "INT64": (pa.int64(), ">q"),
    "FLOAT": (pa.float32(), ">f"),
    "DOUBLE": (pa.float64(), ">d"),
}
"""Pulsar's numeric schemas; values are big endian."""

TIMES: Final[dict[str, tuple[pa.DataType, str, Callable[..., int]]]] = {
    "DATE": (TIMESTAMP, ">q", lambda ms: ms * 1000),
    "TIMESTAMP": (TIMESTAMP, ">q", lambda ms: ms * 1000),
    "INSTANT": (TIMESTAMP, ">qi", lambda seconds, nanos: seconds * 10**6 + nanos // 1000),
    "TIME": (pa.int64(), ">q", lambda ms: ms),
    "LOCAL_DATE": (pa.date32(), ">q", lambda days: days),
    "LOCAL_TIME": (pa.int64(), ">q", lambda nanos: nanos),
    "LOCAL_DATE_TIME": (LOCAL_TIMESTAMP, ">qq", lambda days, nanos: days * 86_400 * 10**6 + nanos // 1000),
}
"""Pulsar's schemas of times (DateSchema, InstantSchema and so on): type, layout, and conversion of its numbers to the type.
A time of day is a number: ms for TIME, ns for LOCAL_TIME."""

_SAME_BYTES: Final = {("STRING", "JSON"), ("JSON", "STRING"), ("PROTOBUF", "PROTOBUF_NATIVE")}
"""Pairs of kinds whose bytes can be read as the other kind, whatever the version."""

KINDS: Final = (
    "AVRO", "JSON", "PROTOBUF", "PROTOBUF_NATIVE", KEY_VALUE, "STRING", "BOOLEAN", *NUMBERS, *sorted(TIMES), "BYTES"
)  # fmt: skip
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
    SchemaResolutionError,
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
        properties: the properties of the schema.
    """

    kind: str
    text: bytes = b""
    properties: Mapping[str, str] = field(default_factory=dict)

    def parts(self) -> tuple[Definition, Definition, bool]:
        """Return the definitions of key and value of a KEY_VALUE schema, and whether the key is that of the message.

        Raises:
            SchemaError: the definition is damaged.
        """
        try:
            found = parse_key_value(self.text, self.properties)
        except UNREADABLE as error:
            raise SchemaError(f"the KEY_VALUE schema is damaged: {error}") from error
        key, value = (Definition(part.kind, part.text, part.properties) for part in (found.key, found.value))
        return key, value, found.separated


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
        return written_as(found, self.newest)


def written_as(found: Definition, newest: Definition) -> Definition:
    """Return the definition to read a value with: its own, or the newest if its own does not describe the bytes."""
    if found.kind == "BYTES" or (found.kind, newest.kind) in _SAME_BYTES:
        return newest
    return found


def parse_definition(text: str) -> Definition:
    """Parse the option `valueSchema`, `{"type": "AVRO", "schema": {...}}`.

    Raises:
        SchemaError: the type is unknown.
    """
    return _definition(json.loads(text), "valueSchema")


def _definition(found: Any, where: str) -> Definition:
    if not isinstance(found, dict):
        raise SchemaError(f'{where} must be as {{"type": "AVRO", "schema": {{...}}}}')
    kind = str(found.get("type", "")).upper()
    if kind == "PROTOBUFNATIVE":
        kind = "PROTOBUF_NATIVE"
    if kind not in KINDS:
        raise SchemaError(f"{where}: type {found.get('type')!r} must be one of {', '.join(KINDS)}")
    if kind == KEY_VALUE:
        encoding = str(found.get("encoding", INLINE)).upper()
        if encoding not in {INLINE, SEPARATED}:
            raise SchemaError(f"{where}: encoding {found.get('encoding')!r} must be {INLINE} or {SEPARATED}")
        key, value = (_definition(found.get(name), f"{where}: {name}") for name in (KEY, VALUE))
        found_key, found_value = (Part(part.kind, part.text, part.properties) for part in (key, value))
        return Definition(kind, *format_key_value(KeyValueSchema(found_key, found_value, encoding == SEPARATED)))
    schema = found.get("schema", "")
    properties = found.get("properties", {})
    return Definition(kind, (schema if isinstance(schema, str) else json.dumps(schema)).encode(), properties)


def value_type(definition: Definition) -> pa.DataType:
    """Return the Arrow type of decoded values.

    Raises:
        SchemaError: values cannot be decoded, or Spark has no matching type.
    """
    kind = definition.kind
    if kind in NUMBERS:
        return NUMBERS[kind][0]
    if kind in TIMES:
        return TIMES[kind][0]
    simple = {"STRING": pa.string(), "BYTES": pa.binary(), "BOOLEAN": pa.bool_()}
    if kind in simple:
        return simple[kind]
    if kind == KEY_VALUE:
        key, value, _ = definition.parts()
        if KEY_VALUE in {key.kind, value.kind}:
            raise SchemaError("a part of a KEY_VALUE schema is one itself; set valueSchema=raw to read bytes")
        return pa.struct([pa.field(KEY, value_type(key)), pa.field(VALUE, value_type(value))])
    try:
        if kind in {"AVRO", "JSON"}:
            return field_type(json.loads(definition.text), unions=kind == "AVRO")
        if kind in {"PROTOBUF", "PROTOBUF_NATIVE"}:
            return message_type(message_of(definition).DESCRIPTOR)
    except (TypeNameError, *UNREADABLE) as error:
        raise SchemaError(f"unusable {kind} schema: {error}; set valueSchema=raw to read bytes") from error
    raise SchemaError(f"values of a {kind} schema cannot be decoded; set valueSchema=raw to read bytes")


def message_of(definition: Definition) -> type[Message]:
    """Return the class of a PROTOBUF or PROTOBUF_NATIVE schema.

    Raises:
        ValueError, KeyError, TypeError: the definition is malformed.
    """
    if definition.kind == "PROTOBUF":
        return listed_message_class(definition.properties)
    return message_class(definition.text)


def names_of(kind: pa.DataType) -> set[str]:
    """Return the names of a struct's fields; none for another type."""
    return {kind.field(index).name for index in range(kind.num_fields)} if pa.types.is_struct(kind) else set()
