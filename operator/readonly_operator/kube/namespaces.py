"""Labels of namespaces, by which a pool may select the namespaces of its bindings."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from readonly_operator.kube.kinds import Manifest


class NamespaceLabels:
    """Known labels of namespaces. Thread-safe.

    A namespace whose labels are not known is absent: the caller reads it, or treats it as not selected.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, dict[str, str]]] = {}
        self._problem = ""

    @property
    def problem(self) -> str:
        """Return why labels cannot be read: the API server's refusal; empty while they can."""
        return self._problem

    def labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a namespace; None while they are not known."""
        known = self._known.get(name)
        return None if known is None else known[1]

    def put(self, body: Manifest) -> bool:
        """Record a namespace unless a newer state is known; return whether its labels changed."""
        with self._lock:
            self._problem = ""
            return self._put(body)

    def drop(self, name: str) -> bool:
        """Remove a deleted namespace; return whether it was known."""
        with self._lock:
            return self._known.pop(name, None) is not None

    def replace(self, bodies: Iterable[Manifest]) -> set[str]:
        """Record a complete list, and drop all other namespaces; return those whose labels changed."""
        with self._lock:
            self._problem = ""
            before = {name: labels for name, (_, labels) in self._known.items()}
            listed = set()
            for body in bodies:
                listed.add(body["metadata"]["name"])
                self._put(body)
            for name in self._known.keys() - listed:
                del self._known[name]
            after = {name: labels for name, (_, labels) in self._known.items()}
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

    def _put(self, body: Manifest) -> bool:
        metadata = body["metadata"]
        version, labels = int(metadata["resourceVersion"]), dict(metadata.get("labels") or {})
        known = self._known.get(metadata["name"])
        if known is not None and version < known[0]:
            return False
        self._known[metadata["name"]] = version, labels
        return known is None or known[1] != labels
