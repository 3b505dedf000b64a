"""Overlap of two bindings: the topics that both claim. Pure.

Names, namespaces, and names against expressions are compared as text. Whether two different expressions share a topic cannot be
decided from their text, so they overlap only in an existing topic.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from readonly_engine.config.expression import Expression
from readonly_engine.config.topic_patterns import base_of, is_name, is_system_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from readonly_operator.api.binding import Binding

_SCHEME = "persistent://"
CACHE_SIZE = 1024
"""Parsed expressions that are cached."""


class Claimed(NamedTuple):
    """Claims of a binding.

    Attributes:
        names: full names of topics.
        expressions: regular expressions of full names.
        namespaces: TENANT/NAMESPACE, with all their topics.
    """

    names: tuple[str, ...]
    expressions: tuple[str, ...]
    namespaces: tuple[str, ...]


def claimed(topics: Iterable[str], namespaces: Iterable[str]) -> Claimed:
    """Return the claims of a binding's topics and namespaces."""
    every = tuple(topics)
    expressions = tuple(topic for topic in every if not is_name(topic))
    return Claimed(tuple(filter(is_name, every)), expressions, tuple(namespaces))


def namespace_of(topic: str) -> str:
    """Return TENANT/NAMESPACE of a full name or of an expression, which has both literally."""
    return "/".join(topic.removeprefix(_SCHEME).split("/")[:2])


def find_overlap(older: Binding, younger: Binding, matched: Callable[[], Iterable[str]]) -> str:
    """Return an overlap of two bindings: a topic's name, or a namespace or expression in words; empty for none.

    Args:
        older: one binding.
        younger: the other.
        matched: returns the existing topics that the older one matches; called only when both have expressions.
    """
    one, other = claimed(older.topics, older.namespaces), claimed(younger.topics, younger.namespaces)
    by_name = _names(one, other) or _names(other, one) or _namespaces(one, other) or _namespaces(other, one)
    if by_name:
        return by_name
    same = sorted(set(one.expressions) & set(other.expressions))
    if same:
        return f"all topics that match {same[0]}"
    places = {namespace_of(expression) for expression in one.expressions}
    if not places & {namespace_of(expression) for expression in other.expressions}:
        return ""
    return next((topic for topic in matched() if matches(other.expressions, topic)), "")


def _names(one: Claimed, other: Claimed) -> str:
    """Return a topic that one claims by name, and the other in any way."""
    others = set(other.names)
    for name in one.names:
        if name in others or base_of(name) in others or matches(other.expressions, name):
            return name
        if namespace_of(name) in other.namespaces and not is_system_topic(name):
            return name
    return ""


def _namespaces(one: Claimed, other: Claimed) -> str:
    """Return a namespace that one claims completely, and the other at least in part."""
    for namespace in one.namespaces:
        if namespace in other.namespaces:
            return f"all topics of {namespace}"
        for expression in other.expressions:
            if namespace_of(expression) == namespace:
                return f"topics that match {expression}"
    return ""


def matches(expressions: Iterable[str], topic: str) -> bool:
    """Return whether an expression of the topic's own namespace matches the topic."""
    return any(
        namespace_of(text) == namespace_of(topic) and any(map(_parsed(text).matches, (topic, base_of(topic))))
        for text in expressions
    )


@lru_cache(maxsize=CACHE_SIZE)
def _parsed(text: str) -> Expression:
    return Expression.parse(text)
