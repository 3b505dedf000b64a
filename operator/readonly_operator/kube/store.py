"""Store of watched objects, kept up to date by watch events.

Reconciling reads from it, so an unchanged pool costs no request. `replace` with a fresh list repairs missed events.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from readonly_operator.kube.kinds import BINDING, POD, POOL, SOURCE, Kind, Manifest
from readonly_operator.kube.names import LABEL_POOL, PoolKey
from readonly_operator.kube.namespaces import NamespaceLabels
from readonly_operator.kube.ownership import broker_pool, owning_pool
from readonly_operator.selector import LabelSelector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

ALL_POOLS = LabelSelector()
DELETED_TTL_SECONDS = 300
"""How long a deleted uid is remembered: longer than an outdated event can take to arrive."""


@dataclass(frozen=True, slots=True)
class _Deletion:
    """Reported deletion of an object.

    Attributes:
        version: resource version of the deletion.
        time: seconds, monotonic.
        position: checkpoint of the store.
    """

    version: int
    time: float
    position: int


def pool_of(kind: Kind, body: Manifest) -> PoolKey | None:
    """Return the pool of an object, or None when the object names none. The controller counts before the label.

    Only a binding may name a pool of another namespace. A ReadOnlySource has many pools: it is stored under its own name. Of
    pods, only those of a pool's StatefulSet have a pool.
    """
    metadata = body["metadata"]
    namespace = metadata["namespace"]
    if kind in {POOL, SOURCE}:
        name = metadata["name"]
    elif kind == BINDING:
        reference = (body.get("spec") or {}).get("poolRef") or {}
        name, namespace = reference.get("name"), reference.get("namespace") or namespace
    elif kind == POD:
        name = broker_pool(body)
    else:
        name = owning_pool(body) or (metadata.get("labels") or {}).get(LABEL_POOL)
    return PoolKey(namespace, name) if name else None


class TopicIndex(Protocol):
    """Index of bindings by the topics that they claim. A binding is named by namespace and name."""

    def put(self, name: tuple[str, str], spec: Mapping[str, Any]) -> None:
        """Add or replace a binding."""
        ...

    def drop(self, name: tuple[str, str]) -> None:
        """Remove a binding."""
        ...

    def conflicting(self, name: tuple[str, str]) -> AbstractSet[tuple[str, str]]:
        """Return other bindings that may claim a topic of this one."""
        ...


class Store:
    """Objects by kind and pool. Thread-safe; callers must not change the objects that it returns.

    Args:
        topics: index of the bindings' topics; the store keeps it up to date.
        selector: of the pools that this operator serves. Bindings of others are known too: their topics may conflict.

    Attributes:
        namespaces: labels of namespaces.
    """

    def __init__(self, topics: TopicIndex, selector: LabelSelector = ALL_POOLS) -> None:
        self._lock = threading.Lock()
        self.namespaces = NamespaceLabels()
        self._objects: dict[tuple[Kind, PoolKey], dict[tuple[str, str], Manifest]] = {}
        self._where: dict[tuple[Kind, str, str], PoolKey] = {}
        self._deleted: dict[str, _Deletion] = {}
        self._puts = 0
        self._put_at: dict[tuple[Kind, str, str], int] = {}
        self._unserved: frozenset[Kind] = frozenset()
        self._topics = topics
        self._selector = selector

    def put(self, kind: Kind, body: Manifest) -> set[PoolKey]:
        """Store an object unless the known one is newer.

        Returns:
            The pools that the change affects.
        """
        with self._lock:
            return self._put(kind, body)

    def remove(self, kind: Kind, body: Manifest) -> set[PoolKey]:
        """Remove a deleted object.

        A watch with a label selector also reports the loss of a label as a deletion. A later version of the object, such as the
        answer to the write that restores the label, is stored again.

        Returns:
            The pools that the change affects.
        """
        metadata = body["metadata"]
        with self._lock:
            self._puts += 1
            self._deleted[metadata["uid"]] = _Deletion(_version(body), time.monotonic(), self._puts)
            known = self._find(kind, metadata["namespace"], metadata["name"])
            if known is None or known["metadata"]["uid"] != metadata["uid"]:
                return set()
            return self._drop(kind, metadata["namespace"], metadata["name"])

    def checkpoint(self) -> int:
        """Return a position for `replace`; call it before the list is requested."""
        with self._lock:
            return self._puts

    def replace(self, kind: Kind, bodies: Iterable[Manifest], namespaces: tuple[str, ...], began: int) -> set[PoolKey]:
        """Store a complete list of a kind in these namespaces (empty: in all), and remove all other objects of the kind there.

        The list is newer than everything stored before it was requested, whatever the resource versions are: after a restore
        of etcd they are lower than before.

        Args:
            kind: kind of the objects.
            bodies: the list.
            namespaces: the listed namespaces.
            began: the checkpoint before the list was requested. Objects stored later may be newer than the list, and stay.

        Returns:
            The pools of the listed and of the removed objects.
        """
        touched: set[PoolKey] = set()
        with self._lock:
            now = time.monotonic()
            self._deleted = {uid: one for uid, one in self._deleted.items() if now - one.time < DELETED_TTL_SECONDS}
            listed = set()
            for body in bodies:
                metadata = body["metadata"]
                listed.add((metadata["namespace"], metadata["name"]))
                touched |= self._put(kind, body, since=began)
                key = pool_of(kind, body)
                touched |= {key} if key and kind != SOURCE else set()
            gone = [
                (namespace, name)
                for known, namespace, name in self._where
                if known == kind
                and (not namespaces or namespace in namespaces)
                and (namespace, name) not in listed
                and self._put_at[known, namespace, name] <= began
            ]
            for namespace, name in gone:
                touched |= self._drop(kind, namespace, name)
        return touched

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """Return one object, or None."""
        with self._lock:
            return self._find(kind, namespace, name)

    def of_pool(self, kind: Kind, key: PoolKey) -> list[Manifest]:
        """Return the objects of a kind and pool, sorted by namespace and name."""
        with self._lock:
            return [body for _, body in sorted(self._objects.get((kind, key), {}).items())]

    def set_unserved(self, kinds: Iterable[Kind]) -> None:
        """Set the kinds that the Kubernetes cluster does not serve."""
        self._unserved = frozenset(kinds)

    def serves(self, kind: Kind) -> bool:
        """Return whether the Kubernetes cluster serves a kind."""
        return kind not in self._unserved

    def pools(self, *, others: bool = False) -> list[Manifest]:
        """Return the pools that this operator serves.

        Args:
            others: whether to return also those that its selector leaves to others.
        """
        with self._lock:
            found = [body for (kind, _), bodies in self._objects.items() if kind == POOL for body in bodies.values()]
        return found if others else [body for body in found if self.selects(body)]

    def selects(self, pool: Manifest) -> bool:
        """Return whether this operator serves a pool."""
        return self._selector.matches(pool["metadata"].get("labels") or {})

    def sources(self, namespace: str | None = None) -> list[Manifest]:
        """Return the ReadOnlySources of a namespace; None for all."""
        with self._lock:
            return [
                body
                for (kind, key), bodies in self._objects.items()
                if kind == SOURCE and namespace in {None, key.namespace}
                for body in bodies.values()
            ]

    def bindings(self) -> list[Manifest]:
        """Return all bindings."""
        with self._lock:
            return [body for (kind, _), bodies in self._objects.items() if kind == BINDING for body in bodies.values()]

    def conflicting_bindings(self, namespace: str, name: str) -> list[Manifest]:
        """Return bindings of other pools, in all namespaces, that may claim a topic of this one; without those being deleted."""
        with self._lock:
            own = self._where.get((BINDING, namespace, name))
            found = [
                self._find(BINDING, *other)
                for other in sorted(self._topics.conflicting((namespace, name)))
                if self._where.get((BINDING, *other)) != own
            ]
        return [body for body in found if body is not None and "deletionTimestamp" not in body["metadata"]]

    def bound_from(self, namespace: str) -> set[PoolKey]:
        """Return the pools that a change of a namespace's labels may affect: those of other namespaces that its bindings name.

        Pools with bindings for the same topics are included.
        """
        with self._lock:
            named = [
                (key, name)
                for (kind, place, name), key in self._where.items()
                if kind == BINDING and place == namespace != key.namespace
            ]
            found = {key for key, _ in named}
            return found.union(*(self._affected(BINDING, key, namespace, name) for key, name in named))

    def _affected(self, kind: Kind, key: PoolKey, namespace: str, name: str) -> set[PoolKey]:
        """Return other pools that a change affects: those with bindings for the same topics, those of a ReadOnlySource."""
        if kind == SOURCE:
            return self._referring(key)
        if kind == BINDING:
            bindings = [(namespace, name)]
        elif kind == POOL:
            bindings = list(self._objects.get((BINDING, key), {}))
        else:
            return set()
        conflicting = {other for binding in bindings for other in self._topics.conflicting(binding)}
        return {self._where[BINDING, *other] for other in conflicting if (BINDING, *other) in self._where}

    def _referring(self, source: PoolKey) -> set[PoolKey]:
        return {
            key
            for (kind, key), bodies in self._objects.items()
            if kind == POOL and key.namespace == source.namespace
            for body in bodies.values()
            if referred_source(body) == source.name
        }

    def _find(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        key = self._where.get((kind, namespace, name))
        return None if key is None else self._objects[kind, key].get((namespace, name))

    def _put(self, kind: Kind, body: Manifest, since: int = -1) -> set[PoolKey]:
        """Store an object unless a newer state is known.

        Args:
            kind: of the object.
            body: the object.
            since: what was stored up to this checkpoint is older than the object; for others the resource version decides.
        """
        metadata = body["metadata"]
        deletion = self._deleted.get(metadata["uid"])
        if deletion is not None and deletion.position > since and _version(body) <= deletion.version:
            return set()
        key = pool_of(kind, body)
        namespace, name = metadata["namespace"], metadata["name"]
        known = self._find(kind, namespace, name)
        if known is not None and known["metadata"]["uid"] == metadata["uid"]:
            older = self._put_at[kind, namespace, name] <= since
            if _version(body) == _version(known) or (_version(body) < _version(known) and not older):
                return set()
        touched = set()
        if known is not None and self._where[kind, namespace, name] != key:
            touched |= self._drop(kind, namespace, name)
        if key is None:
            return touched
        # managedFields take half of the memory, and no reader needs them
        kept = {**body, "metadata": {field: value for field, value in metadata.items() if field != "managedFields"}}
        self._objects.setdefault((kind, key), {})[namespace, name] = kept
        self._where[kind, namespace, name] = key
        self._puts += 1
        self._put_at[kind, namespace, name] = self._puts
        if kind in {BINDING, POOL, SOURCE} and (known is None or _desired_state(known) != _desired_state(kept)):
            touched |= self._affected(kind, key, namespace, name)
            if kind == BINDING:
                self._topics.put((namespace, name), kept.get("spec") or {})
                touched |= self._affected(kind, key, namespace, name)
        return touched if kind == SOURCE else touched | {key}

    def _drop(self, kind: Kind, namespace: str, name: str) -> set[PoolKey]:
        key = self._where[kind, namespace, name]
        touched = self._affected(kind, key, namespace, name) | (set() if kind == SOURCE else {key})
        del self._where[kind, namespace, name], self._put_at[kind, namespace, name]
        if kind == BINDING:
            self._topics.drop((namespace, name))
        bodies = self._objects[kind, key]
        del bodies[namespace, name]
        if not bodies:
            del self._objects[kind, key]
        return touched


def referred_source(body: Manifest) -> str | None:
    """Return the name of the ReadOnlySource to which the spec of a pool refers; None for none."""
    reference = (body.get("spec") or {}).get("sourceRef")
    return reference.get("name") if isinstance(reference, dict) else None


def _desired_state(body: Manifest) -> tuple[object, ...]:
    """Return a value that changes with the spec of an object, and not with its status."""
    metadata = body["metadata"]
    return metadata["uid"], metadata.get("generation"), "deletionTimestamp" in metadata


def _version(body: Manifest) -> int:
    # resource versions of one kind compare as numbers (KEP-5504); older versions are etcd revisions, which do too
    return int(body["metadata"]["resourceVersion"])
