"""What the splices of a broker share: checks before their deliveries, and samples of their latency."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from readonly_engine.topic.entries import TopicEntry
from readonly_engine.wire.entry import Entry

if TYPE_CHECKING:
    from readonly_engine.broker.dispatch.latency import LatencySampler
    from readonly_engine.lease_guard import LeaseGuard
    from readonly_engine.net.direct_writer import DirectWriter
    from readonly_engine.wire.splice import Splice

log = logging.getLogger(__name__)


class Splicing:
    """See the module.

    Args:
        guard: checks the leases before each delivery.
        latency: measures some deliveries.

    Attributes:
        guard: as above.
        latency: as above.
    """

    def __init__(self, guard: LeaseGuard, latency: LatencySampler) -> None:
        self.guard = guard
        self.latency = latency

    def deliver(self, writes: dict[DirectWriter, list[bytes]], last: Splice) -> None:
        """Write frames to the clients, those of one client together, and measure a delivery if one is due.

        Args:
            writes: frames by the client's connection, without those that its socket has taken.
            last: the last splice that has made one.
        """
        for writer, frames in writes.items():
            try:
                writer.write_now(frames[0] if len(frames) == 1 else b"".join(frames))
            except Exception:
                log.exception("a client cannot be sent to")
        if self.latency.due and last.last is not None:
            entry = Entry(last.ledger_id, last.entry_id, last.entry_id, 0, last.last)
            self.latency.observe(TopicEntry(entry), tail=True)
