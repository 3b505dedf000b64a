"""Following the LAC of ledgers that are written by hand, on real bookies: what a bookie forgets costs a moment only."""

import asyncio
import time
from itertools import count

import pytest
from readonly_engine.bookkeeper.lac_follower import LacFollower
from readonly_engine.bookkeeper.ledger import LedgerReader
from readonly_engine.bookkeeper.pool import BookiePool
from readonly_engine.wire.ledgers import decode_ledger_metadata

from devstack.pulsar.status import Endpoints
from tests.integration.reading.bookie_writer import HandMadeLedger
from tests.support.waiting import until

DEADLINE_S = 60
LEDGER_IDS = count(1_000_000 + int(time.time()) % 1_000_000 * 100)
"""Far above the ids that BookKeeper gives out here, and others in every run: bookies keep what was written."""


async def address_of(bookie_id: str) -> tuple[str, int]:
    host, _, port = bookie_id.partition(":")
    return host, int(port)


class Followed:
    """A tail, and its writer's word for how far the ledger goes, as an owner without explicit LAC gives it when asked."""

    def __init__(self, ledger: HandMadeLedger, pool: BookiePool) -> None:
        self.ledger = ledger
        self.written = -1
        self.pause, self.wants_entries = 0.0, True
        self.tail = LacFollower(LedgerReader(ledger.ledger_id, decode_ledger_metadata(ledger.metadata()), pool), self)
        self.tail.resume()

    def lac_advanced(self, ledger_id: int, lac: int, entries: object) -> None:
        """As FollowedLog."""

    async def ask_owner(self) -> None:
        """As FollowedLog."""
        self.tail.confirm(self.written)

    async def add_last(self, entry_id: int) -> None:
        """Write an entry, and wait until it is heard of."""
        await asyncio.to_thread(self.ledger.add, range(entry_id, entry_id + 1))
        self.written = entry_id
        await self.until(lambda: self.tail.lac == entry_id)

    async def until(self, condition) -> None:
        await until(condition, DEADLINE_S)

    def at_rest(self) -> bool:
        """Everything is confirmed, and nothing but the polls will tell of what comes."""
        return self.tail.lac == self.written and self.tail._idle_probe.next(explicit=self.tail._explicit) is None


@pytest.mark.parametrize("copies", [1, 2])
def test_what_comes_after_a_rest_is_heard_of_soon_at_a_bookie_that_knew_no_lac(pulsar: Endpoints, copies: int) -> None:
    """Such a bookie learns its LAC when an entry is read, and forgets the polls that wait for just that one."""
    members = list(range(copies))
    bookies = [(pulsar.bookies[i], tuple(asyncio.run(address_of(pulsar.bookies[i])))) for i in members]

    async def run() -> None:
        pool = BookiePool(address_of)
        late = []
        for _ in range(3):
            ledger = HandMadeLedger(
                next(LEDGER_IDS), bookies, [b"x"] * 8, write_quorum=copies, segments=[(0, members)], closed=False
            )
            await asyncio.to_thread(ledger.add, range(5))
            followed = Followed(ledger, pool)
            followed.written = 4
            for entry_id in (5, 6, 7):
                await followed.until(followed.at_rest)
                began = time.monotonic()
                await followed.add_last(entry_id)
                late.append(time.monotonic() - began)
            followed.tail.stop()
        pool.close()
        await pool.wait_closed()
        assert max(late) < 3, late  # 0.1 s on a machine at rest; a poll that was forgotten lasts 10 s

    asyncio.run(run())
