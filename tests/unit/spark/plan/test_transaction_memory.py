"""The driver's memory while it follows a topic with 1,000 transactions a second: flat."""

import asyncio
import sys
import tracemalloc
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Final

import pytest
from readonly_engine.topic.position import EARLIEST, Position
from readonly_spark.plan import transactions
from readonly_spark.plan.transactions import TransactionCatalog

TOPIC: Final = "persistent://public/default/orders"
A_SECOND: Final = 1000
"""Transactions, each of one message and one marker."""

OPEN: Final = 100
"""Transactions that are open at a time: each for a tenth of a second."""

A_LEDGER: Final = 10_000
"""Entries."""

MICRO_BATCH_S: Final = 10
GROWTH: Final = 1.25
"""Tables of ids grow in steps."""


class Log:
    """A topic's log that takes entries over time.

    Args:
        kept_s: how long ledgers are kept, in seconds.
        aborted: every so manyth transaction is aborted.
    """

    topic = TOPIC

    def __init__(self, kept_s: int, aborted: int) -> None:
        self._kept = kept_s * A_SECOND * 2
        self.aborted = aborted
        self.end = 0

    @property
    def chain(self) -> SimpleNamespace:
        return SimpleNamespace(ledger_ids=range(max(self.end - self._kept, 0) // A_LEDGER, self.end // A_LEDGER + 1))

    async def opened(self) -> None:
        """Be open."""

    async def refresh(self) -> None:
        """Be up to date."""

    def close(self) -> None:
        """Be closed."""

    async def read(self, start: Position) -> AsyncIterator[SimpleNamespace]:
        """Message 0, marker of message -OPEN, message 1, and so on."""
        first = 0 if start == EARLIEST else start.ledger_id * A_LEDGER + start.entry_id
        entry = SimpleNamespace()
        for number in range(first, self.end):
            entry.marker = number % 2 == 1
            txn = number // 2 - (OPEN if entry.marker else 0)
            entry.txn = (0, txn) if txn >= 0 else None
            entry.aborts = entry.marker and txn % self.aborted == 0
            entry.position = Position(number // A_LEDGER, number % A_LEDGER)
            yield entry


async def follow(log: Log, minutes: int) -> list[int]:
    """Search a topic at the end of each micro-batch; return the bytes that are held after each third of the time."""
    snapshots = SimpleNamespace(knows=lambda _: True, read=lambda _: asyncio.sleep(0))
    catalog = TransactionCatalog(None, None, None, None, snapshots)
    found = []
    for second in range(MICRO_BATCH_S, minutes * 60 + 1, MICRO_BATCH_S):
        log.end = second * A_SECOND * 2
        scan = await catalog.scan(TOPIC)
        assert scan.limit == Position(*divmod(log.end - OPEN * 2, A_LEDGER)), "the first open transaction"
        if second % (minutes * 20) == 0:
            found.append(tracemalloc.get_traced_memory()[0])
    ended = log.end // A_LEDGER - 2
    assert len(scan.aborted(ended)) == A_LEDGER // 2 // log.aborted, "the last ledger whose transactions have all ended"
    return found


@pytest.mark.parametrize("minutes", [1, pytest.param(30, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("kept", "aborted"),
    [
        pytest.param(1, sys.maxsize, id="all-kept-none-aborted"),
        pytest.param(6, 100, id="a-sixth-kept-one-percent-aborted"),
    ],
)
def test_it_is_flat(monkeypatch, minutes, kept, aborted) -> None:
    log = Log(minutes * 60 // kept, aborted)
    monkeypatch.setattr(transactions, "TopicLog", lambda *_: log)
    monkeypatch.setattr(transactions, "TopicReader", lambda of, start: SimpleNamespace(entries=lambda: of.read(start)))
    tracemalloc.start()
    try:
        first, *later = asyncio.run(follow(log, minutes))
    finally:
        tracemalloc.stop()
    assert max(later) < first * GROWTH
