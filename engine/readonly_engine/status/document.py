"""The state of a broker as a JSON document, and back. Fields of other versions are ignored or get their defaults."""

from __future__ import annotations

from dataclasses import asdict, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from readonly_engine.status.state import Status

MAX_ITEMS: Final = 1000
"""Items of a list that are decoded. A broker sends at most 200 (MAX_MEMBERS, PAGE_SIZE)."""

MAX_NUMBER: Final = 1 << 63
"""Bound of numbers, above all counters. Python has numbers that cannot be formatted, which JSON can hold."""


class DocumentError(Exception):
    """A document that is not a state of a broker; the text names the field."""


def encode(status: Status) -> dict[str, Any]:
    """Return the document of a state."""
    return asdict(status)


def decode(document: object) -> Status:
    """Return the state of a document, which another server may have sent.

    Raises:
        DocumentError: a field has another type, or exceeds a bound, or the document is no object.
    """
    found: Status = _object(Status, document, "the answer")
    return found


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _object(kind: Any, value: object, where: str) -> Any:
    if not isinstance(value, dict):
        raise DocumentError(f"{where} must be an object, as /status of a broker returns it")
    given = {}
    for one in fields(kind):
        if one.name in value:
            given[one.name] = _value(_hints(kind)[one.name], value[one.name], one.name)
    return kind(**given)


def _value(kind: Any, value: object, where: str) -> Any:
    if is_dataclass(kind):
        return _object(kind, value, where)
    if get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            raise DocumentError(f"{where} must be a list")
        if len(value) > MAX_ITEMS:
            raise DocumentError(f"{where} must have at most {MAX_ITEMS} items")
        return tuple(_value(get_args(kind)[0], item, where) for item in value)
    choices = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    if isinstance(value, int | float) and not abs(value) < MAX_NUMBER:  # a NaN, too
        raise DocumentError(f"{where} must be a number between -2^63 and 2^63")
    if float in choices and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    for choice in choices:
        if isinstance(value, choice) and (choice is bool or not isinstance(value, bool)):
            return value
    names = " or ".join("null" if choice is type(None) else choice.__name__ for choice in choices)
    raise DocumentError(f"{where} must be {names}")
