"""Bindings: the topics and subscriptions that the pool serves, from patterns of the command line and from the bindings file."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from readonly_engine.config.expression import Expression, ExpressionError
from readonly_engine.config.settings import Cursors, Tail
from readonly_engine.config.topic_patterns import is_name, is_namespace, is_system_topic, literal_namespace
from readonly_engine.config.yaml_file import YamlFileError, read_yaml
from readonly_engine.metadata.errors import TopicNameError
from readonly_engine.metadata.topic_name import parse_topic_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from readonly_engine.metadata.topic_name import TopicName

log = logging.getLogger(__name__)

_TOP_KEYS = {"revision", "bindings"}
_KEYS = {
    "name",
    "topics",
    "namespaces",
    "subscriptions",
    "fallback",
    "lifecyclePolicy",
    "tail",
    "cursors",
    "dispatch",
    "placement",
}

MAX_REMEMBERED = 100_000
"""Bound of topics with cached bindings."""

E = TypeVar("E", bound=StrEnum)


class Fallback(StrEnum):
    """Answer to lookups of a bound topic while no broker of the pool can serve it."""

    REJECT = "Reject"
    """A retriable error, so that the owner brokers never get the pool's load."""
    OWNER = "Owner"
    """The topic's owner. Clients stay there until they look the topic up again."""


class Lifecycle(StrEnum):
    """Handling of connected consumers when a binding is removed."""

    DRAIN = "Drain"
    """Close them. They look the topic up again, and go to its owner."""
    DETACH = "Detach"
    """Serve them until they leave. Only new consumers go to the owner."""


class Dispatch(StrEnum):
    """Brokers of the pool that serve one Shared or Key_Shared subscription whose cursor the owner keeps."""

    SINGLE = "Single"
    """One, to which the others redirect or relay their consumers."""
    SPLIT = "Split"
    """Each serves its own consumers. One leases the entries or keys to all."""


class Placing(StrEnum):
    """Servers of the consumers of a topic."""

    ALWAYS = "Always"
    """The pool."""
    WHEN_CHEAPER = "WhenCheaper"
    """The owner while the topic has few subscriptions (cheaper.py), the pool otherwise."""


class BindingsError(Exception):
    """An invalid pattern or bindings file; the text names the part and the expected form."""


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """One topic, or all topics whose full name matches a regular expression.

    Attributes:
        text: the pattern as written by the user.
        namespace: TENANT/NAMESPACE of all matching topics; None if an expression does not determine it.
        meant: full name of the topic, or an expression for the full name, with or without the partition's suffix.
    """

    text: str
    namespace: str | None
    meant: str | Expression

    def matches(self, topic: TopicName) -> bool:
        """Return whether the pattern matches the topic, or the partitioned topic of a partition."""
        if self.namespace is not None and self.namespace != f"{topic.tenant}/{topic.namespace}":
            return False
        names = (str(topic), str(topic.base))
        return self.meant in names if isinstance(self.meant, str) else any(map(self.meant.matches, names))


def parse_pattern(text: str) -> TopicPattern:
    """Parse a topic name, or a regular expression over full names, as Pulsar's topicsPattern.

    Raises:
        BindingsError: the text is neither.
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
    """Topics of one ReadOnlyTopicBinding, or of the patterns of a command line.

    Attributes:
        name: name of the binding.
        topics: topic names and expressions.
        namespaces: TENANT/NAMESPACE of namespaces whose topics are bound, without Pulsar's system topics.
        subscriptions: expressions, one of which must match the whole name of a subscription; empty for all subscriptions.
        fallback: answer to lookups while no broker of the pool can serve.
        lifecycle: handling of consumers when the binding is removed.
        tail: source of new entries; None for the broker's own setting.
        cursors: keeper of the subscriptions' cursors; None for the broker's own setting.
        dispatch: brokers that serve one Shared subscription.
        placement: servers of the consumers.
    """

    name: str
    topics: tuple[TopicPattern, ...] = ()
    namespaces: tuple[str, ...] = ()
    subscriptions: tuple[Expression, ...] = ()
    fallback: Fallback = Fallback.REJECT
    lifecycle: Lifecycle = Lifecycle.DRAIN
    tail: Tail | None = None
    cursors: Cursors | None = None
    dispatch: Dispatch = Dispatch.SINGLE
    placement: Placing = Placing.ALWAYS

    def covers(self, topic: TopicName) -> bool:
        """Return whether the binding includes a topic."""
        return any(pattern.matches(topic) for pattern in self.topics) or (
            f"{topic.tenant}/{topic.namespace}" in self.namespaces and not is_system_topic(str(topic))
        )

    def names(self, subscription: str) -> bool:
        """Return whether the binding includes a subscription of its topics."""
        return not self.subscriptions or any(expression.matches(subscription) for expression in self.subscriptions)

    def document(self) -> dict[str, Any]:
        """Return the binding as in the bindings file, without default values."""
        found: dict[str, Any] = {"name": self.name, "topics": [pattern.text for pattern in self.topics]}
        if self.namespaces:
            found["namespaces"] = list(self.namespaces)
        if self.subscriptions:
            found["subscriptions"] = [expression.text for expression in self.subscriptions]
        if self.fallback is not Fallback.REJECT:
            found["fallback"] = self.fallback.value
        if self.lifecycle is not Lifecycle.DRAIN:
            found["lifecyclePolicy"] = self.lifecycle.value
        if self.tail is not None:
            found["tail"] = self.tail.capitalize()
        if self.cursors is not None:
            found["cursors"] = self.cursors.capitalize()
        if self.dispatch is not Dispatch.SINGLE:
            found["dispatch"] = self.dispatch.value
        if self.placement is not Placing.ALWAYS:
            found["placement"] = self.placement.value
        return found


@dataclass(frozen=True, slots=True)
class Bindings:
    """All bindings of the pool.

    Attributes:
        bindings: the bindings, in the order of the file.
        revision: revision of the file, which the operator compares for status; None without a file.
    """

    bindings: tuple[Binding, ...] = ()
    revision: str | None = None
    _known: dict[TopicName, tuple[Binding, ...]] = field(default_factory=dict, compare=False, repr=False)
    _differing: set[tuple[str, str]] = field(default_factory=set, compare=False, repr=False)

    def covering(self, topic: TopicName) -> tuple[Binding, ...]:
        """Return the bindings of a topic; none for a non-persistent topic, which has no entries in bookies."""
        known = self._known.get(topic)
        if known is None:
            known = ()
            if topic.domain == "persistent":
                known = tuple(binding for binding in self.bindings if binding.covers(topic))
            if known == self.bindings:
                known = self.bindings  # one object for all topics, as a rule
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            self._known[topic] = known
        return known

    def covers(self, topic: TopicName) -> bool:
        """Return whether this pool serves any subscription of the topic."""
        return bool(self.covering(topic))

    def serves(self, topic: TopicName, subscription: str) -> bool:
        """Return whether this pool serves a subscription of the topic."""
        return any(binding.names(subscription) for binding in self.covering(topic))

    def detaches(self, topic: TopicName, subscription: str) -> bool:
        """Return whether the consumers of a subscription stay when its binding is removed."""
        return any(
            binding.lifecycle is Lifecycle.DETACH and binding.names(subscription) for binding in self.covering(topic)
        )

    def tail_of(self, topic: TopicName) -> Tail | None:
        """Return the source of a topic's new entries, by the first binding that names one; None without any."""
        return next((binding.tail for binding in self.covering(topic) if binding.tail is not None), None)

    def cursors_of(self, topic: TopicName, subscription: str) -> Cursors | None:
        """Return the keeper of a subscription's cursor, by the first of its bindings that names one; None without any.

        Two bindings that name different ones are logged once.
        """
        first: Binding | None = None
        for binding in self.covering(topic):
            if binding.cursors is None or not binding.names(subscription):
                continue
            if first is None:
                first = binding
            elif binding.cursors is not first.cursors and (first.name, binding.name) not in self._differing:
                self._differing.add((first.name, binding.name))
                log.warning(
                    "bindings name different keepers of cursors, the first one counts: topic=%s subscription=%s first=%s"
                    " cursors=%s other=%s cursors=%s",
                    topic,
                    subscription,
                    first.name,
                    first.cursors,
                    binding.name,
                    binding.cursors,
                )
        return None if first is None else first.cursors

    def dispatch_of(self, topic: TopicName, subscription: str) -> Dispatch:
        """Return the brokers that serve a Shared or Key_Shared subscription: Split if one of its bindings says so."""
        split = any(one.dispatch is Dispatch.SPLIT and one.names(subscription) for one in self.covering(topic))
        return Dispatch.SPLIT if split else Dispatch.SINGLE

    @property
    def leave_some_to_owners(self) -> bool:
        """Whether any binding leaves consumers to owners."""
        return any(binding.placement is Placing.WHEN_CHEAPER for binding in self.bindings)

    def placement_of(self, topic: TopicName, subscription: str) -> Placing:
        """Return the servers of a subscription's consumers: WhenCheaper if all its bindings say so."""
        placements = {one.placement for one in self.covering(topic) if one.names(subscription)}
        return Placing.WHEN_CHEAPER if placements == {Placing.WHEN_CHEAPER} else Placing.ALWAYS

    def falls_back(self, topic: TopicName) -> bool:
        """Return whether lookups return the topic's owner while no broker of the pool can serve it."""
        return any(binding.fallback is Fallback.OWNER for binding in self.covering(topic))


def from_patterns(name: str, patterns: Iterable[str]) -> Binding:
    """Make a binding from patterns of the command line or the configuration file.

    Raises:
        BindingsError: a pattern is invalid.
    """
    return Binding(name, tuple(parse_pattern(pattern) for pattern in patterns))


def load_bindings(path: Path) -> Bindings:
    """Read a bindings file. Unknown keys of a binding are ignored: the operator sees that the broker's answer lacks them.

    Raises:
        BindingsError: the file cannot be read, or is invalid.
    """
    try:
        document = read_yaml(path, "bindings file")
    except YamlFileError as error:
        raise BindingsError(str(error)) from error
    top = _mapping(document, f"bindings file {path}", _TOP_KEYS)
    unknown = sorted(str(key) for key in top if key not in _TOP_KEYS)
    if unknown:
        raise BindingsError(
            f"bindings file {path}: unknown key {unknown[0]!r}; known are {', '.join(sorted(_TOP_KEYS))}"
        )
    revision, items = top.get("revision"), top.get("bindings", [])
    if not isinstance(revision, str):
        raise BindingsError(f"bindings file {path}: revision must be a text")
    if not isinstance(items, list):
        raise BindingsError(f"bindings file {path}: bindings must be a list")
    bindings = []
    for index, item in enumerate(items):
        where = f"bindings file {path}: bindings[{index}]"
        entry = _mapping(item, where, _KEYS)
        for key in sorted(str(key) for key in entry if key not in _KEYS):
            # a newer operator wrote it, and the other bindings must not wait for newer brokers
            log.warning("unknown key is ignored; a newer version has it: where=%r key=%s", where, key)
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
        _member(Tail, "tail", entry),
        _member(Cursors, "cursors", entry),
        _choice(entry, "dispatch", Dispatch.SINGLE),
        _choice(entry, "placement", Placing.ALWAYS),
    )


def _member(enumeration: type[E], key: str, entry: Mapping[str, Any]) -> E | None:
    """Return the member of an enumeration that an entry names, with a capital; None without the key."""
    choices, value = {member.capitalize(): member for member in enumeration}, entry.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or value not in choices:
        raise BindingsError(f"{key} must be {' or '.join(choices)}, not {value!r}")
    return choices[value]


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
    return value
