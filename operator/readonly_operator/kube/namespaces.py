"""Labels of namespaces, by which a pool may select the namespaces of its bindings."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from readonly_operator.kube.kinds import Manifest


class _Known(NamedTuple):
    """State of a namespace.

    Attributes:
        version: its resource version.
        labels: its labels.
        position: checkpoint of the record.
    """

    version: int
    labels: dict[str, str]
    position: int


class NamespaceLabels:
    """Known labels of namespaces. Thread-safe.

    A namespace whose labels are not known is absent: the caller reads it, or treats it as not selected.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}
        self._puts = 0
        self._problem = ""

    @property
    def problem(self) -> str:
        """Return why labels cannot be read: the API server's refusal; empty while they can."""
        return self._problem

    def labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a namespace; None while they are not known."""
        known = self._known.get(name)
        return None if known is None else known.labels

    def put(self, body: Manifest) -> bool:
        """Record a namespace unless a newer state is known; return whether its labels changed."""
        with self._lock:
            self._problem = ""
            return self._put(body)

    def drop(self, name: str) -> bool:
        """Remove a deleted namespace; return whether it was known."""
        with self._lock:
            return self._known.pop(name, None) is not None

    def checkpoint(self) -> int:
        """Return a position for `replace`; call it before the list is requested."""
        with self._lock:
            return self._puts

    def replace(self, bodies: Iterable[Manifest], began: int, keep: Container[str | None] = ()) -> set[str]:
        """Record a complete list, and drop all other namespaces; return those whose labels changed.

        The list is newer than everything recorded before it was requested, whatever the resource versions are: after a restore
        of etcd they are lower than before.

        Args:
            bodies: the list.
            began: the checkpoint before the list was requested. Namespaces recorded later may be newer, and stay.
            keep: namespaces that cannot be read at present, which stay too.
        """
        with self._lock:
            self._problem = ""
            before = {name: known.labels for name, known in self._known.items()}
            listed = set()
            for body in bodies:
                listed.add(body["metadata"]["name"])
                self._put(body, since=began)
            for name in self._known.keys() - listed:
                if self._known[name].position <= began and name not in keep:
                    del self._known[name]
            after = {name: known.labels for name, known in self._known.items()}
        return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}

    def forbid(self, problem: str) -> set[str]:
        """Record that the API server refuses to show namespaces, and drop all labels, which may be outdated by now.

        Args:
            problem: the refusal.

        Returns:
            The dropped namespaces.
        """
        with self._lock:
            self._problem = problem
            dropped = set(self._known)
            self._known.clear()
        return dropped

    def _put(self, body: Manifest, since: int = -1) -> bool:
        """Record a namespace unless a newer state is known; what was recorded up to the checkpoint `since` is older."""
        metadata = body["metadata"]
        version, labels = int(metadata["resourceVersion"]), dict(metadata.get("labels") or {})
        known = self._known.get(metadata["name"])
        if known is not None and known.position > since and version < known.version:
            return False
        self._puts += 1
        self._known[metadata["name"]] = _Known(version, labels, self._puts)
        return known is None or known.labels != labels
