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

from readonly_spark.values.avro import parse_avro, plain_definition
from readonly_spark.values.avro_limits import AvroLimits
from readonly_spark.values.avro_resolution import resolution
from readonly_spark.values.column_readers import column_reader
from readonly_spark.values.json_values import json_reader
from readonly_spark.values.key_value import KEY, KEY_VALUE, VALUE, message_pair
from readonly_spark.values.meaning import check_fits
from readonly_spark.values.protobuf import to_python
from readonly_spark.values.protobuf_limits import ProtobufLimits
from readonly_spark.values.schema import (
    NUMBERS,
    TIMES,
    UNREADABLE,
    SchemaError,
    message_of,
    value_type,
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
        self._refused: dict[bytes | None, Exception] = {}
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
            if version in self._refused:
                raise self._refused[version].with_traceback(None)
            writer = self._schema.writer(version)
            try:
                reader = _reader_of(writer, self._schema.newest, self._target, self._counted)
            except UNREADABLE as error:
                self._refused[version] = error
                raise
            self._readers[version] = reader
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
    resolved = newest if kind == newest.kind and kind in {"AVRO", "JSON"} else writer
    check_fits(value_type(resolved), target, "")
    if kind in NUMBERS:
        layout = struct.Struct(NUMBERS[kind][1])
        return lambda value: layout.unpack(value)[0]
    if kind in TIMES:
        _, times, convert_time = TIMES[kind]
        return lambda value: convert_time(*struct.unpack(times, value))
    if kind == "AVRO":
        return _avro_reader(writer, resolved, target, counted)
    if kind == "JSON":
        written, read = (parse_avro(json.loads(one.text)) for one in (writer, resolved))
        return _counting(json_reader(written, read, target), target, counted)
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
        pair = message_pair(separated, *found)
        if pair is None:
            return None
        return {
            name: None if part is None else parts[name](part)
            for name, part in zip((KEY, VALUE), pair, strict=True)
            if name in parts
        }

    return read


def _avro_reader(
    writer: Definition, resolved: Definition, target: pa.DataType, counted: _Counted
) -> Callable[[bytes], Any]:
    written, read = (parse_avro(json.loads(one.text)) for one in (writer, resolved))
    limits = AvroLimits(*written, *read)
    plain = fastavro.parse_schema(plain_definition(written[0]))
    convert = resolution(written, read, target)

    def decode(value: bytes) -> Any:
        counted.values += limits.values(value)
        found = fastavro.schemaless_reader(io.BytesIO(value), plain, None)
        return found if convert is None else convert(found)

    return decode


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


def _from_protobuf(limits: ProtobufLimits, made: Any, value: bytes) -> Any:
    limits.check(value)
    return to_python(made.FromString(value))
