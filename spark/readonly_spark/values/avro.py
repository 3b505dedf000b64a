"""Avro schemas to Arrow types; Pulsar's JSON schemas are Avro definitions too. Pure."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType

from readonly_spark.values.type_names import TIMESTAMP, TypeNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PRIMITIVE: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}

_ONE_TYPE: Final = {"long": {"int", "long"}, "double": {"float", "double"}}
"""Unions whose members Spark reads as one type."""

KEPT_LOGICAL: Final = {"date", "timestamp-millis", "timestamp-micros", "decimal"}
"""Other logical types are read as their base type: a time of day as a number, a UUID as a string."""


MAX_FIELDS: Final = 10_000
"""Fields of a definition. Types that use each other twice would make a few lines a type that fills the memory."""


@dataclass(frozen=True, slots=True)
class FieldType:
    """The type of a field.

    Attributes:
        arrow: the Arrow type.
        from_json: converts a JSON value to a value that Arrow accepts; None if they are the same.
    """

    arrow: pa.DataType
    from_json: Callable[[Any], Any] | None = None


def field_type(definition: Any, *, unions: bool = False) -> FieldType:
    """Return the type of an Avro definition; names of types are resolved with their namespaces.

    Args:
        definition: the parsed JSON.
        unions: whether a union of several types is a struct with a field for each, as in Spark's own Avro functions.

    Raises:
        TypeNameError: the definition is not valid, or Spark has no such type, for example a recursive one.
    """
    named: dict[str, Any] = {}
    try:
        parsed = fastavro.parse_schema(definition, named_schemas=named)
    except UnknownType as error:
        raise TypeNameError(f"type {error.name!r} is not defined") from None
    except (SchemaParseException, TypeError) as error:
        raise TypeNameError(f"{str(definition)[:60]} is not an Avro definition: {error}") from None
    return _Types(named, unions=unions).of(parsed, ())


class _Types:
    """Types of a definition whose names are resolved.

    Args:
        named: definitions of the named types, by full name.
        unions: see `field_type`.
    """

    def __init__(self, named: Mapping[str, Any], *, unions: bool) -> None:
        self._named = named
        self._unions = unions
        self._fields = 0

    def of(self, definition: Any, within: tuple[str, ...]) -> FieldType:
        """Return the type of a part of the definition; `within` has the names of the enclosing records."""
        if isinstance(definition, list):
            return self._union([one for one in definition if one != "null"], within)
        if isinstance(definition, str):
            if definition in _PRIMITIVE:
                return FieldType(_PRIMITIVE[definition], _bytes_from_json if definition == "bytes" else None)
            if definition in within:
                raise TypeNameError(f"type {definition} contains itself")
            if definition in self._named:
                return self.of(self._named[definition], within)
            raise TypeNameError(f"type {definition} is not supported")
        if definition.get("logicalType") in KEPT_LOGICAL:
            return _logical(definition)
        kind = definition["type"]
        if kind == "record":
            return self._record(definition, within)
        if kind == "enum":
            return FieldType(pa.string())
        if kind == "fixed":
            return FieldType(pa.binary(), _bytes_from_json)
        if kind == "array":
            item = self.of(definition["items"], within)
            return FieldType(pa.list_(pa.field("element", item.arrow)), _each(item.from_json))
        if kind == "map":
            item = self.of(definition["values"], within)
            return FieldType(pa.map_(pa.string(), item.arrow), _each_value(item.from_json))
        return self.of(kind, within)

    def _union(self, members: list[Any], within: tuple[str, ...]) -> FieldType:
        if len(members) == 1:
            return self.of(members[0], within)
        for widest, one_type in _ONE_TYPE.items():
            if self._unions and _are(members, one_type):
                return FieldType(_PRIMITIVE[widest])
        if not members or not self._unions:
            raise TypeNameError(f"a union of {len(members)} types is not supported; use null and one other type")
        self._count(len(members))
        found = [self.of(member, within).arrow for member in members]
        return FieldType(pa.struct([pa.field(_member(number), kind) for number, kind in enumerate(found)]))

    def _count(self, fields: int) -> None:
        self._fields += fields
        if self._fields > MAX_FIELDS:
            raise TypeNameError(f"the definition has more than {MAX_FIELDS:,} fields, each use of a named type counted")

    def _record(self, definition: Mapping[str, Any], within: tuple[str, ...]) -> FieldType:
        inside = (*within, definition["name"])
        self._count(len(definition["fields"]))
        fields = {field["name"]: self.of(field["type"], inside) for field in definition["fields"]}
        if not fields:
            raise TypeNameError(f"record {definition['name']!r} has no fields")
        converters = {name: field.from_json for name, field in fields.items() if field.from_json is not None}

        def convert(found: Any) -> Any:
            if not isinstance(found, dict):
                return found
            return {
                name: converters[name](value) if name in converters and value is not None else value
                for name, value in found.items()
            }

        struct = pa.struct([pa.field(name, field.arrow) for name, field in fields.items()])
        return FieldType(struct, convert if converters else None)


def _logical(definition: Mapping[str, Any]) -> FieldType:
    logical = definition["logicalType"]
    if logical == "date":
        return FieldType(pa.date32())
    if logical == "timestamp-millis":
        return FieldType(TIMESTAMP, lambda found: found * 1000 if isinstance(found, int) else found)
    if logical == "timestamp-micros":
        return FieldType(TIMESTAMP)
    return FieldType(pa.decimal128(definition["precision"], definition.get("scale", 0)))


def _bytes_from_json(found: Any) -> Any:
    return base64.b64decode(found) if isinstance(found, str) else found  # as Jackson writes them


def _each(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    if convert is None:
        return None
    return lambda found: [None if one is None else convert(one) for one in found] if isinstance(found, list) else found


def _each_value(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    def pairs(found: Any) -> Any:
        if not isinstance(found, dict):
            return found
        return [(key, value if convert is None or value is None else convert(value)) for key, value in found.items()]

    return pairs


def _are(members: list[Any], names: set[str]) -> bool:
    return all(isinstance(member, str) and member in names for member in members)


def _member(number: int) -> str:
    """Return the name of a union's member in a struct, as Spark's `from_avro` gives it."""
    return f"member{number}"


def for_reading(definition: Any) -> Any:
    """Return the definition in a form that an Avro reader gives values for that Arrow accepts; the stored bytes are the same.

    Only the supported logical types are left. Each member of a union of several types becomes a record with one field, whose
    bytes are those of the field: so the value tells which member it is.
    """
    if _has_struct_unions(definition):
        definition = fastavro.parse_schema(definition)  # full names: a record around a type changes its namespace
    return _for_reading(definition, "")


def _is_struct_union(definition: Any) -> bool:
    if not isinstance(definition, list):
        return False
    members = [one for one in definition if one != "null"]
    return len(members) > 1 and not any(_are(members, one_type) for one_type in _ONE_TYPE.values())


def _has_struct_unions(definition: Any) -> bool:
    if isinstance(definition, list):
        return _is_struct_union(definition) or any(map(_has_struct_unions, definition))
    if not isinstance(definition, dict):
        return False
    parts = [definition.get(key) for key in ("type", "items", "values")]
    fields = definition.get("fields")
    return any(map(_has_struct_unions, [*parts, *(fields if isinstance(fields, list) else ())]))


def _for_reading(definition: Any, where: str) -> Any:
    """Return a part of the definition in this form.

    Args:
        definition: the part.
        where: its place, which no other part has, as a part of a name.
    """
    if isinstance(definition, list):
        if not _is_struct_union(definition):
            return [_for_reading(one, where) for one in definition]
        members = [one for one in definition if one != "null"]
        return [one if one == "null" else _wrapped(one, members.index(one), where) for one in definition]
    if not isinstance(definition, dict):
        return definition
    fields = definition.get("fields")
    if isinstance(fields, list):
        where = _escaped(str(definition.get("name")))
    found = {}
    for key, value in definition.items():
        if value is fields and isinstance(value, list):
            names = [one.get("name") if isinstance(one, dict) else None for one in value]
            found[key] = [
                _for_reading(one, f"{where}_f{_escaped(str(name))}") for one, name in zip(value, names, strict=True)
            ]
        elif key in {"type", "items", "values"}:
            found[key] = _for_reading(value, where if key == "type" else f"{where}_{key[0]}")
        elif not key.startswith("__") and (key != "logicalType" or value in KEPT_LOGICAL):
            found[key] = value
    return found


def _escaped(name: str) -> str:
    """Return a name without dots; other names have other results."""
    return name.replace("_", "_u").replace(".", "_d")


def _wrapped(member: Any, number: int, where: str) -> dict[str, Any]:
    field = {"name": _member(number), "type": _for_reading(member, f"{where}_{number}")}
    return {"type": "record", "name": f"union_{where}_{number}", "namespace": "", "fields": [field]}
