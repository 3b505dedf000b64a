"""Avro schemas to Arrow types; Pulsar's JSON schemas are Avro definitions too. Pure."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from readonly_spark.values.type_names import TIMESTAMP, TypeNameError

if TYPE_CHECKING:
    from collections.abc import Callable

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


@dataclass(frozen=True, slots=True)
class FieldType:
    """The type of a field.

    Attributes:
        arrow: the Arrow type.
        from_json: converts a JSON value to a value that Arrow accepts; None if they are the same.
    """

    arrow: pa.DataType
    from_json: Callable[[Any], Any] | None = None


def field_type(definition: Any, known: dict[str, Any] | None = None, within: tuple[str, ...] = ()) -> FieldType:
    """Return the type of an Avro definition.

    Args:
        definition: the parsed JSON.
        known: named types that were defined before.
        within: names of the enclosing records.

    Raises:
        TypeNameError: Spark has no such type, as for a union of several types or a recursive type.
    """
    known = {} if known is None else known
    if isinstance(definition, list):
        others = [one for one in definition if one != "null"]
        if len(others) != 1:
            raise TypeNameError(f"a union of {len(others)} types is not supported; use null and one other type")
        return field_type(others[0], known, within)
    if isinstance(definition, str):
        if definition in _PRIMITIVE:
            return FieldType(_PRIMITIVE[definition], _bytes_from_json if definition == "bytes" else None)
        if definition in within:
            raise TypeNameError(f"type {definition} contains itself")
        if definition in known:
            return field_type(known[definition], known, within)
        raise TypeNameError(f"type {definition!r} is not defined")
    if not isinstance(definition, dict) or "type" not in definition:
        raise TypeNameError(f"{str(definition)[:60]} is not an Avro definition")
    logical = definition.get("logicalType")
    kind = definition["type"]
    if logical in _KEPT_LOGICAL:
        return _logical(definition)
    if kind in {"record", "enum", "fixed"}:
        known[definition.get("name", "")] = definition
    if kind == "record":
        return _record(definition, known, within)
    if kind == "enum":
        return FieldType(pa.string())
    if kind == "fixed":
        return FieldType(pa.binary(), _bytes_from_json)
    if kind == "array":
        item = field_type(definition["items"], known, within)
        return FieldType(pa.list_(pa.field("element", item.arrow)), _each(item.from_json))
    if kind == "map":
        item = field_type(definition["values"], known, within)
        return FieldType(pa.map_(pa.string(), item.arrow), _each_value(item.from_json))
    return field_type(kind, known, within)


def _record(definition: dict[str, Any], known: dict[str, Any], within: tuple[str, ...]) -> FieldType:
    inside = (*within, definition.get("name", ""))
    fields = {field["name"]: field_type(field["type"], known, inside) for field in definition.get("fields", ())}
    if not fields:
        raise TypeNameError(f"record {definition.get('name')!r} has no fields")
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


def _logical(definition: dict[str, Any]) -> FieldType:
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
