"""Values by their schema: which type a topic's values have, and how columns of them are made. Pure.

A value was written by the version of the schema that its message names. It is read as the newest one, or as the one that an
option gives: Avro resolves the two by its own rules; JSON and Protobuf go by the names of fields. A version that was deleted is
an error, as it is for stock clients.
"""

from __future__ import annotations

import io
import json
import struct
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import fastavro
import pyarrow as pa
from google.protobuf.message import DecodeError
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.schemas import decode_schema_version

from readonly_spark.values.avro import FieldType, field_type, for_reading
from readonly_spark.values.protobuf import message_class, message_type, to_python
from readonly_spark.values.type_names import TIMESTAMP, TypeNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_NUMBERS: Final = {
    "INT8": (pa.int8(), ">b"),
    "INT16": (pa.int16(), ">h"),
    "INT32": (pa.int32(), ">i"),
    "INT64": (pa.int64(), ">q"),
    "FLOAT": (pa.float32(), ">f"),
    "DOUBLE": (pa.float64(), ">d"),
}
"""Pulsar's primitive schemas, big endian."""

_TIMES: Final = {"DATE", "TIMESTAMP"}
"""ms since the epoch, 8 bytes, big endian (DateSchema, TimestampSchema)."""

_SAME_BYTES: Final = {("STRING", "JSON"), ("JSON", "STRING"), ("PROTOBUF", "PROTOBUF_NATIVE")}
"""Kinds of which the bytes of one can be read as the other, whatever their version."""

KINDS: Final = ("AVRO", "JSON", "PROTOBUF_NATIVE", "STRING", "BOOLEAN", *_NUMBERS, *sorted(_TIMES), "BYTES")
"""Schemas that can be decoded."""

_UNREADABLE: Final = (
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
"""What the decoders say of bytes that are no value of their schema."""


class SchemaError(ValueError):
    """A schema that cannot be used."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One version of a schema.

    Attributes:
        kind: one of KINDS, or another that cannot be decoded.
        text: what it says, in the way of its kind.
    """

    kind: str
    text: bytes = b""


@dataclass(frozen=True, slots=True)
class ValueSchema:
    """How the values of topics are decoded.

    Attributes:
        newest: the version as which they are read.
        versions: the versions with which they were written.
        nulls: whether a value that cannot be decoded becomes null; else it is an error.
        unversioned: whether a message that names no version was written by the newest.
    """

    newest: Definition
    versions: Mapping[int, Definition] = field(default_factory=dict)
    nulls: bool = False
    unversioned: bool = True

    def writer(self, version: bytes | None) -> Definition:
        """How a message was written.

        Args:
            version: the version that it names; None for none.

        Raises:
            SchemaError: that is not known, or nothing that can be read as the newest.
            MalformedFrameError: it is no version of Pulsar's.
        """
        if version is None:
            if not self.unversioned:
                raise SchemaError("the message names no version of its schema, and the newest was deleted")
            return self.newest
        number = decode_schema_version(version)
        found = self.versions.get(number)
        if found is None:
            raise SchemaError(f"the message names version {number} of its schema, which was deleted")
        if found.kind in {"BYTES", self.newest.kind}:
            return self.newest if found.kind == "BYTES" else found
        if (found.kind, self.newest.kind) in _SAME_BYTES:
            return self.newest
        return found


def parse_definition(text: str) -> Definition:
    """The definition that an option gives, `{"type": "AVRO", "schema": {...}}`.

    Raises:
        SchemaError: none.
    """
    found = json.loads(text)
    kind = str(found.get("type", "")).upper()
    if kind == "PROTOBUFNATIVE":
        kind = "PROTOBUF_NATIVE"
    if kind not in KINDS:
        raise SchemaError(f"valueSchema: type {found.get('type')!r} would be one of {', '.join(KINDS)}")
    schema = found.get("schema", "")
    return Definition(kind, (schema if isinstance(schema, str) else json.dumps(schema)).encode())


def value_type(definition: Definition) -> pa.DataType:
    """The type that values are read as.

    Raises:
        SchemaError: they cannot be decoded, or Spark has no such type.
    """
    return _field_type(definition).arrow


def _field_type(definition: Definition) -> FieldType:
    kind = definition.kind
    if kind in _NUMBERS:
        return FieldType(_NUMBERS[kind][0])
    simple = {"STRING": pa.string(), "BYTES": pa.binary(), "BOOLEAN": pa.bool_(), **dict.fromkeys(_TIMES, TIMESTAMP)}
    if kind in simple:
        return FieldType(simple[kind])
    try:
        if kind in {"AVRO", "JSON"}:
            return field_type(json.loads(definition.text))
        if kind == "PROTOBUF_NATIVE":
            return FieldType(message_type(message_class(definition.text).DESCRIPTOR))
    except (TypeNameError, *_UNREADABLE) as error:
        raise SchemaError(f"a schema of kind {kind} cannot be used: {error}; valueSchema=raw reads bytes") from error
    raise SchemaError(f"values of a schema of kind {kind} cannot be decoded; valueSchema=raw reads bytes")


class ValueDecoder:
    """Makes columns of values.

    Args:
        schema: how they were written, and how they are read.
        target: the column's type, which can have fewer fields or, from a newer schema, more.
    """

    def __init__(self, schema: ValueSchema, target: pa.DataType) -> None:
        self._schema = schema
        self._target = target
        self._readers: dict[bytes | None, Callable[[bytes], Any]] = {}

    def column(
        self,
        values: Sequence[bytes | None],
        versions: Sequence[bytes | None],
        encrypted: Sequence[bool] | None = None,
    ) -> pa.Array:
        """Decode values.

        Args:
            values: the payloads; None stays null.
            versions: the version of the schema that each message names; None for none.
            encrypted: whether each is ciphertext; None where none is.

        Raises:
            SchemaError: one cannot be decoded, and that is an error.
        """
        secret = encrypted or repeat(False, len(values))
        found = [
            None if value is None or (hidden and self._hidden()) else self._value(value, version)
            for value, version, hidden in zip(values, versions, secret, strict=True)
        ]
        try:
            return pa.array(found, self._target)
        except _UNREADABLE:
            return pa.array([self._fitting(one) for one in found], self._target)

    def _hidden(self) -> bool:
        """What ciphertext becomes: True for null."""
        if not self._schema.nulls:
            raise SchemaError(
                "an entry is encrypted, so no schema can decode it; valueSchema=raw reads what is stored, decodeErrors=null "
                "makes null of it"
            )
        return True

    def _value(self, value: bytes, version: bytes | None) -> Any:
        try:
            reader = self._readers.get(version)
            if reader is None:
                reader = self._readers[version] = self._reader(version)
            return reader(value)
        except _UNREADABLE as error:
            return self._unreadable(value, error)

    def _fitting(self, found: Any) -> Any:
        """A value that Arrow takes for the column's type."""
        try:
            pa.array([found], self._target)
        except _UNREADABLE as error:
            return self._unreadable(found, error)
        return found

    def _unreadable(self, value: Any, error: Exception) -> None:
        if not self._schema.nulls:
            shown = repr(value)[:60]
            raise SchemaError(
                f"value {shown} is none of its {self._schema.newest.kind} schema: {error}; decodeErrors=null makes null of it"
            ) from error

    def _reader(self, version: bytes | None) -> Callable[[bytes], Any]:
        newest = self._schema.newest
        writer = self._schema.writer(version)
        kind = writer.kind
        resolved = newest if kind == newest.kind == "AVRO" else writer
        _check_fits(_field_type(resolved).arrow, self._target, "")
        if kind in _NUMBERS:
            layout = struct.Struct(_NUMBERS[kind][1])
            return lambda value: layout.unpack(value)[0]
        if kind in _TIMES:
            return lambda value: struct.unpack(">q", value)[0] * 1000
        if kind == "AVRO":
            return self._avro_reader(writer, resolved)
        if kind == "JSON":
            convert = _field_type(writer).from_json
            return json.loads if convert is None else lambda value: convert(json.loads(value))
        if kind == "PROTOBUF_NATIVE":
            made = message_class(writer.text)
            return lambda value: to_python(made.FromString(value))
        simple: dict[str, Callable[[bytes], Any]] = {
            "STRING": lambda value: value.decode(),
            "BOOLEAN": lambda value: struct.unpack(">?", value)[0],
        }
        return simple.get(kind, lambda value: value)

    def _avro_reader(self, writer: Definition, resolved: Definition) -> Callable[[bytes], Any]:
        parsed = fastavro.parse_schema(for_reading(json.loads(writer.text)))
        convert = _as_pairs(self._target)
        if writer == resolved:
            return partial(_from_avro, parsed, None, convert)
        wanted = fastavro.parse_schema(for_reading(json.loads(resolved.text)))
        read = partial(_from_avro, parsed, wanted, convert)
        # A query keeps the type with which it was planned: what the newest version has dropped is taken from what wrote it.
        dropped = _names(self._target) - _names(_field_type(resolved).arrow)
        if not dropped:
            return read
        kept = _field_type(writer).arrow
        if dropped.isdisjoint(_names(kept)):
            return read
        _check_fits(kept, self._target, "", dropped)
        whole = partial(_from_avro, parsed, None, convert)
        return lambda value: {**{name: one for name, one in whole(value).items() if name in dropped}, **read(value)}


def _names(kind: pa.DataType) -> set[str]:
    return {kind.field(index).name for index in range(kind.num_fields)} if pa.types.is_struct(kind) else set()


def _check_fits(found: pa.DataType, wanted: pa.DataType, where: str, only: set[str] | None = None) -> None:
    """See that Arrow, which takes an integer for a time, makes no other value of what was decoded.

    Args:
        found: the type of what is decoded.
        wanted: the column's type.
        where: the field, for the error.
        only: names of fields of a struct to look at; None for all.

    Raises:
        SchemaError: it may. What does not fit at all Arrow itself refuses.
    """
    types = pa.types
    if types.is_struct(found) and types.is_struct(wanted):
        for name in _names(found) & _names(wanted):
            if only is None or name in only:
                _check_fits(found.field(name).type, wanted.field(name).type, f"{where}.{name}".lstrip("."))
        return
    if types.is_list(found) and types.is_list(wanted):
        _check_fits(found.value_type, wanted.value_type, f"{where}[]")
        return
    if types.is_map(found) and types.is_map(wanted):
        _check_fits(found.item_type, wanted.item_type, f"{where}{{}}")
        return
    promoted = types.is_integer(found) and (types.is_integer(wanted) or types.is_floating(wanted))
    promoted = promoted or (types.is_float32(found) and types.is_float64(wanted))
    if found != wanted and not promoted:
        raise SchemaError(f"{where or 'the value'} was written as {found}, and is read as {wanted}")


def _from_avro(writer: Any, reader: Any, convert: Callable[[Any], Any] | None, value: bytes) -> Any:
    found = fastavro.schemaless_reader(io.BytesIO(value), writer, reader)
    return found if convert is None else convert(found)


def _as_pairs(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Makes of the dictionaries that are maps what Arrow takes for one; None where there are no maps."""
    if pa.types.is_map(kind):
        inner = _as_pairs(kind.item_type)
        return lambda found: (
            None if found is None else [(key, inner(one) if inner else one) for key, one in found.items()]
        )
    if pa.types.is_list(kind):
        item = _as_pairs(kind.value_type)
        return None if item is None else lambda found: None if found is None else [item(one) for one in found]
    if pa.types.is_struct(kind):
        fields = {kind.field(index).name: _as_pairs(kind.field(index).type) for index in range(kind.num_fields)}
        maps = {name: convert for name, convert in fields.items() if convert is not None}
        if maps:
            return lambda found: (
                None
                if found is None
                else {name: maps[name](one) if name in maps else one for name, one in found.items()}
            )
    return None
