"""Fields of a spec by their paths, as options and pages name them: cache.size."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from readonly_operator.api.schema import KEY, name_of


def attributes_of(cls: type[Any], path: str) -> tuple[tuple[str, ...], object]:
    """Return the attributes that lead to a field, from one dataclass to the next, and the field's default.

    Args:
        cls: the dataclass of the object that the path begins in.
        path: JSON names with dots between, for example cache.size.

    Raises:
        KeyError: there is no such field.
    """
    head, _, rest = path.partition(".")
    one = {name_of(found): found for found in fields(cls) if KEY in found.metadata}[head]
    if not rest:
        return (one.name,), one.default
    below, default = attributes_of(one.metadata[KEY].schema.cls, rest)
    return (one.name, *below), default


def by_json_name(value: object) -> dict[str, Any]:
    """Return the declared fields of a dataclass's value by their JSON names."""
    declared = (one for one in fields(value) if KEY in one.metadata)  # type: ignore[arg-type]
    return {name_of(one): getattr(value, one.name) for one in declared}
