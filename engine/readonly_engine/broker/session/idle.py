"""Time since a client last needed the broker: the operator puts a pool to sleep by it. Pure."""

from __future__ import annotations


class IdleClock:
    """The time at which a client last needed the broker.

    Args:
        now: the time, in seconds of any monotonic clock.
    """

    __slots__ = ("_last",)

    def __init__(self, now: float) -> None:
        self._last = now

    def needed(self, now: float) -> None:
        """Note a request, or the end of a client with consumers."""
        self._last = now

    def seconds(self, now: float, *, in_use: bool) -> float:
        """Return for how long no client has needed the broker.

        Args:
            now: the time.
            in_use: whether a client has something open: a consumer, a producer, a topic-list watcher or a request.
        """
        if in_use:
            self._last = now
        return now - self._last
