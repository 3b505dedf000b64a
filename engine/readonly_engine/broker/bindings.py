"""Which topics this pool serves: patterns of the command line and of the bindings file, and the file's reader."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from readonly_engine.metadata.errors import TopicNameError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.yaml_file import YamlFileError, read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from readonly_engine.metadata.topic_name import TopicName

_PLAIN_NAME = re.compile(r"[-\w.=:%~@+/]+")


class BindingsError(Exception):
    """A pattern or a bindings file that cannot be used: says which part, and what would be right."""


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """One topic, or all topics whose full name matches a regular expression.

    Attributes:
        text: as the user wrote it.
        expression: what the whole name of a topic, without a partition's suffix, must match.
    """

    text: str
    expression: re.Pattern[str]

    def matches(self, topic: TopicName) -> bool:
        """Whether the topic, or the partitioned topic that it belongs to, is meant."""
        return (
            self.expression.fullmatch(str(topic)) is not None or self.expression.fullmatch(str(topic.base)) is not None
        )


def parse_pattern(text: str) -> TopicPattern:
    """A topic's name, or a regular expression over full names, as Pulsar's topicsPattern.

    Raises:
        BindingsError: neither.
    """
    if _PLAIN_NAME.fullmatch(text) and ".+" not in text:
        try:
            return TopicPattern(text, re.compile(re.escape(str(parse_topic_name(text)))))
        except TopicNameError as error:
            raise BindingsError(f"{error}, or a regular expression over such names") from error
    advice = (
        "write a topic (persistent://TENANT/NAMESPACE/TOPIC) or a regular expression over full names "
        "(persistent://TENANT/NAMESPACE/orders-.*)"
    )
    if not text.startswith(("persistent://", "non-persistent://")):
        raise BindingsError(f"{text!r} is not a topic pattern: it names no namespace; {advice}")
    try:
        return TopicPattern(text, re.compile(text))
    except re.error as error:
        raise BindingsError(f"{text!r} is not a topic pattern: {error}; {advice}") from error


@dataclass(frozen=True, slots=True)
class Binding:
    """Topics that are bound together, under the name of a ReadOnlyTopicBinding."""

    name: str
    topics: tuple[TopicPattern, ...]


@dataclass(frozen=True, slots=True)
class Bindings:
    """All that is bound to the pool.

    Attributes:
        bindings: in the file's order.
        revision: the file's own name for this state, which status compares; None where there is no file.
    """

    bindings: tuple[Binding, ...] = ()
    revision: str | None = None
    _known: dict[TopicName, bool] = field(default_factory=dict, compare=False, repr=False)

    def covers(self, topic: TopicName) -> bool:
        """Whether this pool serves the topic. Only persistent topics have entries in bookies."""
        known = self._known.get(topic)
        if known is None:
            known = topic.domain == "persistent" and any(
                pattern.matches(topic) for binding in self.bindings for pattern in binding.topics
            )
            self._known[topic] = known
        return known


def from_patterns(name: str, patterns: Iterable[str]) -> Binding:
    """A binding of patterns of the command line or the configuration file.

    Raises:
        BindingsError: one of them is no pattern.
    """
    return Binding(name, tuple(parse_pattern(pattern) for pattern in patterns))


def load_bindings(path: Path) -> Bindings:
    """Read a bindings file.

    Raises:
        BindingsError: the file cannot be read, or is not what it should be.
    """
    try:
        document = read_yaml(path, "bindings file")
    except YamlFileError as error:
        raise BindingsError(str(error)) from error
    top = _mapping(document, f"bindings file {path}", {"revision", "bindings"})
    revision, items = top.get("revision"), top.get("bindings", [])
    if not isinstance(revision, str):
        raise BindingsError(f"bindings file {path}: revision must be a text")
    if not isinstance(items, list):
        raise BindingsError(f"bindings file {path}: bindings must be a list")
    bindings = []
    for index, item in enumerate(items):
        where = f"bindings file {path}: bindings[{index}]"
        entry = _mapping(item, where, {"name", "topics"})
        name, topics = entry.get("name"), entry.get("topics")
        if (
            not isinstance(name, str)
            or not isinstance(topics, list)
            or not all(isinstance(topic, str) for topic in topics)
        ):
            raise BindingsError(f"{where} must have a name and a list of topics")
        try:
            bindings.append(from_patterns(name, topics))
        except BindingsError as error:
            raise BindingsError(f"{where}: {error}") from error
    return Bindings(tuple(bindings), revision)


def _mapping(value: object, where: str, keys: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BindingsError(f"{where} must be a mapping with the keys {', '.join(sorted(keys))}")
    unknown = sorted(str(key) for key in value if key not in keys)
    if unknown:
        raise BindingsError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(sorted(keys))}")
    return value
