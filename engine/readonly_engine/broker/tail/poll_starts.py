"""Spreads the first polls of topics whose owner has ended its pushes, because that ends those of all its topics together.

Ten thousand topics that begin to poll their bookies at once keep the event loop busy for seconds. Mostly the owner, or another
broker, pushes them again before their turn.
"""

from __future__ import annotations

from typing import Final

STARTS_PER_S: Final = 200.0
"""A topic's first polls are several requests to each of its bookies. A stock owner loads some 120 topics a second (measured)."""

AT_ONCE: Final = 100
"""Topics that need not wait."""


class PollStarts:
    """Gives each topic the time of its first poll, for all topics of a broker. Pure; seconds are those of any one clock."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = 0.0

    def delay(self, now: float) -> float:
        """Return the seconds until one more topic may poll.

        Args:
            now: the time.
        """
        self._next = max(self._next, now - AT_ONCE / STARTS_PER_S) + 1 / STARTS_PER_S
        return max(self._next - now, 0.0)
