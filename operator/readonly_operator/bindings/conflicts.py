"""Conflicts: bindings that claim a topic which another binding claims for another pool of the same source cluster.

The first claim wins. A claim begins when the binding and its pool both exist, the pool has a source cluster, and it allows the
binding. It ends with any of them. So a binding without a pool holds no topic, and takes none back from a binding in force when
its pool is created later. A pool whose ReadOnlySource is missing could be of any cluster: it must not hold the topics of all.

The brokers' report decides whether two pools have one source cluster: the id of its BookKeeper. Until brokers have reported it,
the addresses of the metadata stores decide, as seen from the pools' namespaces.

A pool with spec.replay serves past messages with cursors of its own. Its bindings conflict with those of no other pool.

Brokers do not get any part of the other binding while the conflict lasts. A held-back binding still claims its topics: its author
must change it, and no third binding changes state meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from readonly_operator.api.binding import Binding
from readonly_operator.api.pool.source_ref import connected_since
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.bindings.admission import accepted_since, allowed_by, denial
from readonly_operator.bindings.overlap import find_overlap
from readonly_operator.bindings.source_cluster import SourceCluster
from readonly_operator.kube.kinds import BINDING, POD, POOL
from readonly_operator.kube.status import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from readonly_operator.api.pool import Pool
    from readonly_operator.api.pool.allowed_bindings import AllowedBindings
    from readonly_operator.kube.kinds import Manifest
    from readonly_operator.kube.names import PoolKey
    from readonly_operator.kube.store import Store

    MatchedTopics = Callable[[Sequence[Manifest], str], Sequence[str]]
    """Topics that a binding (by full name) matches, as a broker in one of these pods reports."""

MAX_NAMED = 3
"""Other bindings that a message names."""


@dataclass(frozen=True, slots=True)
class BindingConflicts:
    """Conflicts of a pool's bindings with those of other pools.

    Attributes:
        against: message by full name of each binding that conflicts with an earlier claim.
        prevailing: message by full name of each other binding whose topics are also named by bindings that have no effect.
        open: whether any binding overlaps another pool's. The existing topics then decide, so the check must be repeated.
    """

    against: Mapping[str, str]
    prevailing: Mapping[str, str]
    open: bool


@dataclass(frozen=True, slots=True)
class _PoolState:
    """The pool of a binding.

    Attributes:
        cluster: its source cluster; None if unknown.
        created: when it could first serve, as the API server writes times.
        absent: why its bindings claim nothing, in words; empty for a pool that exists.
        allowed: the bindings that it allows; None for a pool that does not exist, which says nothing about that.
        replays: whether it serves past messages.
    """

    cluster: SourceCluster | None
    created: str
    absent: str
    allowed: AllowedBindings | None = None
    replays: bool = False

    @classmethod
    def of(cls, store: Store, domain: str, key: PoolKey) -> _PoolState:
        body = store.get(POOL, key.namespace, key.name)
        if body is None:
            return cls(None, "", "does not exist")
        cluster = SourceCluster.of(body, domain)
        absent = "" if cluster is not None else "has no source cluster yet"
        return cls(
            cluster,
            max(body["metadata"].get("creationTimestamp") or "", connected_since(body)),
            "is being deleted" if "deletionTimestamp" in body["metadata"] else absent,
            allowed_by(body),
            bool((body.get("spec") or {}).get("replay")),
        )

    def is_apart(self, other: _PoolState) -> bool:
        """Return whether both may serve a topic: their source clusters are known to differ, or one replays."""
        if self.replays or other.replays:
            return True
        return self.cluster is not None and other.cluster is not None and not self.cluster.is_same(other.cluster)


def find_conflicts(
    store: Store, matched: MatchedTopics, domain: str, pool: Pool, bindings: Iterable[Binding]
) -> BindingConflicts:
    """Return the conflicts of a pool's bindings with those of other pools; paused bindings are never held back.

    Args:
        store: the known objects.
        matched: returns the topics that a binding matches.
        domain: DNS domain of the Kubernetes cluster.
        pool: the pool.
        bindings: its bindings.
    """
    state_of = cache(partial(_PoolState.of, store, domain))
    own = state_of(pool.key)
    against: dict[str, str] = {}
    prevailing: dict[str, str] = {}
    contested = False
    for binding in bindings:
        others = _loaded(store.conflicting_bindings(binding.namespace, binding.name))
        contested = contested or bool(others)
        conflicting = [
            (other, state)
            for other in others
            if not own.is_apart(state := state_of(other.pool)) and _is_claimed(store, other, state)
        ]
        rank = _rank(store, binding, own)
        first = [one for one in conflicting if not one[1].absent and _rank(store, *one) < rank]
        texts = () if binding.paused else (_against(store, matched, binding, other) for other, _ in first)
        text = next(filter(None, texts), "")
        if text:
            against[binding.full_name] = text
        elif len(conflicting) > len(first):
            later = [one for one in conflicting if one not in first]
            text = _prevailing(partial(matched, store.of_pool(POD, pool.key), binding.full_name), binding, later)
            if text:
                prevailing[binding.full_name] = text
    return BindingConflicts(against, prevailing, contested)


def find_holders(
    store: Store, matched: MatchedTopics, domain: str, key: PoolKey, bindings: Iterable[Binding]
) -> dict[str, str]:
    """Return which bindings serve the topics of bindings whose pool does not exist or is being deleted.

    Args:
        store: the known objects.
        matched: returns the topics that a binding matches.
        domain: DNS domain of the Kubernetes cluster.
        key: the missing pool.
        bindings: its bindings.

    Returns:
        Message by full name of each binding with such a topic.
    """
    state_of = cache(partial(_PoolState.of, store, domain))
    own = state_of(key)
    found = {}
    for binding in bindings:
        texts = []
        for other in _loaded(store.conflicting_bindings(binding.namespace, binding.name)):
            state = state_of(other.pool)
            if state.absent or own.is_apart(state) or not _is_claimed(store, other, state):
                continue
            both = find_overlap(other, binding, partial(matched, store.of_pool(POD, other.pool), other.full_name))
            if both:
                texts.append(
                    f"{both}: claimed by ReadOnlyTopicBinding {other.full_name} for ReadOnlyBrokerPool {other.pool}"
                )
        if texts:
            found[binding.full_name] = listed(texts, MAX_NAMED)
    return found


def _loaded(bodies: Iterable[Manifest]) -> list[Binding]:
    found = []
    for body in bodies:
        try:
            found.append(Binding.load(body))
        except ApiSpecError:
            continue  # an invalid binding claims nothing
    return found


def _is_claimed(store: Store, binding: Binding, pool: _PoolState) -> bool:
    """Return whether a binding claims its topics as far as its pool allows it."""
    return pool.allowed is None or not denial(pool.allowed, binding, store.namespaces)


def _rank(store: Store, binding: Binding, pool: _PoolState) -> tuple[str, str, str]:
    """Return the order of a claim: the time from which it may be served; then the binding's age, then its name."""
    body = store.get(BINDING, binding.namespace, binding.name)
    since = "" if body is None else accepted_since(body)
    return max(binding.created, pool.created, since), binding.created, binding.full_name


def _against(store: Store, matched: MatchedTopics, binding: Binding, first: Binding) -> str:
    pods = store.of_pool(POD, first.pool)
    both = find_overlap(first, binding, partial(matched, pods, first.full_name))
    if not both:
        return ""
    return (
        f"{both}: claimed first by ReadOnlyTopicBinding {first.full_name} for ReadOnlyBrokerPool {first.pool} of "
        "the same source cluster; remove it from one of the two"
    )


def _prevailing(
    matched: Callable[[], Iterable[str]], binding: Binding, others: Iterable[tuple[Binding, _PoolState]]
) -> str:
    texts = []
    for other, state in others:
        both = find_overlap(binding, other, matched)
        if both:
            why = f", which {state.absent}" if state.absent else ", later"
            texts.append(
                f"{both}: also claimed by ReadOnlyTopicBinding {other.full_name} for ReadOnlyBrokerPool {other.pool}{why}"
            )
    return f"{listed(texts, MAX_NAMED)}; this binding is in force" if texts else ""
