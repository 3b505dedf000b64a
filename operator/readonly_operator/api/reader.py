"""Errors of invalid specs, and access to one field without parsing the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class ApiSpecError(ValueError):
    """An invalid spec; the text names the field and the expected form.

    The schemas reject such objects when they are written. This error is for objects stored under an older schema.
    """


def spec_value(body: Mapping[str, Any], group: str, field: str) -> Any:
    """Return an object's spec.GROUP.FIELD unparsed; None when it is absent."""
    found = (body.get("spec") or {}).get(group)
    return found.get(field) if isinstance(found, dict) else None
