"""Limits of connections and consumers of a broker. Pure. The error texts are those of a stock broker."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from readonly_engine.config.settings import EngineConfig
    from readonly_engine.metadata.topic_name import TopicName

K = TypeVar("K")

_CONNECTIONS: Final = "connections"
_PER_IP: Final = "connections-per-ip"
_PER_TOPIC: Final = "consumers-per-topic"
_PER_SUBSCRIPTION: Final = "consumers-per-subscription"


class Limits:
    """Counts connections and consumers, and refuses those above a limit.

    Args:
        config: with the limits; 0 for none.

    Attributes:
        config: as above.
        consumers: number of consumers.
        refused: number of refused connections and consumers since the start, by the option of the limit without its `max-`.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.consumers = 0
        self.refused = dict.fromkeys((_CONNECTIONS, _PER_IP, _PER_TOPIC, _PER_SUBSCRIPTION), 0)
        self._connections: Counter[str] = Counter()
        self._topics: Counter[TopicName] = Counter()
        self._subscriptions: Counter[tuple[TopicName, str]] = Counter()

    def connect(self, address: str) -> str:
        """Count a connection; return the reason to refuse it, empty to accept it. Call `disconnect` at its end in both cases."""
        self._connections[address] += 1
        limits = self.config
        if limits.max_connections and self._connections.total() > limits.max_connections:
            return self._refuse(_CONNECTIONS, "Reached the maximum number of connections")
        if limits.max_connections_per_ip and self._connections[address] > limits.max_connections_per_ip:
            return self._refuse(_PER_IP, f"Reached the maximum number of connections on address {address}")
        return ""

    def disconnect(self, address: str) -> None:
        """Stop counting a connection."""
        _decrease(self._connections, address)

    def subscribe(self, topic: TopicName, subscription: str) -> str:
        """Count a consumer, and return an empty text; or return the reason to refuse it. Call `leave` only if it was counted."""
        limits = self.config
        if limits.max_consumers_per_topic and self._topics[topic] >= limits.max_consumers_per_topic:
            return self._refuse(_PER_TOPIC, "Topic reached max consumers limit")
        key = (topic, subscription)
        if limits.max_consumers_per_subscription and self._subscriptions[key] >= limits.max_consumers_per_subscription:
            return self._refuse(_PER_SUBSCRIPTION, "Subscription reached max consumers limit")
        self.consumers += 1
        if limits.max_consumers_per_topic:
            self._topics[topic] += 1
        if limits.max_consumers_per_subscription:
            self._subscriptions[key] += 1
        return ""

    def leave(self, topic: TopicName, subscription: str) -> None:
        """Stop counting a consumer."""
        self.consumers -= 1
        if self.config.max_consumers_per_topic:
            _decrease(self._topics, topic)
        if self.config.max_consumers_per_subscription:
            _decrease(self._subscriptions, (topic, subscription))

    def _refuse(self, limit: str, reason: str) -> str:
        self.refused[limit] += 1
        return reason


def _decrease(counter: Counter[K], key: K) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
