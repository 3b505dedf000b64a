"""How long work at a source cluster is tried in vain. Pure.

The wall clock does not tell: while the threads work for other clusters, or no operator runs, nothing is tried.
"""

from __future__ import annotations


class OwnTime:
    """Own time of a piece of work without progress: of its tries, and of the pauses that it asked for.

    Args:
        limit: longest time in seconds.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._spent = 0.0

    def restart(self) -> None:
        """Note progress: the time begins anew."""
        self._spent = 0.0

    def spend(self, seconds: float, pause: float) -> bool:
        """Note a try in vain.

        Args:
            seconds: its duration.
            pause: time until the next try is due; a later begin of that try does not count.

        Returns:
            Whether the limit is exceeded.
        """
        self._spent += seconds + pause
        return self._spent > self._limit
