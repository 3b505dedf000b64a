"""Index of bindings by topic, which finds possible conflicts among thousands of bindings without comparing all pairs. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from readonly_engine.config.topic_patterns import base_of

from readonly_operator.bindings.overlap import claimed, namespace_of

if TYPE_CHECKING:
    from collections.abc import Mapping

Name = tuple[str, str]
"""Namespace and name of a binding."""

_LITERAL = re.compile(r"[\w:/%=~@-]*")
_QUANTIFIER = ("?", "*", "{", "\\Q\\E", "(?")
"""Tokens that make the character before them optional. RE2 allows flags and an empty quotation in between."""


class _Claims(NamedTuple):
    """Claims of a binding.

    Attributes:
        topics: full names; a partition stands for its topic.
        prefixes: prefixes of the full names that expressions and namespaces claim, each within one namespace.
    """

    topics: frozenset[str] = frozenset()
    prefixes: frozenset[str] = frozenset()


class BindingTopicIndex:
    """Bindings by claimed topic names and by prefixes of claimed names."""

    def __init__(self) -> None:
        self._of: dict[Name, _Claims] = {}
        self._named: defaultdict[str, set[Name]] = defaultdict(set)
        self._within: defaultdict[str, set[str]] = defaultdict(set)
        self._wide: defaultdict[str, set[tuple[str, Name]]] = defaultdict(set)

    def put(self, name: Name, spec: Mapping[str, Any]) -> None:
        """Add or replace a binding. A binding without a valid topic conflicts with none."""
        self.drop(name)
        topics = [one for one in _list(spec, "topics") if isinstance(one, str)]
        namespaces = [one for one in _list(spec, "namespaces") if isinstance(one, str)]
        found = claimed(topics, namespaces)
        wide = {*map(_prefix, found.expressions), *(f"persistent://{namespace}/" for namespace in found.namespaces)}
        self._of[name] = _Claims(frozenset(map(base_of, found.names)), frozenset(wide))
        for topic in self._of[name].topics:
            self._named[topic].add(name)
            self._within[namespace_of(topic)].add(topic)
        for prefix in wide:
            self._wide[namespace_of(prefix)].add((prefix, name))

    def drop(self, name: Name) -> None:
        """Remove a binding."""
        claims = self._of.pop(name, _Claims())
        for topic in claims.topics:
            _discard(self._named, topic, name)
            if topic not in self._named:
                _discard(self._within, namespace_of(topic), topic)
        for prefix in claims.prefixes:
            _discard(self._wide, namespace_of(prefix), (prefix, name))

    def conflicting(self, name: Name) -> set[Name]:
        """Return other bindings that may claim a topic of this one."""
        claims = self._of.get(name, _Claims())
        found: set[Name] = set()
        for topic in claims.topics:
            found |= self._named.get(topic, set())
        for text in claims.topics | claims.prefixes:
            found |= {other for prefix, other in self._wide.get(namespace_of(text), ()) if _compatible(prefix, text)}
        for prefix in claims.prefixes:
            for topic in self._within.get(namespace_of(prefix), ()):
                if _compatible(prefix, topic):
                    found |= self._named[topic]
        return found - {name}


def _prefix(expression: str) -> str:
    """Return the literal prefix of every full name that the expression matches: at least its namespace."""
    namespace = f"persistent://{namespace_of(expression)}/"
    if not expression.startswith(namespace):
        return namespace
    rest = expression[len(namespace) :]
    literal = _LITERAL.match(rest)
    assert literal is not None
    plain = literal[0]
    if "|" in rest and not re.fullmatch(r"[^|()\\\[]*\([^()\\\[]*\)[^|()\\\[]*", rest):
        plain = ""  # only with one plain group is it clear which parts are alternatives
    elif rest[len(plain) :].startswith(_QUANTIFIER):
        plain = plain[:-1]
    return namespace + plain


def _compatible(prefix: str, text: str) -> bool:
    """Return whether one name can begin with both; a partition's name is longer than its topic's."""
    return text.startswith(prefix) or prefix.startswith(text)


def _list(spec: Mapping[str, Any], key: str) -> list[Any]:
    value = spec.get(key)
    return value if isinstance(value, list) else []


def _discard(index: defaultdict[str, set[Any]], key: str, value: object) -> None:
    found = index.get(key)
    if found is not None:
        found.discard(value)
        if not found:
            del index[key]
