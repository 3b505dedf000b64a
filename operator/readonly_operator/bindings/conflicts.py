"""Conflicts: bindings that claim a topic which an older binding claims for another pool of the same source cluster.

The older binding wins. Brokers do not get any part of the younger one while the conflict lasts. A held-back binding still claims
its topics: its author must change it, and no third binding changes state meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from readonly_operator.api.binding import Binding
from readonly_operator.api.metadata_store import StoreUrl
from readonly_operator.api.pool import Pool
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.bindings.overlap import find_overlap
from readonly_operator.kube.kinds import POD, POOL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from readonly_operator.kube.kinds import Manifest
    from readonly_operator.kube.names import PoolKey
    from readonly_operator.kube.store import Store

    MatchedTopics = Callable[[Sequence[Manifest], str], Sequence[str]]
    """Topics that a binding (by full name) matches, as a broker in one of these pods reports."""


@dataclass(frozen=True, slots=True)
class BindingConflicts:
    """Conflicts of a pool's bindings with those of other pools.

    Attributes:
        against: message by full name of each binding that conflicts with an older one.
        open: whether any binding overlaps another pool's. The existing topics then decide, so the check must be repeated.
    """

    against: Mapping[str, str]
    open: bool


def find_conflicts(store: Store, matched: MatchedTopics, pool: Pool, bindings: Iterable[Binding]) -> BindingConflicts:
    """Return the conflicts of a pool's bindings with those of other pools; paused bindings are exempt."""
    against: dict[str, str] = {}
    contested = False
    for binding in bindings:
        others = store.conflicting_bindings(binding.namespace, binding.name)
        contested = contested or bool(others)
        texts = () if binding.paused else (_against(store, matched, pool, binding, body) for body in others)
        text = next(filter(None, texts), "")
        if text:
            against[binding.full_name] = text
    return BindingConflicts(against, contested)


def _against(store: Store, matched: MatchedTopics, pool: Pool, binding: Binding, body: dict[str, object]) -> str:
    try:
        older = Binding.load(body)
    except ApiSpecError:
        return ""
    if not older.older_than(binding):
        return ""
    other = _pool(store, older.pool)
    if other is None or not same_cluster(other.source.metadata_store_url, pool.source.metadata_store_url):
        return ""
    pods = store.of_pool(POD, older.pool)
    both = find_overlap(older, binding, partial(matched, pods, older.full_name))
    if not both:
        return ""
    return (
        f"{both}: claimed by ReadOnlyTopicBinding {older.full_name}, which is older, for ReadOnlyBrokerPool {older.pool} of "
        "the same source cluster; remove it from one of the two"
    )


def same_cluster(one: str, other: str) -> bool:
    """Return whether two metadata store URLs share the chroot or namespace, and at least one server in any order."""
    return StoreUrl.parse(one).shares_with(StoreUrl.parse(other))


def _pool(store: Store, key: PoolKey) -> Pool | None:
    """Return the pool unless it is missing, invalid or being deleted."""
    body = store.get(POOL, key.namespace, key.name)
    if body is None or "deletionTimestamp" in body["metadata"]:
        return None
    try:
        return Pool.load(body)
    except ApiSpecError:
        return None
