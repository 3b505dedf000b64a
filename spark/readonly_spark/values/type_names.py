"""Conversion between Arrow types and the names of Spark types, without Spark. Pure."""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa

TIMESTAMP: Final = pa.timestamp("us", "UTC")
"""The only type that Spark accepts for its `timestamp`."""

LOCAL_TIMESTAMP: Final = pa.timestamp("us")
"""Spark's `timestamp_ntz`, a time without a zone."""

PROPERTIES: Final = pa.map_(pa.string(), pa.string())
"""The type of message properties."""

_SIMPLE: Final = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ntz": LOCAL_TIMESTAMP,
}

_IN_JSON: Final = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
"""Names of Spark types that differ in JSON."""

_DECIMAL: Final = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class TypeNameError(ValueError):
    """An unsupported type."""


def spark_name(kind: pa.DataType, *, quoted: bool = True) -> str:
    """Return a type in Spark's DDL; without quotes, as `simpleString` writes it."""
    for name, simple in _SIMPLE.items():
        if kind == simple:
            return name
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"array<{spark_name(kind.value_type, quoted=quoted)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_name(kind.key_type, quoted=quoted)},{spark_name(kind.item_type, quoted=quoted)}>"
    if pa.types.is_struct(kind):
        fields = (kind.field(index) for index in range(kind.num_fields))
        return (
            "struct<"
            + ",".join(f"{_quote(field.name, quoted)}:{spark_name(field.type, quoted=quoted)}" for field in fields)
            + ">"
        )
    raise TypeNameError(f"Spark has no type for {kind}")


def column_name(name: str) -> str:
    """Return the name of a column in Spark's DDL, quoted if necessary."""
    return _quote(name, quoted=True)


def _quote(name: str, quoted: bool) -> str:
    return name if not quoted or _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def arrow_type(found: Any) -> pa.DataType:
    """Return the Arrow type for the JSON of a Spark type (`DataType.jsonValue`).

    Raises:
        TypeNameError: the type is not supported.
    """
    if isinstance(found, str):
        name = _IN_JSON.get(found, found)
        if name in _SIMPLE:
            return _SIMPLE[name]
        match = _DECIMAL.fullmatch(name)
        if match is not None:
            return pa.decimal128(int(match[1]), int(match[2]))
    elif isinstance(found, dict):
        if found.get("type") == "array":
            return pa.list_(pa.field("element", arrow_type(found["elementType"]), found["containsNull"]))
        if found.get("type") == "map":
            value = pa.field("value", arrow_type(found["valueType"]), found["valueContainsNull"])
            return pa.map_(arrow_type(found["keyType"]), value)
        if found.get("type") == "struct":
            return pa.struct(
                [pa.field(field["name"], arrow_type(field["type"]), field["nullable"]) for field in found["fields"]]
            )
    raise TypeNameError(f"unsupported Spark type {found!r}")
