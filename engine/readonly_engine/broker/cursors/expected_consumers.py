"""Consumers that are on the way here from another broker of the pool, which has redirected them. Pure.

For a moment such a consumer is nowhere. Its client counts it as subscribed. So no consumer that it excludes may come meanwhile:
one of another type, or any one if it is Exclusive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

if TYPE_CHECKING:
    from collections.abc import Hashable

    from readonly_engine.broker.cursors.consumers import LocalConsumer

ARRIVAL_S: Final = 5.0
"""Time for which a consumer is expected. A client connects to the broker of a redirect at once, or not at all."""


class _Expected(NamedTuple):
    name: str
    kind: int
    end: float


class ExpectedConsumers:
    """The expected consumers by subscription. Times are in seconds of any one clock."""

    def __init__(self) -> None:
        self._expected: dict[Hashable, _Expected] = {}  # the last one of each; the earliest end first

    def expect(self, subscription: Hashable, consumer: LocalConsumer, now: float) -> None:
        """Expect a consumer.

        Args:
            subscription: its subscription.
            consumer: the consumer. Clients keep its name.
            now: the time.
        """
        while self._expected:
            first = next(iter(self._expected))
            if self._expected[first].end > now:
                break
            del self._expected[first]
        self._expected.pop(subscription, None)
        self._expected[subscription] = _Expected(consumer.name, consumer.kind, now + ARRIVAL_S)

    def admits(self, subscription: Hashable, consumer: LocalConsumer, now: float) -> bool:
        """Return whether a consumer may come now: it is the expected one, or does not exclude it, or none is expected."""
        expected = self._expected.get(subscription)
        if expected is None or expected.name == consumer.name or expected.end <= now:
            return True
        return consumer.kind == expected.kind != CommandSubscribe.Exclusive

    def arrived(self, subscription: Hashable) -> None:
        """Expect no consumer any more."""
        self._expected.pop(subscription, None)

    def __len__(self) -> int:
        return len(self._expected)
