"""Consumers that are on the way here from another broker of the pool, which has redirected them. Pure.

For a moment such a consumer is nowhere. Its client counts it as subscribed. So no consumer that it excludes may come meanwhile:
one of another type, any one if it is Exclusive, or one of Key_Shared with some of its ranges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.broker.cursors.consumers import ConsumerAssignError, ConsumerBusyError, check_compatible

if TYPE_CHECKING:
    from collections.abc import Hashable

    from readonly_engine.broker.cursors.consumers import LocalConsumer

ARRIVAL_S: Final = 5.0
"""Time for which a consumer is expected. A client connects to the broker of a redirect at once, or not at all."""

MAX_EXPECTED: Final = 100_000
"""Bound of expected consumers. The one that has been expected for the longest time goes first."""


class _Expected(NamedTuple):
    consumer: LocalConsumer
    end: float


class ExpectedConsumers:
    """The expected consumers by subscription and name. Times are in seconds of any one clock."""

    def __init__(self) -> None:
        self._order: dict[tuple[Hashable, str], float] = {}  # the earliest end first
        self._expected: dict[Hashable, dict[str, _Expected]] = {}

    def expect(self, subscription: Hashable, consumer: LocalConsumer, now: float) -> None:
        """Expect a consumer.

        Args:
            subscription: its subscription.
            consumer: the consumer. Clients keep its name.
            now: the time.
        """
        while self._order:
            first = next(iter(self._order))
            if self._order[first] > now and len(self._order) < MAX_EXPECTED:
                break
            self.arrived(*first)
        self.arrived(subscription, consumer.name)
        end = self._order[subscription, consumer.name] = now + ARRIVAL_S
        self._expected.setdefault(subscription, {})[consumer.name] = _Expected(consumer, end)

    def admits(self, subscription: Hashable, consumer: LocalConsumer, now: float) -> bool:
        """Return whether a consumer may come now: no other expected one excludes it."""
        expected = self._expected.get(subscription, {})
        others = [one.consumer for name, one in expected.items() if name != consumer.name and one.end > now]
        try:
            check_compatible(consumer, others)
        except (ConsumerBusyError, ConsumerAssignError):
            return False
        return True

    def arrived(self, subscription: Hashable, name: str) -> None:
        """Expect a consumer no more."""
        if self._order.pop((subscription, name), None) is not None:
            of_subscription = self._expected[subscription]
            del of_subscription[name]
            if not of_subscription:
                del self._expected[subscription]

    def __len__(self) -> int:
        return len(self._order)
