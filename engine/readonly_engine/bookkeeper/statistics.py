"""What this process asks of each bookie: requests, bytes, failures, and how long answers take. Pure."""

from __future__ import annotations

from enum import Enum
from typing import Final

from readonly_engine.net.durations import Durations

MAX_BOOKIES: Final = 200
"""Bookies with figures of their own; those of further ones count together, under the empty name."""


class RequestKind(Enum):
    """Kinds of requests to a bookie, by their work for it."""

    READ = "read"
    """One entry."""
    BATCH = "batch"
    """Consecutive entries."""
    LAC = "lac"
    """The last add confirmed."""
    POLL = "poll"
    """A long poll for a newer last add confirmed, some with the next entry."""


class BookieStatistics:
    """Totals of one bookie.

    Attributes:
        requests: requests sent, by kind.
        received: bytes received.
        failures: connections that could not be opened, and requests without an answer in time or before the connection's end.
        busy: requests that it refused because it has too many (ETOOMANYREQUESTS).
        reads: reads that it answered, each of one or more entries.
    """

    __slots__ = ("busy", "failures", "reads", "received", "requests")

    def __init__(self) -> None:
        self.requests = dict.fromkeys(RequestKind, 0)
        self.received = 0
        self.failures = 0
        self.busy = 0
        self.reads = Durations()


class ReadStatistics:
    """The totals of all bookies."""

    def __init__(self) -> None:
        self.bookies: dict[str, BookieStatistics] = {}

    def of(self, bookie_id: str) -> BookieStatistics:
        """Return the totals of a bookie."""
        found = self.bookies.get(bookie_id)
        if found is None:
            name = bookie_id if len(self.bookies) < MAX_BOOKIES else ""
            found = self.bookies.setdefault(name, BookieStatistics())
        return found
