"""Bound of the consumers that look for the successor of one lost owner at a time.

The death of an owner concerns all its consumers. If each looked for its successor by itself every two seconds, 10,000 would keep
the event loop busy for minutes, long after the owner's return (measured).
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Final, Protocol

MAX_RETURNING: Final = 256
"""An attempt is a lookup, a SUBSCRIBE and a question for the cursor. With 1,000, 10,000 consumers took as long (measured)."""

PROOF_S: Final = 1.0
"""Shortest interval between two proofs of an owner's death for those who deliver without it. They hold for OWNER_LEASE_S."""

MAX_LOOKS: Final = 10_000
MAX_PROVED: Final = 1000
"""Consumers that are looked at for a proof, and those of them that use it: each of these reads its topic's ledgers, to learn
that no other broker has loaded it. The deliveries of further ones wait for the next owner."""

BACKOFF_S: Final = (0.1, 5.0)
"""First and longest pause after a failed attempt."""

STALE_S: Final = 60.0
"""Time without a failed attempt after which the pause is short again: an attempt fails after a shorter time."""


class ReturnBackoff:
    """The pause after failed attempts, which the consumers of one owner share. Pure.

    It doubles once in a pause, not with each of the attempts that fail together. Long after the last one it is short again.
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
        if now >= self._until + STALE_S:
            self.succeeded()
        if now >= self._until:
            self._pause = min(max(2 * self._pause, BACKOFF_S[0]), longest)
            self._until = now + self._pause
        return min(self._pause, longest)

    def succeeded(self) -> None:
        """Begin with the shortest pause again."""
        self._pause = self._until = 0.0


class Leaseholder(Protocol):
    """A consumer that may deliver under a lease while its owner is away (ConsumerEvents)."""

    def on_owner_dead(self, checked_at: float) -> bool:
        """As ConsumerEvents."""


class ReturnThrottle:
    """Lets the consumers of one lost owner return to its successor, in the order in which they were lost.

    A consumer whose attempt has failed goes behind the others: those of other topics may have a successor already.

    Attributes:
        backoff: the pause after failed attempts.
        slots: held for an attempt and the pause after it.
        leaseholders: the consumers that may deliver meanwhile, in the order in which they were lost.
    """

    def __init__(self) -> None:
        self.backoff = ReturnBackoff()
        self.slots = asyncio.Semaphore(MAX_RETURNING)
        self.leaseholders: dict[Leaseholder, None] = {}
        self._proved_at = float("-inf")

    def owner_dead(self, checked_at: float) -> None:
        """Tell those who may deliver without the owner that it is dead: one attempt of any consumer proves that for all.

        Args:
            checked_at: time at which the refused connection was tried (lease_time).
        """
        if checked_at < self._proved_at + PROOF_S:
            return
        self._proved_at, proved = checked_at, 0
        for one in list(islice(self.leaseholders, MAX_LOOKS)):
            proved += one.on_owner_dead(checked_at)
            if proved >= MAX_PROVED:
                return
