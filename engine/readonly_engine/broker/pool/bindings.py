"""Which topics and subscriptions this pool serves: patterns of the command line, and the bindings file with its reader."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from readonly_engine.config.expression import Expression, ExpressionError
from readonly_engine.config.topic_patterns import is_name, is_namespace, is_system_topic, literal_namespace
from readonly_engine.config.yaml_file import YamlFileError, read_yaml
from readonly_engine.metadata.errors import TopicNameError
from readonly_engine.metadata.topic_name import parse_topic_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from readonly_engine.metadata.topic_name import TopicName

_KEYS = {"name", "topics", "namespaces", "subscriptions", "fallback", "lifecyclePolicy"}

MAX_REMEMBERED = 100_000
"""Topics of which it is remembered what they are bound by."""

E = TypeVar("E", bound=StrEnum)


class Fallback(StrEnum):
    """Where clients go for a bound topic while no broker of the pool can serve it."""

    REJECT = "Reject"
    """Nowhere: they are told to try again, and the owner brokers never get the pool's load unasked."""
    WRITER = "Writer"
    """To the topic's owner; they stay there until they look the topic up again."""


class Lifecycle(StrEnum):
    """What becomes of connected consumers when a binding goes."""

    DRAIN = "Drain"
    """They are closed and look their topic up again, which sends them to its owner."""
    DETACH = "Detach"
    """They are served until they leave by themselves; only new ones go to the owner."""


class BindingsError(Exception):
    """A pattern or a bindings file that cannot be used: says which part, and what would be right."""


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """One topic, or all topics whose full name matches a regular expression.

    Attributes:
        text: as the user wrote it.
        namespace: TENANT/NAMESPACE of all topics that are meant, which no expression leaves; None where it leaves that open.
        meant: the topic's full name, or what the whole name of a topic, without a partition's suffix, must match.
    """

    text: str
    namespace: str | None
    meant: str | Expression

    def matches(self, topic: TopicName) -> bool:
        """Whether the topic, or the partitioned topic that it belongs to, is meant."""
        if self.namespace is not None and self.namespace != f"{topic.tenant}/{topic.namespace}":
            return False
        names = (str(topic), str(topic.base))
        return self.meant in names if isinstance(self.meant, str) else any(map(self.meant.matches, names))


def parse_pattern(text: str) -> TopicPattern:
    """A topic's name, or a regular expression over full names, as Pulsar's topicsPattern.

    Raises:
        BindingsError: neither.
    """
    if is_name(text):
        try:
            topic = parse_topic_name(text)
        except TopicNameError as error:
            raise BindingsError(f"{error}, or a regular expression over such names") from error
        return TopicPattern(text, f"{topic.tenant}/{topic.namespace}", str(topic))
    advice = (
        "write a topic (persistent://TENANT/NAMESPACE/TOPIC) or a regular expression over full names "
        "(persistent://TENANT/NAMESPACE/orders-.*)"
    )
    if not text.startswith(("persistent://", "non-persistent://")):
        raise BindingsError(f"{text!r} is not a topic pattern: it names no namespace; {advice}")
    try:
        return TopicPattern(text, literal_namespace(text), Expression.parse(text))
    except ExpressionError as error:
        raise BindingsError(f"{text!r} is not a topic pattern: {error}; {advice}") from error


@dataclass(frozen=True, slots=True)
class Binding:
    """Topics that are bound together, under the name of a ReadOnlyTopicBinding.

    Attributes:
        name: of the binding.
        topics: names and expressions.
        namespaces: TENANT/NAMESPACE, all topics of which are meant, other than those that Pulsar keeps for itself.
        subscriptions: what the whole name of a subscription must match, one of them; empty for any subscription.
        fallback: where clients go while no broker can serve.
        lifecycle: what becomes of consumers when the binding goes.
    """

    name: str
    topics: tuple[TopicPattern, ...] = ()
    namespaces: tuple[str, ...] = ()
    subscriptions: tuple[Expression, ...] = ()
    fallback: Fallback = Fallback.REJECT
    lifecycle: Lifecycle = Lifecycle.DRAIN

    def covers(self, topic: TopicName) -> bool:
        """Whether the topic is meant."""
        return any(pattern.matches(topic) for pattern in self.topics) or (
            f"{topic.tenant}/{topic.namespace}" in self.namespaces and not is_system_topic(str(topic))
        )

    def names(self, subscription: str) -> bool:
        """Whether the subscription is meant."""
        return not self.subscriptions or any(expression.matches(subscription) for expression in self.subscriptions)

    def document(self) -> dict[str, Any]:
        """The binding as the file has it, without what is left at its default."""
        found: dict[str, Any] = {"name": self.name, "topics": [pattern.text for pattern in self.topics]}
        if self.namespaces:
            found["namespaces"] = list(self.namespaces)
        if self.subscriptions:
            found["subscriptions"] = [expression.text for expression in self.subscriptions]
        if self.fallback is not Fallback.REJECT:
            found["fallback"] = self.fallback.value
        if self.lifecycle is not Lifecycle.DRAIN:
            found["lifecyclePolicy"] = self.lifecycle.value
        return found


@dataclass(frozen=True, slots=True)
class Bindings:
    """All that is bound to the pool.

    Attributes:
        bindings: in the file's order.
        revision: the file's own name for this state, which status compares; None where there is no file.
    """

    bindings: tuple[Binding, ...] = ()
    revision: str | None = None
    _known: dict[TopicName, tuple[Binding, ...]] = field(default_factory=dict, compare=False, repr=False)

    def covering(self, topic: TopicName) -> tuple[Binding, ...]:
        """The bindings that mean a topic. Only persistent topics have entries in bookies."""
        known = self._known.get(topic)
        if known is None:
            known = ()
            if topic.domain == "persistent":
                known = tuple(binding for binding in self.bindings if binding.covers(topic))
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            self._known[topic] = known
        return known

    def covers(self, topic: TopicName) -> bool:
        """Whether this pool serves the topic, for some subscription at least."""
        return bool(self.covering(topic))

    def serves(self, topic: TopicName, subscription: str) -> bool:
        """Whether this pool serves a subscription of the topic."""
        return any(binding.names(subscription) for binding in self.covering(topic))

    def detaches(self, topic: TopicName, subscription: str) -> bool:
        """Whether the consumers of a subscription stay when what binds it now goes."""
        return any(
            binding.lifecycle is Lifecycle.DETACH and binding.names(subscription) for binding in self.covering(topic)
        )

    def falls_back(self, topic: TopicName) -> bool:
        """Whether clients go to the topic's owner while no broker of the pool can serve it."""
        return any(binding.fallback is Fallback.WRITER for binding in self.covering(topic))


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
        entry = _mapping(item, where, _KEYS)
        if not isinstance(entry.get("name"), str) or not _are_texts(entry.get("topics")):
            raise BindingsError(f"{where} must have a name and a list of topics")
        try:
            bindings.append(_binding(entry))
        except BindingsError as error:
            raise BindingsError(f"{where}: {error}") from error
    return Bindings(tuple(bindings), revision)


def _binding(entry: Mapping[str, Any]) -> Binding:
    namespaces, subscriptions = entry.get("namespaces", []), entry.get("subscriptions", [])
    if not _are_texts(namespaces) or not all(map(is_namespace, namespaces)):
        raise BindingsError("namespaces must be a list of TENANT/NAMESPACE")
    if not _are_texts(subscriptions):
        raise BindingsError("subscriptions must be a list of names or regular expressions")
    return Binding(
        entry["name"],
        tuple(parse_pattern(topic) for topic in entry["topics"]),
        tuple(namespaces),
        tuple(_subscription(text) for text in subscriptions),
        _choice(entry, "fallback", Fallback.REJECT),
        _choice(entry, "lifecyclePolicy", Lifecycle.DRAIN),
    )


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _subscription(text: str) -> Expression:
    try:
        return Expression.parse(text)
    except ExpressionError as error:
        raise BindingsError(f"subscriptions: {text!r} is no regular expression: {error}") from error


def _choice(entry: Mapping[str, Any], key: str, default: E) -> E:
    choices: type[E] = type(default)
    try:
        return choices(entry.get(key, default))
    except ValueError:
        right = " or ".join(choices)
        raise BindingsError(f"{key} must be {right}, not {entry[key]!r}") from None


def _mapping(value: object, where: str, keys: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BindingsError(f"{where} must be a mapping with the keys {', '.join(sorted(keys))}")
    unknown = sorted(str(key) for key in value if key not in keys)
    if unknown:
        raise BindingsError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(sorted(keys))}")
    return value
