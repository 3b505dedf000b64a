"""Events about applied objects of a pool. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_operator.kube.apply import Result
from readonly_operator.kube.events import NORMAL, Notice
from readonly_operator.kube.kinds import STATEFUL_SET, Manifest, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_operator.kube.names import PoolKey

_WORDS = {
    Result.CREATED: ("Created", "created"),
    Result.PATCHED: ("Updated", "updated"),
    Result.DELETED: ("Removed", "deleted"),
}


def apply_events(key: PoolKey, done: Iterable[tuple[Manifest, Result]], before: Manifest | None) -> list[Notice]:
    """Return the events of one reconcile.

    Args:
        key: key of the pool.
        done: objects with the result of applying each.
        before: the StatefulSet before.
    """
    results = list(done)
    found = []
    for result, (reason, words) in _WORDS.items():
        names = [
            f"{one['kind']} {one['metadata']['name']}"
            for one, came in results
            if came is result and _is_reported(key, one, came)
        ]
        if names:
            found.append(Notice(NORMAL, reason, f"{words}: {', '.join(names)}"))
    return [*found, *_scaled(key, results, before)]


def _is_reported(key: PoolKey, manifest: Manifest, result: Result) -> bool:
    """Return False for a changed bindings ConfigMap: bindings have events of their own."""
    return result is not Result.PATCHED or manifest["metadata"]["name"] != key.bindings_map


def _scaled(key: PoolKey, results: list[tuple[Manifest, Result]], before: Manifest | None) -> list[Notice]:
    was = ((before or {}).get("spec") or {}).get("replicas")
    for manifest, result in results:
        if (kind_of(manifest), manifest["metadata"]["name"]) == (STATEFUL_SET, key.name) and result is Result.PATCHED:
            now = manifest["spec"].get("replicas")
            if was is not None and now is not None and was != now:
                return [Notice(NORMAL, "Scaled", f"from {was} to {now} brokers")]
    return []
