"""Transactions of a topic from a snapshot on: what is aborted in which ledger, and how far may be read."""

from collections.abc import Sized
from types import SimpleNamespace

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


def fed(known: TopicTransactions, *entries: tuple[int, int, str]) -> TopicTransactions:
    """Ledger, transaction, and `m` for a message, `c` or `a` for the marker of its end."""
    for entry_id, (ledger_id, txn, kind) in enumerate(entries):
        position = Position(ledger_id, entry_id)
        known.feed(SimpleNamespace(position=position, txn=(0, txn), marker=kind != "m", aborts=kind == "a"))
    return known


@pytest.mark.parametrize(
    ("entries", "aborted"),
    [
        ([(1, 1, "m"), (2, 1, "m"), (3, 1, "a")], [1, 2]),
        ([(1, 1, "m"), (2, 1, "c")], []),
        ([(1, 1, "m"), (2, 1, "a"), (3, 1, "m")], [1, 3]),  # after its end: it had timed out
        ([(1, 1, "a"), (2, 1, "m")], [2]),
        ([(1, 1, "m"), (1, 1, "c"), (2, 1, "m"), (3, 1, "a")], [2]),
        ([(1, 1, "m"), (2, 1, "m")], []),
    ],
)
def test_each_ledger_has_the_aborted_transactions_of_its_messages(entries, aborted):
    known = fed(TopicTransactions(), *entries)
    assert [ledger for ledger in range(5) if known.aborted(ledger)] == aborted
    known.trimmed(3)
    assert [ledger for ledger in range(5) if known.aborted(ledger)] == [one for one in aborted if one >= 3]


def test_ids_of_committed_transactions_are_not_kept():
    known = TopicTransactions()
    fed(known, *((1, txn // 2, "mc"[txn % 2]) for txn in range(2000)))
    kept = [known.index._open, known.index._aborted, *vars(known).values()]
    assert sum(len(one) for one in kept if isinstance(one, Sized) and not isinstance(one, Position)) <= 1


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
    opened_connection = Connection(parse_options({"metadataStoreUrl": "zk:127.0.0.1:1", "topic": "a"}, streaming=False))
    try:
        assert opened_connection.call(catalog.step) == "planned"
        with pytest.raises(SourceError, match="planning took more than 300 s"):
            opened_connection.call(stuck)
    finally:
        opened_connection.close()
