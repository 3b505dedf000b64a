"""A validator of the part of JSON Schema (draft 7) that this project's schemas use. Other keywords are an error."""

from __future__ import annotations

import re
from typing import Any

_TYPES = {"object": dict, "array": list, "string": str, "boolean": bool}
_ANNOTATIONS = {"$schema", "title", "description", "default"}


def is_valid(schema: dict[str, Any], value: object) -> bool:
    """Return whether a value matches a schema.

    Raises:
        KeyError: the schema has a keyword that this validator does not know.
    """
    return all(_CHECKS[keyword](rule, value, schema) for keyword, rule in schema.items() if keyword not in _ANNOTATIONS)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _type(rule: str, value: object, _: dict[str, Any]) -> bool:
    if rule == "integer":
        return _is_number(value) and value == int(value)
    return _is_number(value) if rule == "number" else isinstance(value, _TYPES[rule])


def _additional(rule: bool, value: object, schema: dict[str, Any]) -> bool:
    assert rule is False
    return not isinstance(value, dict) or value.keys() <= schema["properties"].keys()


def _properties(rule: dict[str, Any], value: object, _: dict[str, Any]) -> bool:
    return not isinstance(value, dict) or all(is_valid(rule[key], value[key]) for key in rule.keys() & value.keys())


def _same(one: object, other: object) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _search(rule: str, value: str) -> bool:
    """Return whether a value has a match. `$` is the end, as in JavaScript; in Python a line break may follow it."""
    return re.search(re.sub(r"\$$", r"\\Z", rule), value) is not None


_CHECKS = {
    "type": _type,
    "additionalProperties": _additional,
    "properties": _properties,
    "items": lambda rule, value, _: not isinstance(value, list) or all(is_valid(rule, one) for one in value),
    "anyOf": lambda rule, value, _: any(is_valid(one, value) for one in rule),
    "enum": lambda rule, value, _: any(_same(one, value) for one in rule),
    "pattern": lambda rule, value, _: not isinstance(value, str) or _search(rule, value),
    "minProperties": lambda rule, value, _: not isinstance(value, dict) or len(value) >= rule,
    "required": lambda rule, value, _: not isinstance(value, dict) or set(rule) <= value.keys(),
    "minLength": lambda rule, value, _: not isinstance(value, str) or len(value) >= rule,
    "minimum": lambda rule, value, _: not _is_number(value) or value >= rule,
    "maximum": lambda rule, value, _: not _is_number(value) or value <= rule,
    "exclusiveMinimum": lambda rule, value, _: not _is_number(value) or value > rule,
}
