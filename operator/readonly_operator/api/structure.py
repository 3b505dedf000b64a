"""Structural schemas of OpenAPI as nested nodes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection


def without(node: dict[str, Any], keywords: Collection[str]) -> dict[str, Any]:
    """Return a schema without some keywords, in all its nodes. Properties of these names stay.

    Args:
        node: a structural schema.
        keywords: such as `description`.
    """
    made = {name: value for name, value in node.items() if name not in keywords}
    if "properties" in made:
        made["properties"] = {name: without(value, keywords) for name, value in made["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(made.get(name), dict):
            made[name] = without(made[name], keywords)
    return made
