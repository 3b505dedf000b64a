"""Which bindings may claim the same topics: an index, so that thousands of bindings are not compared with each other. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from readonly_operator.bindings.overlap import base_of, claimed, namespace_of

if TYPE_CHECKING:
    from collections.abc import Mapping

Name = tuple[str, str]
"""Namespace and name of a binding."""

_LITERAL = re.compile(r"[\w:/%=~@-]*")
_QUANTIFIER = ("?", "*", "{", "\\Q\\E", "(?")
"""What may say of the character before it that it need not be there: RE2 lets flags and an empty quotation stand in between."""


class _Claims(NamedTuple):
    """What a binding claims.

    Attributes:
        topics: full names, of partitions those of their topics.
        prefixes: what full names begin with that it claims besides, each of one namespace.
    """

    topics: frozenset[str] = frozenset()
    prefixes: frozenset[str] = frozenset()


class BindingTopicIndex:
    """Bindings by the topics that they name, and by what the names begin with that they mean besides."""

    def __init__(self) -> None:
        self._of: dict[Name, _Claims] = {}
        self._named: defaultdict[str, set[Name]] = defaultdict(set)
        self._within: defaultdict[str, set[str]] = defaultdict(set)
        self._wide: defaultdict[str, set[tuple[str, Name]]] = defaultdict(set)

    def put(self, name: Name, spec: Mapping[str, Any]) -> None:
        """Take note of a binding; one that names nothing that could be a topic has no rivals."""
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
        """Forget a binding."""
        claims = self._of.pop(name, _Claims())
        for topic in claims.topics:
            _discard(self._named, topic, name)
            if topic not in self._named:
                _discard(self._within, namespace_of(topic), topic)
        for prefix in claims.prefixes:
            _discard(self._wide, namespace_of(prefix), (prefix, name))

    def conflicting(self, name: Name) -> set[Name]:
        """Other bindings that may claim a topic of this one."""
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
    """What every full name that the expression matches begins with, as far as that is plain: its namespace at least."""
    namespace = f"persistent://{namespace_of(expression)}/"
    if not expression.startswith(namespace):
        return namespace
    rest = expression[len(namespace) :]
    literal = _LITERAL.match(rest)
    assert literal is not None
    plain = literal[0]
    if "|" in rest and not re.fullmatch(r"[^|()\\\[]*\([^()\\\[]*\)[^|()\\\[]*", rest):
        plain = ""  # but for one plain group, it takes more than a look to tell which parts are alternatives
    elif rest[len(plain) :].startswith(_QUANTIFIER):
        plain = plain[:-1]
    return namespace + plain


def _compatible(prefix: str, text: str) -> bool:
    """Whether a name can begin with both; a partition's name is longer than the text of its topic."""
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
