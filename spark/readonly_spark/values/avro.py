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

_KEPT_LOGICAL: Final = {"date", "timestamp-millis", "timestamp-micros", "decimal"}
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


def field_type(definition: Any) -> FieldType:
    """Return the type of an Avro definition; names of types are resolved with their namespaces.

    Args:
        definition: the parsed JSON.

    Raises:
        TypeNameError: the definition is not valid, or Spark has no such type: a union of several types, a recursive type.
    """
    named: dict[str, Any] = {}
    try:
        parsed = fastavro.parse_schema(definition, named_schemas=named)
    except UnknownType as error:
        raise TypeNameError(f"type {error.name!r} is not defined") from None
    except (SchemaParseException, TypeError) as error:
        raise TypeNameError(f"{str(definition)[:60]} is not an Avro definition: {error}") from None
    return _Types(named).of(parsed, ())


class _Types:
    """Types of a definition whose names are resolved.

    Args:
        named: definitions of the named types, by full name.
    """

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._fields = 0

    def of(self, definition: Any, within: tuple[str, ...]) -> FieldType:
        """Return the type of a part of the definition; `within` has the names of the enclosing records."""
        if isinstance(definition, list):
            others = [one for one in definition if one != "null"]
            if len(others) != 1:
                raise TypeNameError(f"a union of {len(others)} types is not supported; use null and one other type")
            return self.of(others[0], within)
        if isinstance(definition, str):
            if definition in _PRIMITIVE:
                return FieldType(_PRIMITIVE[definition], _bytes_from_json if definition == "bytes" else None)
            if definition in within:
                raise TypeNameError(f"type {definition} contains itself")
            if definition in self._named:
                return self.of(self._named[definition], within)
            raise TypeNameError(f"type {definition} is not supported")
        if definition.get("logicalType") in _KEPT_LOGICAL:
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

    def _record(self, definition: Mapping[str, Any], within: tuple[str, ...]) -> FieldType:
        inside = (*within, definition["name"])
        self._fields += len(definition["fields"])
        if self._fields > MAX_FIELDS:
            raise TypeNameError(f"the definition has more than {MAX_FIELDS:,} fields, each use of a named type counted")
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


def for_reading(definition: Any) -> Any:
    """Return the definition with only the supported logical types, so that an Avro reader gives values that Arrow accepts."""
    if isinstance(definition, list):
        return [for_reading(one) for one in definition]
    if not isinstance(definition, dict):
        return definition
    return {
        key: for_reading(value) if key in {"type", "fields", "items", "values"} else value
        for key, value in definition.items()
        if key != "logicalType" or value in _KEPT_LOGICAL
    }
