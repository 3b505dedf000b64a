"""Avro payloads to Arrow columns in C, without an object for each value. Pure.

`compiled` turns a writer's schema, a reader's schema and an Arrow type into a program of `_avro.c`. It covers what most schemas
have: records, arrays, enums, null or one other type, the kept logical types, and Avro's rules for a reader's schema as far as
fields are added with null, removed or reordered, and numbers widened. For other schemas there is no program, and for a
payload that is not valid there is no result: `decoder.py` decodes both, and gives the errors.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import fastavro
import pyarrow as pa
from readonly_engine import native

from readonly_spark.values.avro import logical_type
from readonly_spark.values.type_names import TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NATIVE: Final = native.load("readonly_spark.values._avro")

MAX_NODES: Final = 10_000
"""Nodes of a program. Types that use each other twice would make a few lines a program that fills the memory."""

MAX_DEPTH: Final = 64
"""Depth of nested types; a recursive type of a field that nobody reads has no end."""

_NO_COLUMN: Final = -1
_MAX_PRECISION: Final = 38

# Kinds of columns and of nodes, in the order of _avro.c.
_BOOLS, _INT32S, _INT64S, _FLOATS, _DOUBLES, _TEXTS, _DECIMALS, _STRUCTS, _LISTS = range(9)
(
    _BOOLEAN, _INT, _LONG, _FLOAT, _DOUBLE, _BYTES, _STRING, _FIXED, _ENUM, _RECORD, _ARRAY, _MAP, _OPTION, _UNION, _NOTHING,
    _ABSENT, _DATE, _MILLIS, _MICROS, _DECIMAL,
) = range(20)  # fmt: skip

_COLUMNS: Final = {
    pa.bool_(): _BOOLS,
    pa.int32(): _INT32S,
    pa.int64(): _INT64S,
    pa.float32(): _FLOATS,
    pa.float64(): _DOUBLES,
    pa.string(): _TEXTS,
    pa.binary(): _TEXTS,
    pa.date32(): _INT32S,
    TIMESTAMP: _INT64S,
}

_PRIMITIVES: Final = {
    "boolean": (_BOOLEAN, {pa.bool_()}),
    "int": (_INT, {pa.int32(), pa.int64()}),
    "long": (_LONG, {pa.int64()}),
    "float": (_FLOAT, {pa.float32(), pa.float64()}),
    "double": (_DOUBLE, {pa.float64()}),
    "bytes": (_BYTES, {pa.binary()}),
    "string": (_STRING, {pa.string()}),
}
"""The node of each type, and the types of its column."""

_WIDER: Final = {("int", "long"), ("float", "double")}
_TIMES: Final = {
    "date": (_DATE, pa.date32()),
    "timestamp-millis": (_MILLIS, TIMESTAMP),
    "timestamp-micros": (_MICROS, TIMESTAMP),
}


class _UnsupportedError(Exception):
    """There is no program for the schemas."""


@dataclass(slots=True)
class _Column:
    """A column of the result.

    Attributes:
        index: its number in preorder.
        kind: its type.
        below: the columns of its fields, or of the list's items.
    """

    index: int
    kind: pa.DataType
    below: dict[str, _Column] = field(default_factory=dict)


_ITEM: Final = ""


def compiled(writer: bytes, reader: bytes, target: pa.DataType) -> Callable[[pa.Array], pa.Array | None] | None:
    """Return a function that decodes an Arrow array of payloads, or returns None for one that it cannot decode.

    Args:
        writer: the definition that the payloads were written with.
        reader: the definition to read them as.
        target: the type of the result.

    Returns:
        None if there is no program for this, or no module in C.
    """
    if _NATIVE is None:
        return None
    named: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    written, read = (
        fastavro.parse_schema(json.loads(text), named_schemas=names)
        for text, names in zip((writer, reader), named, strict=True)
    )
    program = _Program(*named)
    try:
        root = program.column(target)
        program.add(written, read, root, 0)
        program.check_size()
    except _UnsupportedError:
        return None
    decoder = _NATIVE.Decoder(program.nodes, program.columns, tuple(program.symbols))

    def decode(payloads: pa.Array) -> pa.Array | None:
        valid, offsets, data = payloads.buffers()
        if not payloads.null_count:
            valid = None
        if offsets is None:  # without rows
            return None
        parts = decoder.decode(offsets, data or b"", valid, payloads.offset, len(payloads))
        return None if parts is None else _arrow_array(root, parts)

    return decode


class _Program:
    """The nodes of a program.

    Args:
        written: named types of the writer's definition.
        read: named types of the reader's definition.
    """

    def __init__(self, written: Mapping[str, Any], read: Mapping[str, Any]) -> None:
        self._named = written, read
        self.nodes: list[tuple[int, int, int, int, int]] = []
        self.columns: list[tuple[int, int]] = []
        self.symbols: list[bytes] = []
        self._added = 0  # nodes that were ever added

    def column(self, kind: pa.DataType) -> _Column:
        """Add the columns of a type."""
        made = _Column(len(self.columns), kind)
        self.columns.append((0, 0))
        number = _COLUMNS.get(kind)
        if pa.types.is_struct(kind) and kind.num_fields:
            number = _STRUCTS
            names = [kind.field(at).name for at in range(kind.num_fields)]
            if len(set(names)) < len(names):
                raise _UnsupportedError
            made.below = {name: self.column(kind.field(at).type) for at, name in enumerate(names)}
        elif pa.types.is_list(kind):
            number = _LISTS
            made.below = {_ITEM: self.column(kind.value_type)}
        elif pa.types.is_decimal128(kind):
            number = _DECIMALS
        if number is None:
            raise _UnsupportedError
        self.columns[made.index] = (number, len(self.columns))
        return made

    def check_size(self) -> None:
        """Refuse a program that is too large."""
        if max(self._added, len(self.columns)) > MAX_NODES:
            raise _UnsupportedError

    def add(self, writer: Any, reader: Any, column: _Column | None, depth: int) -> None:
        """Add the nodes of a value.

        Args:
            writer: its part of the writer's definition.
            reader: its part of the reader's definition; None for none.
            column: where it goes; None to skip it.
            depth: of the nested types.

        Raises:
            _UnsupportedError: there is no program for this.
        """
        self.check_size()
        if depth > MAX_DEPTH:
            raise _UnsupportedError
        writer, reader = self._resolved(writer, 0), self._resolved(reader, 1)
        if isinstance(writer, list):
            self._union(writer, reader, column, depth)
            return
        if isinstance(reader, list):
            reader = self._resolved(_other(reader), 1)
        if isinstance(writer, str):
            writer = {"type": writer}
        if isinstance(reader, str):
            reader = {"type": reader}
        if not isinstance(writer.get("type"), str) or (reader is not None and not isinstance(reader.get("type"), str)):
            raise _UnsupportedError
        if logical_type(writer) is not None or logical_type(reader) is not None:
            self._logical(writer, reader, column)
            return
        kind = writer["type"]
        if kind in _PRIMITIVES:
            self._primitive(kind, reader, column)
            return
        if reader is not None and reader["type"] != kind:
            raise _UnsupportedError
        if kind == "null":
            if column is not None:
                raise _UnsupportedError
            self._leaf(_NOTHING, None)
        elif kind == "record":
            self._record(writer, reader, column, depth)
        elif kind == "array":
            self._array(writer, reader, column, depth)
        elif kind == "map" and column is None:
            index = self._open(_MAP)
            self.add(writer["values"], None if reader is None else reader["values"], None, depth + 1)
            self._close(index)
        elif kind in {"enum", "fixed"}:
            self._named_text(writer, reader, column)
        else:
            raise _UnsupportedError

    def _resolved(self, definition: Any, side: int) -> Any:
        return self._named[side].get(definition, definition) if isinstance(definition, str) else definition

    def _leaf(self, kind: int, column: _Column | None, argument: int = 0, more: int = 0) -> None:
        number = _NO_COLUMN if column is None else column.index
        self._added += 1
        self.nodes.append((kind, number, len(self.nodes) + 1, argument, more))

    def _open(self, kind: int, column: _Column | None = None, argument: int = 0, more: int = 0) -> int:
        self._leaf(kind, column, argument, more)
        return len(self.nodes) - 1

    def _close(self, index: int) -> None:
        kind, column, _, argument, more = self.nodes[index]
        self.nodes[index] = (kind, column, len(self.nodes), argument, more)

    def _is_empty(self, first: int) -> bool:
        """Return whether the nodes from the `first` read no byte."""
        return all(
            kind in {_NOTHING, _RECORD, _ABSENT} or (kind == _FIXED and not size)
            for kind, _, _, size, _ in self.nodes[first:]
        )

    def _union(self, writer: list[Any], reader: Any, column: _Column | None, depth: int) -> None:
        if len(writer) == 2 and "null" in writer:
            inner = _other(reader) if isinstance(reader, list) else reader
            refused = reader is not None and inner is reader  # the reader has no null
            index = self._open(_OPTION, column, writer.index("null"), int(refused))
            self.add(_other(writer), inner, column, depth + 1)
            self._close(index)
            return
        if column is not None or (reader is not None and reader != writer):
            raise _UnsupportedError
        index = self._open(_UNION)
        for member in writer:
            self.add(member, None, None, depth + 1)
        self._close(index)

    def _logical(self, writer: dict[str, Any], reader: dict[str, Any] | None, column: _Column | None) -> None:
        """Add a number or bytes by the reader's logical type, in the unit of the writer's if it has one; see meaning.py."""
        if reader is None:
            self._primitive_or_named(writer, None, column)
            return
        written, read = logical_type(writer), logical_type(reader)
        if read == "decimal":
            self._decimal(writer, reader, column)
            return
        time = _TIMES.get(read or "")
        if time is None or written == "decimal":
            if None not in {written, read} and written != read:
                raise _UnsupportedError
            self._primitive_or_named(writer, reader, column)
            return
        stated = _TIMES.get(written or str(read))
        if stated is None or stated[1] != time[1] or writer["type"] != reader["type"]:
            raise _UnsupportedError
        if column is not None and column.kind != time[1]:
            raise _UnsupportedError
        self._leaf(stated[0], column)

    def _primitive_or_named(
        self, writer: dict[str, Any], reader: dict[str, Any] | None, column: _Column | None
    ) -> None:
        if writer["type"] in _PRIMITIVES:
            self._primitive(writer["type"], reader, column)
        elif reader is None or reader["type"] == writer["type"]:
            self._named_text(writer, reader, column)
        else:
            raise _UnsupportedError

    def _decimal(self, writer: dict[str, Any], reader: dict[str, Any], column: _Column | None) -> None:
        precision, scale, size = reader["precision"], reader.get("scale", 0), reader.get("size", 0)
        if any(writer.get(part) != reader.get(part) for part in ("type", "size", "name")):
            raise _UnsupportedError
        if (
            logical_type(writer) not in {None, "decimal"}
            or precision > _MAX_PRECISION
            or (logical_type(writer) and (writer["precision"], writer.get("scale", 0)) != (precision, scale))
        ):
            raise _UnsupportedError
        if column is not None and column.kind != pa.decimal128(precision, scale):
            raise _UnsupportedError
        self._leaf(_DECIMAL, column, size, precision)

    def _primitive(self, kind: str, reader: dict[str, Any] | None, column: _Column | None) -> None:
        if reader is not None and reader["type"] != kind and (kind, reader["type"]) not in _WIDER:
            raise _UnsupportedError
        node, columns = _PRIMITIVES[kind]
        if column is not None and column.kind not in columns:
            raise _UnsupportedError
        self._leaf(node, column)

    def _named_text(self, writer: dict[str, Any], reader: dict[str, Any] | None, column: _Column | None) -> None:
        if reader is not None and reader["name"] != writer["name"]:
            raise _UnsupportedError
        arrow = pa.string() if writer["type"] == "enum" else pa.binary()
        if column is not None and column.kind != arrow:
            raise _UnsupportedError
        if writer["type"] == "fixed":
            if reader is not None and reader["size"] != writer["size"]:
                raise _UnsupportedError
            self._leaf(_FIXED, column, writer["size"])
            return
        if reader is not None and not set(writer["symbols"]) <= set(reader["symbols"]):
            raise _UnsupportedError
        self._leaf(_ENUM, column, len(self.symbols), len(writer["symbols"]))
        self.symbols += [symbol.encode() for symbol in writer["symbols"]]

    def _array(self, writer: dict[str, Any], reader: dict[str, Any] | None, column: _Column | None, depth: int) -> None:
        if column is not None and not pa.types.is_list(column.kind):
            raise _UnsupportedError
        index = self._open(_ARRAY, column)
        items = None if reader is None else reader["items"]
        self.add(writer["items"], items, None if column is None else column.below[_ITEM], depth + 1)
        if self._is_empty(index + 1):  # any number of such items may follow
            raise _UnsupportedError
        self._close(index)

    def _record(
        self, writer: dict[str, Any], reader: dict[str, Any] | None, column: _Column | None, depth: int
    ) -> None:
        if column is not None and not pa.types.is_struct(column.kind):
            raise _UnsupportedError
        columns = {} if column is None else dict(column.below)
        read = {} if reader is None else _fields(reader)
        if reader is not None and reader["name"] != writer["name"]:
            raise _UnsupportedError
        written = _fields(writer)
        index = self._open(_RECORD, column)
        for name, kind in written.items():
            inner = read.get(name)
            if inner is None:
                first = len(self.nodes)
                self.add(kind["type"], None, None, depth + 1)
                if self._is_empty(first):
                    del self.nodes[first:]
            else:
                self.add(kind["type"], inner["type"], columns.pop(name, None), depth + 1)
        for name, kind in read.items():
            # Python's decoder fills other defaults in, and refuses a field without one.
            if name not in written and ("default" not in kind or kind["default"] is not None):
                raise _UnsupportedError
        for absent in columns.values():
            self._leaf(_ABSENT, absent)
        self._close(index)


def _fields(record: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a record by name, if nothing has an alias."""
    fields = {one["name"]: one for one in record["fields"]}
    if len(fields) < len(record["fields"]) or any("aliases" in one for one in (record, *fields.values())):
        raise _UnsupportedError
    return fields


def _other(union: list[Any]) -> Any:
    """Return the type of a union of null and one other type."""
    if len(union) != 2 or "null" not in union:
        raise _UnsupportedError
    return union[1 - union.index("null")]


def _arrow_array(column: _Column, parts: list[tuple[int, int, Any, Any, Any]]) -> pa.Array:
    """Return the array of a column and those below it."""
    rows, nulls, *found = parts[column.index]
    valid, offsets, data = (None if one is None else pa.py_buffer(one) for one in found)
    below = [_arrow_array(one, parts) for one in column.below.values()]
    if below:
        buffers = [valid] if pa.types.is_struct(column.kind) else [valid, offsets]
        return pa.Array.from_buffers(column.kind, rows, buffers, nulls, children=below)
    buffers = [valid, data] if offsets is None else [valid, offsets, data]
    return pa.Array.from_buffers(column.kind, rows, buffers, nulls)
