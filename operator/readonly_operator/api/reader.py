"""Reading fields of an object from JSON, with errors that name the field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class ApiSpecError(ValueError):
    """A spec that cannot be used.

    The schemas refuse such objects when they are written; this is for objects that were stored under an older schema.
    """


def mapping(parent: Mapping[str, Any], path: str, key: str) -> Mapping[str, Any]:
    """The object at `key`, empty when there is none.

    Raises:
        ApiSpecError: there is something else.
    """
    value = parent.get(key) or {}
    if not isinstance(value, dict):
        raise ApiSpecError(f"{path}.{key} must be an object, not {type(value).__name__}")
    return value


def text(parent: Mapping[str, Any], path: str, key: str, default: str | None = None) -> str:
    """The string at `key`; without a default it must be there.

    Raises:
        ApiSpecError: it is missing, empty or no string.
    """
    value = parent.get(key, default)
    if value is None or value == "":
        raise ApiSpecError(f"{path}.{key} is missing")
    if not isinstance(value, str):
        raise ApiSpecError(f"{path}.{key} must be a string, not {type(value).__name__}")
    return value


def number(parent: Mapping[str, Any], path: str, key: str, default: int) -> int:
    """The whole number at `key`, 0 or more.

    Raises:
        ApiSpecError: it is something else.
    """
    value = parent.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ApiSpecError(f"{path}.{key} must be a whole number of at least 0, not {value!r}")
    return value
