"""Transactions of a topic from a snapshot on: what is aborted in which ledger, and how far may be read."""

from __future__ import annotations

import pytest
from readonly_engine.topic.position import EARLIEST, Position
from readonly_spark import connection
from readonly_spark.connection import Connection
from readonly_spark.errors import SourceError
from readonly_spark.options import parse_options
from readonly_spark.plan.snapshots import ANY_LEDGER, Snapshot
from readonly_spark.plan.transactions import TopicTransactions

SNAPSHOT = Snapshot(Position(7, 3), {(0, 1): 5, (0, 2): 7, (0, 3): ANY_LEDGER})


def test_ledgers_up_to_the_snapshot_have_its_aborted_transactions():
    known = TopicTransactions(SNAPSHOT)
    assert known.index.start == Position(7, 4)
    assert [sorted(txn for _, txn in known.aborted(ledger)) for ledger in (4, 5, 6, 7, 8)] == [
        [1, 2, 3],
        [1, 2, 3],
        [2, 3],
        [2, 3],
        [],
    ]


def test_trimmed_ledgers_are_forgotten():
    known = TopicTransactions(SNAPSHOT)
    known.trimmed(6)
    assert sorted(known.aborted(5)) == [(0, 2), (0, 3)]
    assert not known.index.aborted((0, 1))
    assert known.index.aborted((0, 2))


def test_a_topic_whose_entries_were_all_trimmed_is_read_from_its_first_ledger_on():
    known = TopicTransactions(SNAPSHOT)
    assert known.limit == Position(7, 4)
    known.trimmed(9)
    assert known.limit == Position(9, 0)


@pytest.mark.parametrize("snapshot", [None, Snapshot(EARLIEST, {}), Snapshot(Position(-1, -1), {})])
def test_without_a_position_all_is_scanned(snapshot):
    assert TopicTransactions(snapshot).index.start == EARLIEST


class Catalog:
    """A catalog whose search for transactions advances a few times."""

    def __init__(self, advances: int) -> None:
        self.transactions = self
        self.progress = 0
        self._advances = advances

    async def step(self) -> str:
        if self._advances:
            self._advances -= 1
            self.progress += 1
            raise TimeoutError
        return "planned"

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("advances", [0, 5])
def test_a_search_that_advances_may_take_longer_than_other_steps(monkeypatch, advances):
    catalog = Catalog(advances)

    async def opened(options):
        return catalog

    async def stuck():
        raise TimeoutError

    monkeypatch.setattr(connection, "_opened", opened)
    opened_connection = Connection(parse_options({"metadataUrl": "zk:127.0.0.1:1", "topic": "a"}, streaming=False))
    try:
        assert opened_connection.call(catalog.step) == "planned"
        with pytest.raises(SourceError, match="planning took more than 300 s"):
            opened_connection.call(stuck)
    finally:
        opened_connection.close()
