"""Topics that only a deleted binding claims, and no other binding of its pool. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from readonly_engine.config.topic_patterns import base_of, is_system_topic

from readonly_operator.bindings.overlap import claimed, matches, namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from readonly_operator.api.binding import Binding


@dataclass(frozen=True, slots=True)
class Coverage:
    """Topics that some bindings claim together.

    Attributes:
        names: full names.
        expressions: regular expressions of full names.
        complete: TENANT/NAMESPACE with all their topics.
    """

    names: frozenset[str] = frozenset()
    expressions: frozenset[str] = frozenset()
    complete: frozenset[str] = frozenset()

    @classmethod
    def of(cls, bindings: Iterable[Binding]) -> Coverage:
        """Return the topics of bindings."""
        claims = [claimed(binding.topics, binding.namespaces) for binding in bindings]
        return cls(
            frozenset(name for one in claims for name in one.names),
            frozenset(text for one in claims for text in one.expressions),
            frozenset(namespace for one in claims for namespace in one.namespaces),
        )

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Return TENANT/NAMESPACE of all topics, sorted."""
        return tuple(sorted({*map(namespace_of, self.names | self.expressions), *self.complete}))

    def within(self, namespaces: Iterable[str]) -> Coverage:
        """Return the part in these namespaces."""
        kept = frozenset(namespaces)
        return Coverage(
            frozenset(name for name in self.names if namespace_of(name) in kept),
            frozenset(text for text in self.expressions if namespace_of(text) in kept),
            self.complete & kept,
        )

    def covers(self, topic: str) -> bool:
        """Return whether a topic is claimed, by its full name or that of a partition."""
        if topic in self.names or base_of(topic) in self.names:
            return True
        if namespace_of(topic) in self.complete and not is_system_topic(topic):
            return True
        return matches(self.expressions, topic)


@dataclass(frozen=True, slots=True)
class Uncovered:
    """Topics of a binding that no other binding of its pool covers.

    Attributes:
        leaving: topics of the binding.
        staying: topics of the others.
    """

    leaving: Coverage
    staying: Coverage

    @classmethod
    def of(cls, binding: Binding, others: Iterable[Binding], invalid: Iterable[Mapping[str, Any]]) -> Uncovered:
        """Return the topics of a binding that its pool's other bindings do not cover.

        Args:
            binding: the binding.
            others: the other bindings of the pool.
            invalid: objects of bindings with an invalid spec. They count with all topics of the namespaces that they name.
        """
        leaving, named = Coverage.of([binding]), Coverage.of(others)
        staying = Coverage(named.names, named.expressions, named.complete.union(*map(_namespaces, invalid)))
        return cls(leaving, staying.within(leaving.namespaces))

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Return TENANT/NAMESPACE of all topics, sorted."""
        return self.leaving.namespaces

    def includes(self, topic: str) -> bool:
        """Return whether only the binding claims a topic, by its full name or that of a partition."""
        return self.leaving.covers(topic) and not self.staying.covers(topic)


def _namespaces(body: Mapping[str, Any]) -> set[str]:
    spec = body.get("spec")
    texts = [
        text
        for field in ("topics", "namespaces")
        for text in ((spec.get(field) or ()) if isinstance(spec, dict) else ())
        if isinstance(text, str)
    ]
    return set(map(namespace_of, texts))
