"""Avro schemas to Arrow types; Pulsar's JSON schemas are Avro definitions too. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType

from readonly_spark.values.type_names import TIMESTAMP, TypeNameError

if TYPE_CHECKING:
    from collections.abc import Mapping

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

_LOGICAL: Final = {"date": pa.date32(), "timestamp-millis": TIMESTAMP, "timestamp-micros": TIMESTAMP}
"""Other logical types but decimals are read as their base type: a time of day as a number, a UUID as a string."""

_BASES: Final = {
    "date": {"int"},
    "time-millis": {"int"},
    "decimal": {"bytes", "fixed"},
    "uuid": {"string", "fixed"},
    "duration": {"fixed"},
    "time-micros": {"long"},
    **{f"{zone}timestamp-{unit}": {"long"} for zone in ("", "local-") for unit in ("millis", "micros", "nanos")},
}
"""Avro's logical types (specification 1.12), and the types that can have them."""

MAX_FIELDS: Final = 10_000
"""Fields of a definition. Types that use each other twice would make a few lines a type that fills the memory."""


def parse_avro(definition: Any) -> tuple[Any, dict[str, Any]]:
    """Return an Avro definition whose names of types are resolved with their namespaces, and its named types.

    Raises:
        TypeNameError: the definition is not valid.
    """
    named: dict[str, Any] = {}
    try:
        return fastavro.parse_schema(definition, named_schemas=named), named
    except UnknownType as error:
        raise TypeNameError(f"type {error.name!r} is not defined") from None
    except (SchemaParseException, TypeError) as error:
        raise TypeNameError(f"{str(definition)[:60]} is not an Avro definition: {error}") from None


def field_type(definition: Any, *, unions: bool = False) -> pa.DataType:
    """Return the Arrow type of an Avro definition.

    Args:
        definition: the parsed JSON.
        unions: whether a union of several types is a struct with a field for each, as in Spark's own Avro functions.

    Raises:
        TypeNameError: the definition is not valid, or Spark has no such type, for example a recursive one.
    """
    parsed, named = parse_avro(definition)
    return parsed_type(parsed, named, unions=unions)


def parsed_type(parsed: Any, named: Mapping[str, Any], *, unions: bool) -> pa.DataType:
    """Return the Arrow type of a part of a definition that `parse_avro` returned; `field_type` has the errors."""
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

    def of(self, definition: Any, within: tuple[str, ...]) -> pa.DataType:
        """Return the type of a part of the definition; `within` has the names of the enclosing records."""
        if isinstance(definition, list):
            return self._union([one for one in definition if one != "null"], within)
        if isinstance(definition, str):
            if definition in _PRIMITIVE:
                return _PRIMITIVE[definition]
            if definition in within:
                raise TypeNameError(f"type {definition} contains itself")
            if definition in self._named:
                return self.of(self._named[definition], within)
            raise TypeNameError(f"type {definition} is not supported")
        logical = logical_type(definition)
        if logical == "decimal":
            return pa.decimal128(definition["precision"], definition.get("scale", 0))
        if logical in _LOGICAL:
            return _LOGICAL[logical]
        kind = definition["type"]
        if kind == "record":
            return self._record(definition, within)
        if kind == "enum":
            return pa.string()
        if kind == "fixed":
            return pa.binary()
        if kind == "array":
            return pa.list_(pa.field("element", self.of(definition["items"], within)))
        if kind == "map":
            return pa.map_(pa.string(), self.of(definition["values"], within))
        return self.of(kind, within)

    def _union(self, members: list[Any], within: tuple[str, ...]) -> pa.DataType:
        if len(members) == 1:
            return self.of(members[0], within)
        widest = widest_of(members)
        if self._unions and widest is not None:
            return _PRIMITIVE[widest]
        if not members or not self._unions:
            raise TypeNameError(f"a union of {len(members)} types is not supported; use null and one other type")
        self._count(len(members))
        found = [self.of(member, within) for member in members]
        return pa.struct([pa.field(member_name(number), kind) for number, kind in enumerate(found)])

    def _count(self, fields: int) -> None:
        self._fields += fields
        if self._fields > MAX_FIELDS:
            raise TypeNameError(f"the definition has more than {MAX_FIELDS:,} fields, each use of a named type counted")

    def _record(self, definition: Mapping[str, Any], within: tuple[str, ...]) -> pa.DataType:
        inside = (*within, definition["name"])
        self._count(len(definition["fields"]))
        fields = [pa.field(field["name"], self.of(field["type"], inside)) for field in definition["fields"]]
        if not fields:
            raise TypeNameError(f"record {definition['name']!r} has no fields")
        return pa.struct(fields)


def logical_type(definition: Any) -> str | None:
    """Return the logical type of a definition; None for none, and for one that its type cannot have: Avro ignores that."""
    if not isinstance(definition, dict):
        return None
    logical, kind = definition.get("logicalType"), definition.get("type")
    if not isinstance(logical, str) or not isinstance(kind, str) or kind not in _BASES.get(logical, ()):
        return None
    if logical != "decimal":
        return logical
    precision, scale = definition.get("precision"), definition.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or not precision:
        return None
    return None if kind == "fixed" and 10**precision > 2 ** (8 * definition["size"] - 1) else logical


def widest_of(members: list[Any]) -> str | None:
    """Return the type that Spark reads the members of a union as; None if it reads them as several types."""
    for widest, one_type in _ONE_TYPE.items():
        if all(isinstance(member, str) and member in one_type for member in members):
            return widest
    return None


def member_name(number: int) -> str:
    """Return the name of a union's member in a struct, as Spark's `from_avro` gives it."""
    return f"member{number}"


def plain_definition(parsed: Any) -> Any:
    """Return a definition without logical types and defaults, whose values tell which member of a union they are.

    Each member of a union of several types becomes a record with one field, whose bytes are those of the field.

    Args:
        parsed: what `parse_avro` returned: a record around a type would change the namespace of other names.
    """
    return _plain(parsed, "")


def is_struct_union(definition: Any) -> bool:
    """Return whether a definition is a union of several types but null."""
    return isinstance(definition, list) and sum(one != "null" for one in definition) > 1


def _plain(definition: Any, where: str) -> Any:
    """Return a part of the definition in this form.

    Args:
        definition: the part.
        where: its place, which no other part has, as a part of a name.
    """
    if isinstance(definition, list):
        if not is_struct_union(definition):
            return [_plain(one, where) for one in definition]
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
                _plain(one, f"{where}_f{_escaped(str(name))}") for one, name in zip(value, names, strict=True)
            ]
        elif key in {"type", "items", "values"}:
            found[key] = _plain(value, where if key == "type" else f"{where}_{key[0]}")
        elif not key.startswith("__") and key not in {"logicalType", "default", "aliases"}:
            found[key] = value
    return found


def _escaped(name: str) -> str:
    """Return a name without dots; other names have other results."""
    return name.replace("_", "_u").replace(".", "_d")


def _wrapped(member: Any, number: int, where: str) -> dict[str, Any]:
    field = {"name": member_name(number), "type": _plain(member, f"{where}_{number}")}
    return {"type": "record", "name": f"union_{where}_{number}", "namespace": "", "fields": [field]}
