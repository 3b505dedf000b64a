"""Deadline of the whole command, and of single requests within it."""

from __future__ import annotations

import asyncio
from typing import Final

REQUEST_S: Final = 10.0
"""Limit of one request, with its connection."""

RESERVE_S: Final = 1.0
"""Time before the end in which requests have ended, so that their results are in the report."""


class Deadline:
    """The end of the command.

    Args:
        seconds: time from now to the end.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.end = asyncio.get_running_loop().time() + seconds

    def request(self, seconds: float = REQUEST_S) -> asyncio.Timeout:
        """Return a context that ends a request by TimeoutError, after this time or RESERVE_S before the end."""
        now = asyncio.get_running_loop().time()
        return asyncio.timeout_at(min(now + seconds, max(now, self.end - min(RESERVE_S, self.seconds / 4))))

    def whole(self) -> asyncio.Timeout:
        """Return a context that ends a check by TimeoutError at the end."""
        return asyncio.timeout_at(self.end)
