"""What the splices of a broker share: checks before their deliveries, samples of their latency, and a bound of their memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_engine.topic.entries import TopicEntry
from readonly_engine.wire.entry import Entry

if TYPE_CHECKING:
    from readonly_engine.broker.dispatch.latency import LatencySampler
    from readonly_engine.lease_guard import LeaseGuard
    from readonly_engine.topic.cache import EntryCache
    from readonly_engine.wire.splice import Splice

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

    def sample(self, splice: Splice) -> None:
        """Measure the last entry of a splice, which was just written."""
        if self._latency.due and splice.entries:
            entry = Entry(splice.ledger_id, splice.entry_id, splice.entry_id, 0, splice.entries[-1])
            self._latency.observe(TopicEntry(entry), tail=True)
