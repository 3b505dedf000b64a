"""Reading specs: the error of those that cannot be used, and a glance at a field without reading the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class ApiSpecError(ValueError):
    """A spec that cannot be used; the text names the field and says what would be right.

    The schemas refuse such objects when they are written; this is for objects that were stored under an older schema.
    """


def spec_value(body: Mapping[str, Any], group: str, field: str) -> Any:
    """What an object's spec.GROUP.FIELD says, as it is; None for nothing."""
    found = (body.get("spec") or {}).get(group)
    return found.get(field) if isinstance(found, dict) else None
