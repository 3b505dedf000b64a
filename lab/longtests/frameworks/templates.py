"""Paths of the admin API without names of tenants, namespaces, topics and subscriptions."""

from __future__ import annotations

from typing import Final

_NAMES: Final = {
    "namespaces": ("{tenant}", "{namespace}"),
    "schemas": ("{tenant}", "{namespace}", "{topic}"),
    "tenants": ("{tenant}",),
    "clusters": ("{cluster}",),
    "persistent": ("{tenant}", "{namespace}", "{topic}"),
    "non-persistent": ("{tenant}", "{namespace}", "{topic}"),
    "subscription": ("{subscription}",),
    "functions": ("{tenant}", "{namespace}", "{function}"),
}
"""The names that follow a segment of a path."""

_MAX_LENGTH: Final = 200


def template(path: str) -> str:
    """Return a path of the admin API with its names replaced: /admin/v2/persistent/{tenant}/{namespace}/{topic}/partitions."""
    shown: list[str] = []
    waiting: list[str] = []
    for segment in path.split("/"):
        if waiting and segment:
            shown.append(waiting.pop(0))
            continue
        shown.append(segment)
        waiting = list(_NAMES.get(segment, ()))
    return "/".join(shown)[:_MAX_LENGTH]
