"""What the splices of a broker share: checks before their deliveries, samples of their latency, and a bound of their memory."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from readonly_engine.topic.entries import TopicEntry
from readonly_engine.wire.entry import Entry

if TYPE_CHECKING:
    from readonly_engine.broker.dispatch.latency import LatencySampler
    from readonly_engine.lease_guard import LeaseGuard
    from readonly_engine.net.direct_writer import DirectWriter
    from readonly_engine.topic.cache import EntryCache
    from readonly_engine.wire.splice import Splice

log = logging.getLogger(__name__)

CACHE_SHARE: Final = 8
"""Entries that splices hold may take this part of the cache's limit, on top of it."""


class Splicing:
    """See the module.

    Args:
        guard: checks the leases before each delivery.
        latency: measures some deliveries.
        cache: cache of entries.

    Attributes:
        count: number of running splices.
    """

    def __init__(self, guard: LeaseGuard, latency: LatencySampler, cache: EntryCache) -> None:
        self.check = guard.check_due
        self.count = 0
        self._latency = latency
        self._cache = cache

    @property
    def size_limit(self) -> int:
        """Bytes of entries that one more splice may hold until it is flushed."""
        return self._cache.max_bytes // CACHE_SHARE // (self.count + 1)

    def deliver(self, writes: dict[DirectWriter, list[bytes]], last: Splice) -> None:
        """Write frames to the clients, those of one client together.

        Args:
            writes: frames by the client's connection.
            last: the last splice that has made one.
        """
        for writer, frames in writes.items():
            try:
                writer.write_now(frames[0] if len(frames) == 1 else b"".join(frames))
            except Exception:
                log.exception("a client cannot be sent to")
        if self._latency.due and last.entries:
            entry = Entry(last.ledger_id, last.entry_id, last.entry_id, 0, last.entries[-1])
            self._latency.observe(TopicEntry(entry), tail=True)
