"""Waits for bookies that have no data of a ledger yet, at a bounded rate of all ledgers together.

Such a bookie answers a poll immediately, so ledgers that nothing is written to are asked again and again. 10,000 idle topics
with two bookies, which each wait half a second, would ask 40,000 times a second.
"""

from __future__ import annotations

import asyncio
from typing import Final

ASKS_PER_S: Final = 1000.0
"""Bound of all questions together, so that they leave most of a core to others."""


class EmptyWaits:
    """Delays questions to bookies without data.

    Attributes:
        waiting: number of questions that wait.
    """

    def __init__(self) -> None:
        self.waiting = 0

    async def wait(self, seconds: float) -> None:
        """Wait before the next question.

        Args:
            seconds: least time; it is more if very many wait.
        """
        self.waiting += 1
        try:
            await asyncio.sleep(max(seconds, self.waiting / ASKS_PER_S))
        finally:
            self.waiting -= 1
