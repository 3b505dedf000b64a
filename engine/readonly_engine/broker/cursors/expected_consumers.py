"""Exclusive consumers that are on the way here from another broker of the pool, which has redirected them. Pure.

For a moment such a consumer is nowhere. Its client counts it as subscribed, so no other consumer may take its place meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

ARRIVAL_S: Final = 5.0
"""Time for which a consumer is expected. A client connects to the broker of a redirect at once, or not at all."""


class ExpectedConsumers:
    """The expected consumers by subscription. Times are in seconds of any one clock."""

    def __init__(self) -> None:
        self._expected: dict[Hashable, tuple[str, float]] = {}  # name and end of the wait, the earliest end first

    def expect(self, subscription: Hashable, name: str, now: float) -> None:
        """Expect a consumer.

        Args:
            subscription: its subscription.
            name: its name, which clients keep.
            now: the time.
        """
        while self._expected:
            first = next(iter(self._expected))
            if self._expected[first][1] > now:
                break
            del self._expected[first]
        self._expected.pop(subscription, None)
        self._expected[subscription] = (name, now + ARRIVAL_S)

    def admits(self, subscription: Hashable, name: str, now: float) -> bool:
        """Return whether a consumer may come now: it is the expected one, or none is expected."""
        expected = self._expected.get(subscription)
        return expected is None or expected[0] == name or expected[1] <= now

    def arrived(self, subscription: Hashable) -> None:
        """Expect no consumer any more."""
        self._expected.pop(subscription, None)

    def __len__(self) -> int:
        return len(self._expected)
