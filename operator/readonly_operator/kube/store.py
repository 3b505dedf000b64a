"""What the operator knows of the cluster: the objects of its kinds, kept up to date by watch events.

Reconciling reads from here, so that it costs no request when nothing changes. What a missed event leaves behind is repaired by
`replace` with a fresh list.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from readonly_operator.kube.kinds import BINDING, POOL, Kind, Manifest
from readonly_operator.kube.names import LABEL_POOL, PoolKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

DELETED_TTL_SECONDS = 300
"""How long a deleted object is remembered: longer than a list that still had it can be on its way."""


def pool_of(kind: Kind, body: Manifest) -> PoolKey | None:
    """The pool that an object is about, or None when it says none."""
    metadata = body["metadata"]
    if kind == POOL:
        name = metadata["name"]
    elif kind == BINDING:
        name = ((body.get("spec") or {}).get("poolRef") or {}).get("name")
    else:
        name = (metadata.get("labels") or {}).get(LABEL_POOL)
    return PoolKey(metadata["namespace"], name) if name else None


class TopicIndex(Protocol):
    """Index of bindings by the topics that they claim; a binding is named by namespace and name."""

    def put(self, name: tuple[str, str], spec: Mapping[str, Any]) -> None:
        """Add or replace a binding."""
        ...

    def drop(self, name: tuple[str, str]) -> None:
        """Remove a binding."""
        ...

    def conflicting(self, name: tuple[str, str]) -> AbstractSet[tuple[str, str]]:
        """Other bindings that may claim a topic of this one."""
        ...


class Store:
    """Objects by kind and pool. Safe to use from several threads; what it gives out must not be changed.

    Args:
        topics: index of the bindings' topics; the store keeps it up to date.
    """

    def __init__(self, topics: TopicIndex) -> None:
        self._lock = threading.Lock()
        self._objects: dict[tuple[Kind, PoolKey], dict[str, Manifest]] = {}
        self._where: dict[tuple[Kind, str, str], PoolKey] = {}
        self._deleted: dict[str, float] = {}
        self._puts = 0
        self._put_at: dict[tuple[Kind, str, str], int] = {}
        self._unserved: frozenset[Kind] = frozenset()
        self._topics = topics

    def put(self, kind: Kind, body: Manifest) -> set[PoolKey]:
        """Take note of an object; what is older than what is known is ignored.

        Returns:
            The pools that this concerns.
        """
        with self._lock:
            return self._put(kind, body)

    def remove(self, kind: Kind, body: Manifest) -> set[PoolKey]:
        """Take note that an object is gone.

        Returns:
            The pools that this concerns.
        """
        metadata = body["metadata"]
        with self._lock:
            self._deleted[metadata["uid"]] = time.monotonic()
            known = self._find(kind, metadata["namespace"], metadata["name"])
            if known is None or known["metadata"]["uid"] != metadata["uid"]:
                return set()
            return self._drop(kind, metadata["namespace"], metadata["name"])

    def checkpoint(self) -> int:
        """Now, for `replace`: to be asked for before a list is."""
        with self._lock:
            return self._puts

    def replace(self, kind: Kind, bodies: Iterable[Manifest], namespaces: tuple[str, ...], began: int) -> set[PoolKey]:
        """Take note of all objects of a kind in these namespaces (empty: in all of them): others are gone.

        Args:
            kind: of the objects.
            bodies: the list.
            namespaces: which ones were listed.
            began: the moment before the list was asked for; what became known later may be newer than the list, and stays.

        Returns:
            The pools of all of them, and of those that are gone.
        """
        touched: set[PoolKey] = set()
        with self._lock:
            now = time.monotonic()
            self._deleted = {uid: at for uid, at in self._deleted.items() if now - at < DELETED_TTL_SECONDS}
            listed = set()
            for body in bodies:
                metadata = body["metadata"]
                listed.add((metadata["namespace"], metadata["name"]))
                touched |= self._put(kind, body)
                key = pool_of(kind, body)
                touched |= {key} if key else set()
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
        """One object."""
        with self._lock:
            return self._find(kind, namespace, name)

    def of_pool(self, kind: Kind, key: PoolKey) -> list[Manifest]:
        """The objects of a kind that are about this pool, by name."""
        with self._lock:
            return [body for _, body in sorted(self._objects.get((kind, key), {}).items())]

    def set_unserved(self, kinds: Iterable[Kind]) -> None:
        """Take note of the kinds that the cluster does not serve."""
        self._unserved = frozenset(kinds)

    def serves(self, kind: Kind) -> bool:
        """Whether the cluster serves a kind."""
        return kind not in self._unserved

    def pools(self) -> list[Manifest]:
        """All pools."""
        with self._lock:
            return [body for (kind, _), bodies in self._objects.items() if kind == POOL for body in bodies.values()]

    def bindings(self) -> list[Manifest]:
        """All bindings."""
        with self._lock:
            return [body for (kind, _), bodies in self._objects.items() if kind == BINDING for body in bodies.values()]

    def conflicting_bindings(self, namespace: str, name: str) -> list[Manifest]:
        """Bindings of other pools, in whatever namespaces, that may claim a topic of this binding; not those that are going."""
        with self._lock:
            own = self._where.get((BINDING, namespace, name))
            found = [
                self._find(BINDING, *other)
                for other in sorted(self._topics.conflicting((namespace, name)))
                if self._where.get((BINDING, *other)) != own
            ]
        return [body for body in found if body is not None and "deletionTimestamp" not in body["metadata"]]

    def _affected(self, kind: Kind, key: PoolKey, name: str) -> set[PoolKey]:
        """Other pools that a change of a pool or binding concerns, because they have bindings for the same topics."""
        if kind == BINDING:
            bindings = [(key.namespace, name)]
        elif kind == POOL:
            bindings = [(key.namespace, one) for one in self._objects.get((BINDING, key), {})]
        else:
            return set()
        conflicting = {other for binding in bindings for other in self._topics.conflicting(binding)}
        return {self._where[BINDING, *other] for other in conflicting if (BINDING, *other) in self._where}

    def _find(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        key = self._where.get((kind, namespace, name))
        return None if key is None else self._objects[kind, key].get(name)

    def _put(self, kind: Kind, body: Manifest) -> set[PoolKey]:
        metadata = body["metadata"]
        if metadata["uid"] in self._deleted:
            return set()
        key = pool_of(kind, body)
        namespace, name = metadata["namespace"], metadata["name"]
        known = self._find(kind, namespace, name)
        if known is not None and known["metadata"]["uid"] == metadata["uid"] and _version(body) <= _version(known):
            return set()
        touched = set()
        if known is not None and self._where[kind, namespace, name] != key:
            touched |= self._drop(kind, namespace, name)
        if key is None:
            return touched
        # managedFields are half of the memory, and nobody reads them here
        kept = {**body, "metadata": {field: value for field, value in metadata.items() if field != "managedFields"}}
        self._objects.setdefault((kind, key), {})[name] = kept
        self._where[kind, namespace, name] = key
        self._puts += 1
        self._put_at[kind, namespace, name] = self._puts
        if kind in {BINDING, POOL} and (known is None or _desired_state(known) != _desired_state(kept)):
            touched |= self._affected(kind, key, name)
            if kind == BINDING:
                self._topics.put((namespace, name), kept.get("spec") or {})
                touched |= self._affected(kind, key, name)
        return touched | {key}

    def _drop(self, kind: Kind, namespace: str, name: str) -> set[PoolKey]:
        key = self._where[kind, namespace, name]
        touched = self._affected(kind, key, name) | {key}
        del self._where[kind, namespace, name], self._put_at[kind, namespace, name]
        if kind == BINDING:
            self._topics.drop((namespace, name))
        bodies = self._objects[kind, key]
        del bodies[name]
        if not bodies:
            del self._objects[kind, key]
        return touched


def _desired_state(body: Manifest) -> tuple[object, ...]:
    """What changes with what the user wants of an object, and not with its status."""
    metadata = body["metadata"]
    return metadata["uid"], metadata.get("generation"), "deletionTimestamp" in metadata


def _version(body: Manifest) -> int:
    # resource versions of one kind can be compared as numbers (KEP-5504); before that they already were etcd's revisions
    return int(body["metadata"]["resourceVersion"])
