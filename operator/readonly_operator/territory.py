"""Which bindings may claim the same topics: an index, so that thousands of bindings are not compared with each other. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from readonly_operator.overlap import base_of, claimed, namespace_of

if TYPE_CHECKING:
    from collections.abc import Mapping

Name = tuple[str, str]
"""Namespace and name of a binding."""


class Territory:
    """Bindings by the topics that they name, and by the namespaces in which they mean more than names."""

    def __init__(self) -> None:
        self._of: dict[Name, tuple[frozenset[str], frozenset[str]]] = {}
        self._named: defaultdict[str, set[Name]] = defaultdict(set)
        self._within: defaultdict[str, set[Name]] = defaultdict(set)
        self._wide: defaultdict[str, set[Name]] = defaultdict(set)

    def put(self, name: Name, spec: Mapping[str, Any]) -> None:
        """Take note of a binding; one that names nothing that could be a topic has no rivals."""
        self.drop(name)
        topics = [one for one in _list(spec, "topics") if isinstance(one, str)]
        namespaces = [one for one in _list(spec, "namespaces") if isinstance(one, str)]
        found = claimed(topics, namespaces)
        named = frozenset(map(base_of, found.names))
        wide = frozenset(found.namespaces) | frozenset(map(namespace_of, found.expressions))
        self._of[name] = named, wide
        for topic in named:
            self._named[topic].add(name)
            self._within[namespace_of(topic)].add(name)
        for namespace in wide:
            self._wide[namespace].add(name)

    def drop(self, name: Name) -> None:
        """Forget a binding."""
        named, wide = self._of.pop(name, (frozenset(), frozenset()))
        for topic in named:
            _discard(self._named, topic, name)
            _discard(self._within, namespace_of(topic), name)
        for namespace in wide:
            _discard(self._wide, namespace, name)

    def rivals(self, name: Name) -> set[Name]:
        """Other bindings that may claim a topic of this one."""
        named, wide = self._of.get(name, (frozenset(), frozenset()))
        found: set[Name] = set()
        for topic in named:
            found |= self._named.get(topic, set()) | self._wide.get(namespace_of(topic), set())
        for namespace in wide:
            found |= self._wide.get(namespace, set()) | self._within.get(namespace, set())
        return found - {name}


def _list(spec: Mapping[str, Any], key: str) -> list[Any]:
    value = spec.get(key)
    return value if isinstance(value, list) else []


def _discard(index: defaultdict[str, set[Name]], key: str, name: Name) -> None:
    found = index.get(key)
    if found is not None:
        found.discard(name)
        if not found:
            del index[key]
