"""Checks of an object against a definition without its rules: as editors and GitOps checks do, which evaluate no CEL."""

import re
from collections.abc import Iterator
from typing import Any

_TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}


def violations(value: Any, schema: dict[str, Any], path: str = "spec") -> Iterator[str]:
    """Yield what is wrong with a value: the field, then the keyword of the schema."""
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield f"{path}: type"
    elif not isinstance(value, _TYPES[schema["type"]]) or (isinstance(value, bool) and schema["type"] != "boolean"):
        yield f"{path}: type"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: enum"
    if isinstance(value, str):
        yield from _of_text(value, schema, path)
    elif isinstance(value, list):
        yield from _of_list(value, schema, path)
    elif isinstance(value, dict):
        yield from _of_object(value, schema, path)
    elif not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{path}: bounds"


def _of_text(value: str, schema: dict[str, Any], path: str) -> Iterator[str]:
    if len(value) > schema.get("maxLength", len(value)):
        yield f"{path}: maxLength"
    if not re.search(schema.get("pattern", ""), value):
        yield f"{path}: pattern"


def _of_list(value: list[Any], schema: dict[str, Any], path: str) -> Iterator[str]:
    if not schema.get("minItems", 0) <= len(value) <= schema["maxItems"]:
        yield f"{path}: items"
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys or schema.get("x-kubernetes-list-type") == "set":
        named = [repr([one.get(key) for key in keys] if keys and isinstance(one, dict) else one) for one in value]
        if len(set(named)) < len(named):
            yield f"{path}: duplicate"
    for index, one in enumerate(value):
        yield from violations(one, schema["items"], f"{path}[{index}]")


def _of_object(value: dict[str, Any], schema: dict[str, Any], path: str) -> Iterator[str]:
    for name in schema.get("required", ()):
        if name not in value and "default" not in schema.get("properties", {}).get(name, {}):
            yield f"{path}.{name}: required"
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name, one in value.items():
        if name in known:
            yield from violations(one, known[name], f"{path}.{name}")
        elif others:
            yield from violations(one, others, f"{path}.{name}")
        else:
            yield f"{path}.{name}: unknown"
