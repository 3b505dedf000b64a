"""Limits of an Avro payload, checked before fastavro reads it. Pure.

fastavro has none (1.12, measured). A record within itself 20,000 times, which is 40 kB, ends the process. Items without bytes
make 2**60 values of ten bytes. A field that only the reader's schema has is a value in each item. So payloads that could do
this are walked first: the walk counts the values, and builds none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from readonly_spark.values.avro import is_struct_union
from readonly_spark.values.value_limits import MAX_VALUES, UNCOUNTED_PER_BYTE, ValueLimitError, check_values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_NESTED: Final = 100
"""Records within each other, as in Protobuf. fastavro ended the process at 20,000, and not yet at 900."""

_TEXT_PER_VALUE: Final = 8
"""Bytes of a default that count as one value."""

_BYTES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_LONGS: Final = {"int", "long", "enum"}
_MAX_LONG: Final = 10


class _Cursor:
    """A place in a payload.

    Args:
        payload: the payload.
    """

    __slots__ = ("at", "nested", "payload", "values")

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.at = 0
        self.values = 0
        self.nested = 0

    def move(self, size: int) -> None:
        """Pass some bytes."""
        self.at += size
        if size < 0 or self.at > len(self.payload):
            raise EOFError("the payload is too short")

    def count(self, values: int) -> None:
        """Count values."""
        self.values += values
        check_values(self.values)

    def long(self) -> int:
        """Read a number."""
        value = shift = 0
        for at in range(self.at, min(self.at + _MAX_LONG, len(self.payload))):
            byte = self.payload[at]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                self.at = at + 1
                return (value >> 1) ^ -(value & 1)
        raise EOFError("a number of the payload has no end")


@dataclass(slots=True)
class _Part:
    """A part of the writer's schema, as its reader reads it.

    Attributes:
        walk: passes a value, and counts its values.
        shortest: bytes of its shortest value.
        values: largest number of its values, without those of arrays and maps.
        per_byte: largest number of values per byte in its arrays and maps; infinite where there is no bound.
    """

    walk: Callable[[_Cursor], object]
    shortest: int = 0
    values: float = 1
    per_byte: float = 0.0


class AvroLimits:
    """Count the values of payloads.

    Args:
        writer: the schema that the payloads were written with, as `fastavro.parse_schema` returns it.
        written: its named types.
        reader: the schema to read them as; None for the writer's.
        read: its named types.
    """

    def __init__(
        self, writer: Any, written: Mapping[str, Any], reader: Any = None, read: Mapping[str, Any] | None = None
    ) -> None:
        self._written = written
        self._read = written if read is None else read
        self._records: dict[tuple[str, str | None], _Part] = {}
        self._root = self._compile(writer, writer if reader is None else reader)

    def values(self, payload: bytes) -> int:
        """Return the number of values, or a larger one that no payload of this size can exceed.

        Raises:
            ValueLimitError: the payload has more than MAX_VALUES, or more than MAX_NESTED records within each other.
            EOFError: the payload is too short for its schema.
            IndexError: a union has no such member.
        """
        root = self._root
        most = root.values + (root.per_byte * len(payload) if root.per_byte else 0)
        if most <= min(MAX_VALUES, UNCOUNTED_PER_BYTE * (len(payload) + UNCOUNTED_PER_BYTE)):
            return int(most)
        cursor = _Cursor(payload)
        cursor.count(1)
        root.walk(cursor)
        return cursor.values

    def _compile(self, writer: Any, reader: Any) -> _Part:
        """Return a part; `reader` is None for what is not read."""
        writer, reader = _resolved(writer, self._written), _resolved(reader, self._read)
        if isinstance(writer, list):
            return self._union(writer, reader)
        if isinstance(reader, list):
            reader = _matching(writer, [_resolved(one, self._read) for one in reader])
        kind = _kind(writer)
        if kind in _BYTES:
            size = _BYTES[kind]
            return _Part(lambda cursor: cursor.move(size), size)
        if kind in _LONGS:
            return _Part(_Cursor.long, 1)
        if kind in {"bytes", "string"}:
            return _Part(lambda cursor: cursor.move(cursor.long()), 1)
        if kind == "fixed":
            fixed = int(writer["size"])
            return _Part(lambda cursor: cursor.move(fixed), fixed)
        if kind == "record":
            return self._record(writer, reader if _kind(reader) == "record" else None)
        if kind in {"array", "map"}:
            below = "items" if kind == "array" else "values"
            inner = self._compile(writer[below], reader[below] if _kind(reader) == kind else None)
            return _blocks(inner, keyed=kind == "map")
        return self._compile(writer["type"], reader)

    def _union(self, writer: list[Any], reader: Any) -> _Part:
        members = [self._compile(one, reader) for one in writer]
        columns = self._columns(reader)
        # A value of a struct for several types has a null in the columns of each other type.
        nulls = [columns if _kind(one) == "null" or is_struct_union(reader) else 0 for one in writer]

        def walk(cursor: _Cursor) -> None:
            branch = cursor.long()
            if not 0 <= branch < len(members):
                raise IndexError(f"a union of {len(members)} types has no member {branch}")
            cursor.count(nulls[branch])
            members[branch].walk(cursor)

        return _Part(
            walk,
            1 + min((one.shortest for one in members), default=0),
            max((one.values for one in members), default=1) + columns,
            max((one.per_byte for one in members), default=0.0),
        )

    def _columns(self, reader: Any) -> int:
        """Return the number of columns of a type: a null of a struct is one in each of them. 0 for what is not read."""
        reader = _resolved(reader, self._read)
        if isinstance(reader, list):
            return (
                1 + sum(map(self._columns, reader))
                if is_struct_union(reader)
                else max(map(self._columns, reader), default=0)
            )
        if _kind(reader) == "record":
            return 1 + sum(self._columns(one["type"]) for one in reader["fields"])
        return 0 if reader is None else 1

    def _record(self, writer: Mapping[str, Any], reader: Mapping[str, Any] | None) -> _Part:
        key = writer["name"], None if reader is None else reader["name"]
        known = self._records.get(key)
        if known is not None:
            return known

        def walk(cursor: _Cursor) -> None:
            cursor.count(own)
            cursor.nested += 1
            if cursor.nested > MAX_NESTED:
                raise ValueLimitError(f"the payload has more than {MAX_NESTED} records within each other")
            for one in walked:
                one.walk(cursor)
            cursor.nested -= 1

        # A record within itself finds this part, and its values have no bound.
        part = self._records[key] = _Part(walk, 0, math.inf, math.inf)
        read = {} if reader is None else {one["name"]: one for one in reader["fields"]}
        renamed = {alias: name for name, one in read.items() for alias in one.get("aliases", ())}
        fields = []
        for field in writer["fields"]:
            found = read.pop(field["name"], None) or read.pop(renamed.get(field["name"]), None)
            fields.append(self._compile(field["type"], None if found is None else found["type"]))
        own = len(fields) + sum(_default_values(one.get("default")) for one in read.values())
        part.shortest = sum(one.shortest for one in fields)
        part.values = 1 + own - len(fields) + sum(one.values for one in fields)
        part.per_byte = max((one.per_byte for one in fields), default=0.0)
        # Types without bytes that use each other twice would be walked 2**60 times.
        walked = [one for one in fields if one.shortest or math.isinf(one.values)]
        own += sum(int(one.values) for one in fields if not one.shortest and not math.isinf(one.values))
        return part


def _blocks(item: _Part, *, keyed: bool) -> _Part:
    """Return the part of an array, or of a map if `keyed`."""

    def walk(cursor: _Cursor) -> None:
        while count := cursor.long():
            if count < 0:
                cursor.long()  # the size of the block
                count = -count
            if not item.shortest and not keyed and not math.isinf(item.values):
                cursor.count(count * int(item.values))  # items without bytes
                continue
            cursor.count(count)
            for _ in range(count):
                if keyed:
                    cursor.move(cursor.long())
                item.walk(cursor)

    shortest = item.shortest + keyed
    per_byte = (item.values + keyed) / shortest if shortest else math.inf
    return _Part(walk, 1, 1, max(per_byte, item.per_byte))


def _resolved(definition: Any, named: Mapping[str, Any]) -> Any:
    return named.get(definition, definition) if isinstance(definition, str) else definition


def _kind(definition: Any) -> Any:
    kind = definition["type"] if isinstance(definition, dict) else definition
    return "record" if kind == "error" else kind


def _matching(writer: Any, reader: list[Any]) -> Any:
    """Return the member of a reader's union for a type; of several the one with most values, as far as names do not tell."""
    kind = _kind(writer)
    same = [one for one in reader if _kind(one) == kind]
    if kind == "record":
        called = [one for one in same if one["name"] == writer["name"]]
        return max(called or same, key=lambda one: len(one["fields"]), default=None)
    return same[0] if same else next((one for one in reader if _kind(one) != "null"), None)


def _default_values(default: Any) -> int:
    """Return what a default counts for."""
    if isinstance(default, dict):
        return 1 + sum(map(_default_values, default.values()))
    if isinstance(default, list):
        return 1 + sum(map(_default_values, default))
    return 1 + (len(default) // _TEXT_PER_VALUE if isinstance(default, str) else 0)
