"""The lease of a member of a split subscription, by the answers to its numbered reports. Pure; time is an argument."""

from __future__ import annotations

import math
from typing import Final

MAX_UNANSWERED: Final = 1_000
"""Unanswered reports whose times are kept."""


class LeaseClock:
    """Knows the coordinator of a member, and until when the member may dispatch: each answer extends that from its report on.

    Attributes:
        epoch: epoch of the coordinator; 0 before its first grant.
        until: end of the lease.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.until = -math.inf
        self._last = 0
        self._sent: dict[int, float] = {}
        self._reported_at = -math.inf
        self._connecting = True

    def expired(self, now: float) -> bool:
        """Return whether the lease has ended: nothing more may be dispatched."""
        return self.epoch != 0 and now >= self.until

    def _connected(self) -> None:
        """Handle a new connection: answers to earlier reports do not come any more."""
        self._connecting = True
        self._sent.clear()

    def _forget(self) -> None:
        """Take the next grant for one of a new coordinator."""
        self.epoch, self.until = 0, -math.inf

    def _next_number(self, now: float) -> int:
        """Return the number of a report that is sent now."""
        self._last += 1
        self._reported_at = now
        self._connecting = False
        if len(self._sent) < MAX_UNANSWERED:
            self._sent[self._last] = now
        return self._last

    def _answered(self, epoch: int, number: int, valid_s: float, now: float) -> bool:
        """Handle a grant.

        Args:
            epoch: epoch of its coordinator.
            number: number of the report that it answers; 0 for none.
            valid_s: seconds for which it is valid, from the report on.
            now: the time.

        Returns:
            False if it does not count: it came after the end of the lease, or another coordinator sent it, which must not know
            what the former one has leased. Then the member must begin again.
        """
        if self.expired(now):
            return False  # others may have the entries by now
        if self.epoch == 0:
            self.epoch = epoch
        if epoch != self.epoch:
            return False
        sent = self._sent.get(number)
        if sent is not None:
            self._sent = {other: at for other, at in self._sent.items() if other > number}
            self.until = max(self.until, sent + valid_s)
        return now < self.until
