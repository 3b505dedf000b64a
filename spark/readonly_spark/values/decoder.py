"""Payloads to an Arrow column, by the schema that each message names. Pure."""

from __future__ import annotations

import io
import json
import struct
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import fastavro
import pyarrow as pa
import pyarrow.compute as pc

from readonly_spark.values.avro import for_reading
from readonly_spark.values.avro_limits import AvroLimits
from readonly_spark.values.column_readers import column_reader
from readonly_spark.values.key_value import KEY, KEY_VALUE, VALUE, split_pair
from readonly_spark.values.protobuf import to_python
from readonly_spark.values.protobuf_limits import ProtobufLimits
from readonly_spark.values.schema import (
    NUMBERS,
    TIMES,
    UNREADABLE,
    SchemaError,
    message_of,
    names_of,
    value_field_type,
    written_as,
)
from readonly_spark.values.value_limits import MAX_BATCH_VALUES, check_values, value_counter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from readonly_spark.values.column_readers import ColumnReader
    from readonly_spark.values.schema import Definition, ValueSchema


MAX_VERSIONS: Final = 16
"""Schema versions in one record batch up to which whole arrays are decoded: each is a pass over the payloads."""

PIECE_VALUES: Final = 1 << 20
"""Values that are Python objects at a time; a payload whose values are not counted has at most one for each byte."""


class _Counted:
    """Number of values that the payloads of one record batch had."""

    values = 0


class ValueDecoder:
    """Decode values to a column.

    Args:
        schema: the versions that the values were written with, and the one to read them as.
        target: the column's type; it can have fewer fields than the schema or, from a newer schema, more.
    """

    def __init__(self, schema: ValueSchema, target: pa.DataType) -> None:
        self._schema = schema
        self._target = target
        self._readers: dict[bytes | None, Callable[[Any], Any]] = {}
        self._column_readers: dict[bytes | None, ColumnReader | None] = {}
        self._counted = _Counted()

    @property
    def keyed(self) -> bool:
        """Whether values have a part in the key of their message."""
        return self._schema.newest.kind == KEY_VALUE

    def decode(
        self,
        values: pa.Array,
        versions: pa.Array,
        encrypted: Sequence[bool] | None = None,
        keys: pa.Array | None = None,
    ) -> pa.Array:
        """Decode Arrow arrays, as arrays where that can be done; `column` has the arguments, and decodes one by one.

        Raises:
            SchemaError: a value cannot be decoded, and `decodeErrors` is `fail`; or values are too large for one record batch.
        """
        try:
            whole = self._whole(values, versions, keys if self.keyed else None) if encrypted is None else None
        except OverflowError as error:  # too much for one record batch
            raise SchemaError(str(error)) from error
        if whole is not None:
            return whole
        return self.column(
            values.to_pylist(), versions.to_pylist(), encrypted, None if keys is None else keys.to_pylist()
        )

    def _whole(self, values: pa.Array, versions: pa.Array, keys: pa.Array | None) -> pa.Array | None:
        """Decode values as arrays, one for each version; None if that cannot be done."""
        distinct = versions.unique()
        if not 0 < len(distinct) <= MAX_VERSIONS:
            return None
        if len(distinct) == 1:
            return self._of_version(distinct[0].as_py(), values, keys)
        places, parts = [], []
        for version in distinct:
            place = pc.indices_nonzero(pc.equal(versions, version) if version.is_valid else pc.is_null(versions))
            part = self._of_version(version.as_py(), values.take(place), None if keys is None else keys.take(place))
            if part is None:
                return None
            places.append(place)
            parts.append(part)
        return pa.concat_arrays(parts).take(pc.array_sort_indices(pa.concat_arrays(places)))

    def _of_version(self, version: bytes | None, values: pa.Array, keys: pa.Array | None) -> pa.Array | None:
        if version not in self._column_readers:
            try:
                self._reader(version)  # it refuses what cannot be read
                writer = self._schema.writer(version)
                self._column_readers[version] = column_reader(writer, self._schema.newest, self._target)
            except UNREADABLE:
                self._column_readers[version] = None  # `column` gives the error, or null
        read = self._column_readers[version]
        return None if read is None else read(values, keys)

    def column(
        self,
        values: Sequence[bytes | None],
        versions: Sequence[bytes | None],
        encrypted: Sequence[bool] | None = None,
        keys: Sequence[bytes | None] | None = None,
    ) -> pa.Array:
        """Decode values.

        Args:
            values: the payloads; None stays null, except for a KEY_VALUE schema whose key is that of the message.
            versions: the schema version that each message names; None for none.
            encrypted: whether each payload is encrypted; None if none is.
            keys: the keys of the messages, if `keyed`.

        Raises:
            SchemaError: a value cannot be decoded, and `decodeErrors` is `fail`; or values are too many for one record batch.
        """
        flags = encrypted or repeat(False, len(values))
        payloads: Sequence[Any] = values
        if self.keyed:
            assert keys is not None
            payloads = [
                None if key is None and value is None else (key, value) for key, value in zip(keys, values, strict=True)
            ]
        self._counted.values = 0
        pieces: list[pa.Array] = []
        found: list[Any] = []
        size = begun = 0
        for payload, value, version, hidden in zip(payloads, values, versions, flags, strict=True):
            if payload is None or (hidden and self._null_for_encrypted()):
                found.append(None)
            else:
                found.append(self._value(payload, version))
                size += len(value or b"")
            if self._counted.values > MAX_BATCH_VALUES:
                raise SchemaError(
                    f"the payloads of one record batch have more than {MAX_BATCH_VALUES:,} values; set a smaller batchBytes"
                )
            if max(size, self._counted.values) - begun > PIECE_VALUES:
                pieces.append(self._array(found))
                found, begun = [], max(size, self._counted.values)
        last = self._array(found)
        return pa.concat_arrays([*pieces, last]) if pieces else last

    def _array(self, found: list[Any]) -> pa.Array:
        try:
            return pa.array(found, self._target)
        except UNREADABLE:
            return pa.array([self._fitting(one) for one in found], self._target)

    def _null_for_encrypted(self) -> bool:
        """Return True if an encrypted payload becomes null, else raise."""
        if not self._schema.nulls:
            raise SchemaError(
                "an entry is encrypted and cannot be decoded; set valueSchema=raw to read stored bytes, or "
                "decodeErrors=null to read null"
            )
        return True

    def _value(self, value: Any, version: bytes | None) -> Any:
        try:
            return self._reader(version)(value)
        except UNREADABLE as error:
            return self._unreadable(value, error)

    def _fitting(self, found: Any) -> Any:
        """Return the value if Arrow accepts it for the column's type."""
        try:
            pa.array([found], self._target)
        except UNREADABLE as error:
            return self._unreadable(found, error)
        return found

    def _unreadable(self, value: Any, error: Exception) -> None:
        if not self._schema.nulls:
            shown = repr(value)[:60]
            raise SchemaError(
                f"value {shown} does not match its {self._schema.newest.kind} schema: {error}; set decodeErrors=null to read null"
            ) from error

    def _reader(self, version: bytes | None) -> Callable[[Any], Any]:
        reader = self._readers.get(version)
        if reader is None:
            writer = self._schema.writer(version)
            reader = self._readers[version] = _reader_of(writer, self._schema.newest, self._target, self._counted)
        return reader


def _reader_of(writer: Definition, newest: Definition, target: pa.DataType, counted: _Counted) -> Callable[[Any], Any]:
    """Return a function that decodes a payload; for a KEY_VALUE schema the key of the message and the payload.

    Args:
        writer: the schema that the payload was written with.
        newest: the schema to read it as.
        target: the column's type.
        counted: gets the number of values.

    Raises:
        SchemaError: values cannot be decoded, or Arrow might reinterpret them.
    """
    kind = writer.kind
    if kind == KEY_VALUE:
        return _key_value_reader(writer, newest, target, counted)
    resolved = newest if kind == newest.kind == "AVRO" else writer
    _check_fits(value_field_type(resolved).arrow, target, "")
    if kind in NUMBERS:
        layout = struct.Struct(NUMBERS[kind][1])
        return lambda value: layout.unpack(value)[0]
    if kind in TIMES:
        _, times, convert_time = TIMES[kind]
        return lambda value: convert_time(*struct.unpack(times, value))
    if kind == "AVRO":
        return _avro_reader(writer, resolved, target, counted)
    if kind == "JSON":
        convert = value_field_type(writer).from_json
        return _counting(json.loads if convert is None else lambda value: convert(json.loads(value)), target, counted)
    if kind in {"PROTOBUF", "PROTOBUF_NATIVE"}:
        made = message_of(writer)
        limits = ProtobufLimits(made.DESCRIPTOR)
        return _counting(partial(_from_protobuf, limits, made), target, counted)
    simple: dict[str, Callable[[bytes], Any]] = {
        "STRING": lambda value: value.decode(),
        "BOOLEAN": lambda value: struct.unpack(">?", value)[0],
    }
    return simple.get(kind, lambda value: value)


def _key_value_reader(
    writer: Definition, newest: Definition, target: pa.DataType, counted: _Counted
) -> Callable[[Any], Any]:
    if newest.kind != KEY_VALUE or not pa.types.is_struct(target):
        raise SchemaError(f"a value was written as {KEY_VALUE}, and is read as {newest.kind}")
    key, value, separated = writer.parts()
    newest_key, newest_value, _ = newest.parts()
    parts = {
        name: _reader_of(written_as(one, to), to, target.field(name).type, counted)
        for name, one, to in ((KEY, key, newest_key), (VALUE, value, newest_value))
        if target.get_field_index(name) >= 0
    }

    def read(found: tuple[bytes | None, bytes | None]) -> dict[str, Any] | None:
        message_key, payload = found
        if not separated and payload is None:
            return None
        pair = (message_key, payload) if separated else split_pair(payload or b"")
        return {
            name: None if part is None else parts[name](part)
            for name, part in zip((KEY, VALUE), pair, strict=True)
            if name in parts
        }

    return read


def _avro_reader(
    writer: Definition, resolved: Definition, target: pa.DataType, counted: _Counted
) -> Callable[[bytes], Any]:
    written: dict[str, Any] = {}
    parsed = fastavro.parse_schema(for_reading(json.loads(writer.text)), named_schemas=written)
    convert = _as_pairs(target)
    if writer == resolved:
        return _limited(AvroLimits(parsed, written), partial(_from_avro, parsed, None, convert), counted)
    named: dict[str, Any] = {}
    reader = fastavro.parse_schema(for_reading(json.loads(resolved.text)), named_schemas=named)
    limits = AvroLimits(parsed, written, reader, named)
    read = _limited(limits, partial(_from_avro, parsed, reader, convert), counted)
    # A query keeps the type that it was planned with: fields that the newest version dropped come from the writer's version.
    dropped = names_of(target) - names_of(value_field_type(resolved).arrow)
    if not dropped:
        return read
    kept = value_field_type(writer).arrow
    if dropped.isdisjoint(names_of(kept)):
        return read
    _check_fits(kept, target, "", dropped)
    whole = _limited(AvroLimits(parsed, written), partial(_from_avro, parsed, None, convert), counted)

    def both(value: bytes) -> Any:
        found = read(value)
        return found and {name: one for name, one in whole(value).items() if name in dropped} | found

    return both


def _limited(limits: AvroLimits, read: Callable[[bytes], Any], counted: _Counted) -> Callable[[bytes], Any]:
    def limited(value: bytes) -> Any:
        counted.values += limits.values(value)
        return read(value)

    return limited


def _counting(read: Callable[[bytes], Any], target: pa.DataType, counted: _Counted) -> Callable[[bytes], Any]:
    """Return a reader that refuses too many values. It sees them after `read`, which has less than a byte for each."""
    count = value_counter(target)
    if count is None:
        return read

    def counting(value: bytes) -> Any:
        found = read(value)
        values = count(found)
        check_values(values)
        counted.values += values
        return found

    return counting


def _check_fits(found: pa.DataType, target: pa.DataType, where: str, only: set[str] | None = None) -> None:
    """Check that Arrow does not reinterpret decoded values: it accepts an integer as a time, for example.

    Args:
        found: the type of the decoded values.
        target: the column's type.
        where: the field, for the error.
        only: names of the struct fields to check; None for all.

    Raises:
        SchemaError: Arrow may reinterpret a value. Arrow itself refuses types that do not fit at all.
    """
    types = pa.types
    if types.is_struct(found) and types.is_struct(target):
        for name in names_of(found) & names_of(target):
            if only is None or name in only:
                _check_fits(found.field(name).type, target.field(name).type, f"{where}.{name}".lstrip("."))
        return
    if types.is_list(found) and types.is_list(target):
        _check_fits(found.value_type, target.value_type, f"{where}[]")
        return
    if types.is_map(found) and types.is_map(target):
        _check_fits(found.item_type, target.item_type, f"{where}{{}}")
        return
    promoted = types.is_integer(found) and (types.is_integer(target) or types.is_floating(target))
    promoted = promoted or (types.is_float32(found) and types.is_float64(target))
    if found != target and not promoted:
        raise SchemaError(f"{where or 'the value'} was written as {found}, and is read as {target}")


def _from_protobuf(limits: ProtobufLimits, made: Any, value: bytes) -> Any:
    limits.check(value)
    return to_python(made.FromString(value))


def _from_avro(writer: Any, reader: Any, convert: Callable[[Any], Any] | None, value: bytes) -> Any:
    found = fastavro.schemaless_reader(io.BytesIO(value), writer, reader)
    return found if convert is None else convert(found)


def _as_pairs(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Return a function that turns dictionaries of map types into pairs, as Arrow expects; None without map types."""
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
