"""Readers of whole Arrow arrays, for kinds of schemas whose payloads need no object each. Pure."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from readonly_spark.values.key_value import KEY, KEY_VALUE, VALUE, message_pair
from readonly_spark.values.native_avro import compiled
from readonly_spark.values.schema import UNREADABLE, names_of, value_type, written_as

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_spark.values.schema import Definition

    ColumnReader = Callable[[pa.Array, pa.Array | None], pa.Array | None]
    """A function of payloads and, for a KEY_VALUE schema, of the messages' keys; None for an array that it cannot decode."""

_PAIR: Final = (KEY, VALUE)


def column_reader(writer: Definition, newest: Definition, target: pa.DataType) -> ColumnReader | None:
    """Return a function that decodes an array of payloads, or returns None if one of them is not valid.

    Args:
        writer: the schema that the payloads were written with.
        newest: the schema to read them as.
        target: the column's type.

    Returns:
        None if each payload has to be decoded alone (`ValueDecoder.column`).
    """
    if writer.kind == newest.kind == KEY_VALUE:
        return _pair_reader(writer, newest, target)
    read = _reader(writer, newest, target)
    return None if read is None else lambda payloads, _: read(payloads)


def _reader(
    writer: Definition, newest: Definition, target: pa.DataType
) -> Callable[[pa.Array], pa.Array | None] | None:
    if writer.kind == newest.kind == "AVRO":
        return None if _dropped(writer, newest, target) else compiled(writer.text, newest.text, target)
    if writer.kind == "BYTES" and target == pa.binary():
        return lambda payloads: payloads
    if writer.kind == "STRING" and target == pa.string():
        return _texts
    return None


def _texts(payloads: pa.Array) -> pa.Array | None:
    try:
        return payloads.cast(pa.string())
    except UNREADABLE:
        return None


def _pair_reader(writer: Definition, newest: Definition, target: pa.DataType) -> ColumnReader | None:
    """Return the reader of a KEY_VALUE schema, for parts that have readers."""
    *written, separated = writer.parts()
    read_as = dict(zip(_PAIR, newest.parts()[:2], strict=True))
    fields = [target.field(at) for at in range(target.num_fields)]
    definitions = dict(zip(_PAIR, written, strict=True))
    readers = {
        one.name: _reader(written_as(definitions[one.name], read_as[one.name]), read_as[one.name], one.type)
        for one in fields
        if one.name in definitions
    }
    if len(readers) < len(fields) or None in readers.values():
        return None

    def read(payloads: pa.Array, keys: pa.Array | None) -> pa.Array | None:
        assert keys is not None
        if separated and not keys.null_count:
            pair, nulls = {KEY: keys, VALUE: payloads}, None
        else:
            try:
                found = list(map(partial(message_pair, separated), keys.to_pylist(), payloads.to_pylist()))
            except UNREADABLE:
                return None
            pair = {name: pa.array([one and one[at] for one in found], pa.binary()) for at, name in enumerate(_PAIR)}
            nulls = pa.array([one is None for one in found])
        parts = [decode(pair[name]) for name, decode in readers.items() if decode is not None]
        if any(one is None for one in parts):
            return None
        return pa.StructArray.from_arrays(parts, fields=fields, mask=nulls)

    return read


def _dropped(writer: Definition, newest: Definition, target: pa.DataType) -> bool:
    """Return whether the column has a field that the writer has, and the newest version has not: it keeps the writer's values."""
    return writer != newest and _lost(target, value_type(newest), value_type(writer))


def _lost(target: pa.DataType, newest: pa.DataType, writer: pa.DataType) -> bool:
    types = pa.types
    if all(map(types.is_list, (target, newest, writer))):
        return _lost(target.value_type, newest.value_type, writer.value_type)
    kept = names_of(newest)
    return any(
        name not in kept or _lost(*(kind.field(name).type for kind in (target, newest, writer)))
        for name in names_of(target) & names_of(writer)
    )
