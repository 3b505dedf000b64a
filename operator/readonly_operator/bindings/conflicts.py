"""Bindings that claim a topic which an older binding claims for another pool of the same writable cluster.

The older one wins. The younger one is not given to brokers at all while that lasts, so that it is never in force in part. A
binding that is itself held back still claims what it names: its author is to change it, and nothing else flaps meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from readonly_operator.api.binding import Binding
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
    """Topics that a binding (by full name) matches, as one of these pods' brokers reports."""


@dataclass(frozen=True, slots=True)
class BindingConflicts:
    """How a pool's bindings stand against those of other pools.

    Attributes:
        against: by full name those that an older one stands against, with what to say.
        open: whether any has rivals at all: what topics there are decides then, so that it is to be looked at again.
    """

    against: Mapping[str, str]
    open: bool


def find_conflicts(store: Store, matched: MatchedTopics, pool: Pool, bindings: Iterable[Binding]) -> BindingConflicts:
    """How a pool's bindings stand against those of other pools; a paused one stays as it is."""
    against: dict[str, str] = {}
    contested = False
    for binding in bindings:
        rivals = store.conflicting_bindings(binding.namespace, binding.name)
        contested = contested or bool(rivals)
        texts = () if binding.paused else (_against(store, matched, pool, binding, body) for body in rivals)
        text = next(filter(None, texts), "")
        if text:
            against[binding.full_name] = text
    return BindingConflicts(against, contested)


def _against(store: Store, matched: MatchedTopics, pool: Pool, binding: Binding, body: dict[str, object]) -> str:
    try:
        rival = Binding.load(body)
    except ApiSpecError:
        return ""
    if not rival.older_than(binding):
        return ""
    other = _pool(store, rival.pool)
    if other is None or not same_cluster(other.source.metadata_store_url, pool.source.metadata_store_url):
        return ""
    pods = store.of_pool(POD, rival.pool)
    both = find_overlap(rival, binding, partial(matched, pods, rival.full_name))
    if not both:
        return ""
    return (
        f"{both}: claimed by ReadOnlyTopicBinding {rival.full_name}, which is older, for ReadOnlyBrokerPool {rival.pool} of "
        "the same writable cluster; take it out of one of the two"
    )


def same_cluster(one: str, other: str) -> bool:
    """Whether two metadata stores are the same: in whatever order their servers are named, and if only some of them are."""
    (hosts, _, chroot), (others, _, other_chroot) = (url.removeprefix("zk:").partition("/") for url in (one, other))
    return chroot == other_chroot and not set(hosts.split(",")).isdisjoint(others.split(","))


def _pool(store: Store, key: PoolKey) -> Pool | None:
    """A pool that is there to stay, and whose spec can be used."""
    body = store.get(POOL, key.namespace, key.name)
    if body is None or "deletionTimestamp" in body["metadata"]:
        return None
    try:
        return Pool.load(body)
    except ApiSpecError:
        return None
