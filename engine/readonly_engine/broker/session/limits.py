"""How many connections and consumers a broker takes; pure counting. The refusals are worded as the stock broker words its own."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from readonly_engine.config.limits import LimitSettings
    from readonly_engine.metadata.topic_name import TopicName

K = TypeVar("K")


class Limits:
    """Counts what a broker has, and refuses what would be too much.

    Args:
        settings: the limits.
    """

    def __init__(self, settings: LimitSettings) -> None:
        self.settings = settings
        self.consumers = 0
        self.refused = 0
        self._connections: Counter[str] = Counter()
        self._topics: Counter[TopicName] = Counter()
        self._subscriptions: Counter[tuple[TopicName, str]] = Counter()

    def connect(self, address: str) -> str:
        """Count a connection; a reason to refuse it, empty where it may stay. `disconnect` follows either way."""
        self._connections[address] += 1
        limits = self.settings
        if limits.connections and self._connections.total() > limits.connections:
            return self._refuse("Reached the maximum number of connections")
        if limits.connections_per_ip and self._connections[address] > limits.connections_per_ip:
            return self._refuse(f"Reached the maximum number of connections on address {address}")
        return ""

    def disconnect(self, address: str) -> None:
        """A connection has ended."""
        _decrease(self._connections, address)

    def subscribe(self, topic: TopicName, subscription: str) -> str:
        """Count a consumer; a reason to refuse it, empty where it was counted, and then `leave` follows."""
        limits = self.settings
        if limits.consumers_per_topic and self._topics[topic] >= limits.consumers_per_topic:
            return self._refuse("Topic reached max consumers limit")
        key = (topic, subscription)
        if limits.consumers_per_subscription and self._subscriptions[key] >= limits.consumers_per_subscription:
            return self._refuse("Subscription reached max consumers limit")
        self.consumers += 1
        if limits.consumers_per_topic:
            self._topics[topic] += 1
        if limits.consumers_per_subscription:
            self._subscriptions[key] += 1
        return ""

    def leave(self, topic: TopicName, subscription: str) -> None:
        """A consumer has gone."""
        self.consumers -= 1
        if self.settings.consumers_per_topic:
            _decrease(self._topics, topic)
        if self.settings.consumers_per_subscription:
            _decrease(self._subscriptions, (topic, subscription))

    def _refuse(self, reason: str) -> str:
        self.refused += 1
        return reason


def _decrease(counter: Counter[K], key: K) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
