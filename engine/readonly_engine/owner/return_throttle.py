"""Bound of the consumers that look for the successor of one lost owner at a time.

The death of an owner concerns all its consumers. If each looked for its successor by itself every two seconds, 10,000 would keep
the event loop busy for minutes, long after the owner's return (measured).
"""

from __future__ import annotations

import asyncio
from typing import Final

MAX_RETURNING: Final = 256
"""An attempt is a lookup, a SUBSCRIBE and a question for the cursor. An owner that loads topics answers some 50 ms later."""

BACKOFF_S: Final = (0.1, 5.0)
"""First and longest pause after a failed attempt."""


class ReturnBackoff:
    """The pause after failed attempts, which the consumers of one owner share. Pure.

    It doubles once in a pause, not with each of the attempts that fail together.
    """

    __slots__ = ("_pause", "_until")

    def __init__(self) -> None:
        self._pause = self._until = 0.0

    def failed(self, now: float, longest: float = BACKOFF_S[1]) -> float:
        """Count a failed attempt.

        Args:
            now: the time.
            longest: bound of the pause.

        Returns:
            The seconds until the next attempt.
        """
        if now >= self._until:
            self._pause = min(max(2 * self._pause, BACKOFF_S[0]), longest)
            self._until = now + self._pause
        return min(self._pause, longest)

    def succeeded(self) -> None:
        """Begin with the shortest pause again."""
        self._pause = self._until = 0.0


class ReturnThrottle:
    """Lets the consumers of one lost owner return to its successor, in the order in which they were lost.

    A consumer whose attempt has failed goes behind the others: those of other topics may have a successor already.

    Attributes:
        backoff: the pause after failed attempts.
        slots: held for an attempt and the pause after it.
    """

    def __init__(self) -> None:
        self.backoff = ReturnBackoff()
        self.slots = asyncio.Semaphore(MAX_RETURNING)
