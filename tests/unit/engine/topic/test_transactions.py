"""Transactions against a model: the owner's transaction buffer as one list of all written entries."""

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.bookkeeper.errors import ReadFailedError
from readonly_engine.topic import transactions as transactions_module
from readonly_engine.topic.chain import LedgerChain
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.topic.position import Position
from readonly_engine.topic.transactions import SCAN_ENTRIES, OwnerTransaction, TopicTransactions, TransactionIndex
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.message_pb2 import MarkerType, MessageMetadata

from tests.support.ledgers import ledger_list
from tests.support.waiting import until

LEDGER_ENTRIES = 7

MESSAGE, COMMIT, ABORT = None, MarkerType.TXN_COMMIT, MarkerType.TXN_ABORT


def entry(position, txn=None, marker=None):
    metadata = MessageMetadata(producer_name="p", sequence_id=position[1], publish_time=1)
    if txn is not None:
        metadata.txnid_most_bits, metadata.txnid_least_bits = 1, txn
    if marker is not None:
        metadata.marker_type = marker
    encoded = metadata.SerializeToString()
    return TopicEntry(Entry(*position, 0, 0, len(encoded).to_bytes(4, "big") + encoded))


class Written:
    """The written entries of a topic, and their state in the owner."""

    def __init__(self, writes):
        self.entries = []
        for number, (txn, marker) in enumerate(writes):
            self.entries.append(entry(Position(number // LEDGER_ENTRIES, number % LEDGER_ENTRIES), txn, marker))

    def open_at(self, count):
        """Position of the first message of each transaction that is open after `count` entries."""
        ongoing = {}
        for one in self.entries[:count]:
            if one.txn is not None and one.marker:
                ongoing.pop(one.txn, None)
            elif one.txn is not None:
                ongoing.setdefault(one.txn, one.position)
        return ongoing

    def aborted_at(self, count):
        return {one.txn for one in self.entries[:count] if one.aborts}


@st.composite
def topics(draw):
    """Transactions as they run: messages, then one marker; several at a time, with other messages between."""
    running, writes, last = [], [], 0
    for _ in range(draw(st.integers(0, 60))):
        choice = draw(st.integers(0, 9))
        if choice < 2:
            last += 1
            running.append(last)
            writes.append((last, MESSAGE))
        elif choice < 5 and running:
            writes.append((draw(st.sampled_from(running)), MESSAGE))
        elif choice < 7 and running:
            ending = draw(st.sampled_from(running))
            running.remove(ending)
            writes.append((ending, draw(st.sampled_from([COMMIT, ABORT]))))
        elif choice == 7:
            writes.append((None, MarkerType.REPLICATED_SUBSCRIPTION_SNAPSHOT))
        else:
            writes.append((None, MESSAGE))
    return Written(writes)


@given(topics(), st.data())
def test_an_index_says_what_the_owner_would_wherever_it_started(topic, data):
    starts = [n for n in range(len(topic.entries)) if not topic.open_at(n)]
    if not starts:
        return
    first = data.draw(st.sampled_from(starts))
    index = TransactionIndex(topic.entries[first].position)
    for count in range(first, len(topic.entries)):
        fed = topic.entries[count]
        index.feed([fed])
        ongoing = topic.open_at(count + 1)
        assert index.first_open == (min(ongoing.values()) if ongoing else None)
        assert index.open_transactions == len(ongoing)
        assert fed.position < index.limit or ongoing
        aborted = topic.aborted_at(count + 1)
        for one in topic.entries[first : count + 1]:
            if one.position < index.limit and one.in_transaction:
                assert index.aborted(one.txn) == (one.txn in aborted)


@given(topics(), st.data())
def test_entries_that_are_shown_again_change_nothing(topic, data):
    index, again = TransactionIndex(Position(0, 0)), TransactionIndex(Position(0, 0))
    for count in range(len(topic.entries)):
        index.feed(topic.entries[count : count + 1])
        again.feed(topic.entries[data.draw(st.integers(0, count)) : count + 1])
        assert (again.limit, again.first_open, again.next) == (index.limit, index.first_open, index.next)


def test_a_message_that_comes_after_the_abort_of_its_transaction_is_aborted_too():
    index = TransactionIndex(Position(0, 0))
    index.feed([entry((0, 0), 5), entry((0, 1), 5, ABORT), entry((0, 2), 5)])
    assert index.first_open is None
    assert index.aborted((1, 5))


def test_what_was_aborted_is_forgotten_with_the_ledger_of_its_marker():
    index = TransactionIndex(Position(0, 0))
    index.feed([entry((0, 0), 5), entry((0, 1), 5, ABORT), entry((1, 0), 6), entry((1, 1), 6, ABORT)])
    index.trimmed(1)
    assert (index.aborted((1, 5)), index.aborted((1, 6))) == (False, True)


def listen(transactions, listener):
    """Call `listener` whenever a limit has moved."""

    def called():
        transactions.call_on_move(called)
        listener()

    transactions.call_on_move(called)


class GrowingLog:
    """A topic with some written entries, of which some are cached."""

    topic = "a topic"

    def __init__(self, entries):
        self.chain = LedgerChain()
        self.entries = entries
        self.in_cache = set()
        self.reads = 0
        self.failures = 0
        self.chain.topic_changed(ledger_list(*sorted({one.position.ledger_id for one in entries} | {0})))
        self.written = 0
        self.dispatch_limit = None

    def limit_dispatches(self, limit):
        self.dispatch_limit = limit

    def write_up_to(self, count):
        self.written = count
        lengths = {}
        for one in self.entries[:count]:
            lengths[one.position.ledger_id] = one.position.entry_id
        last = max(lengths, default=0)
        closed = ((ledger_id, lengths[ledger_id] + 1) for ledger_id in sorted(lengths) if ledger_id != last)
        self.chain.topic_changed(ledger_list(*closed, last))
        self.chain.lac_advanced(last, lengths.get(last, -1))

    def cached(self, first, count):
        found = []
        for one in self.entries[: self.written]:
            if one.position >= first and len(found) < count:
                if one.position not in self.in_cache:
                    break
                found.append(one)
        return found

    async def read(self, first, count):
        self.reads += 1
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise ReadFailedError("not now")
        return [one for one in self.entries[: self.written] if one.position >= first][: min(count, 3)]


async def says_nothing():
    return None


async def is_open(txn):
    return OwnerTransaction(open=True, aborted=False, last_entry=Position(9, 9))


def owner(transaction=is_open, last=says_nothing):
    """Return the questions to an owner (TransactionOwner)."""
    return SimpleNamespace(last_message=last, max_read_position=says_nothing, transaction=transaction)


def transactions_of(log):
    """In a cluster without known transactions: the owner is not asked."""
    return TopicTransactions(log, owner())


def everything(log, transactions, start, positions):
    """Return the positions of these entries that a subscription would deliver."""
    index = transactions.index(start)
    return [
        one.position
        for one in log.entries[: log.written]
        if one.position in positions
        and one.position < index.limit
        and not one.marker
        and not (one.txn is not None and index.aborted(one.txn))
    ]


@given(topics(), st.data())
def test_what_a_subscription_delivers_is_what_is_committed_before_the_first_open_transaction(topic, data):
    async def run():
        log = GrowingLog(topic.entries)
        transactions = transactions_of(log)
        called = asyncio.Event()
        listen(transactions, called.set)
        start = Position(0, 0)
        written = 0
        while written < len(topic.entries):
            written = data.draw(st.integers(written + 1, len(topic.entries)))
            log.in_cache |= {one.position for one in topic.entries[:written] if data.draw(st.booleans())}
            log.failures = 0
            log.write_up_to(written)
            wanted = topic.entries[data.draw(st.integers(0, written - 1))].position
            index = transactions.index(start)
            transactions.advance(index, wanted)
            if index.scan is not None:
                await asyncio.wait_for(called.wait(), 60)
            called.clear()
            ongoing = topic.open_at(written)
            limit = min(ongoing.values()) if ongoing else Position(1 << 40, 0)
            aborted = topic.aborted_at(written)
            expected = [
                one.position
                for one in topic.entries[:written]
                if one.position <= wanted
                and one.position < limit
                and not one.marker
                and not (one.txn is not None and one.txn in aborted)
            ]
            positions = {one.position for one in topic.entries if one.position <= wanted}
            assert everything(log, transactions, start, positions) == expected
        transactions.close()

    asyncio.run(run())


async def test_nothing_is_read_beyond_what_is_wanted_where_no_transaction_is_open():
    log = GrowingLog([entry((0, n)) for n in range(1000)])
    log.write_up_to(1000)
    transactions = transactions_of(log)
    called = asyncio.Event()
    listen(transactions, called.set)
    index = transactions.index(Position(0, 10))
    transactions.advance(index, Position(0, 20))
    await asyncio.wait_for(called.wait(), 60)
    assert Position(0, 20) < index.limit <= Position(0, 20 + SCAN_ENTRIES)
    reads = log.reads
    transactions.advance(index, Position(0, 15))
    assert log.reads == reads
    transactions.close()


async def test_a_read_that_fails_is_tried_again(monkeypatch):
    monkeypatch.setattr("readonly_engine.topic.transactions.RETRY_S", (0.001, 0.001))
    log = GrowingLog([entry((0, 0), 1), entry((0, 1), 1, COMMIT)])
    log.write_up_to(2)
    log.failures = 3
    transactions = transactions_of(log)
    called = asyncio.Event()
    listen(transactions, called.set)
    index = transactions.index(Position(0, 0))
    transactions.advance(index, Position(0, 0))
    await asyncio.wait_for(called.wait(), 60)
    assert index.limit == Position(0, 2)


@pytest.mark.parametrize(("older", "newer", "shared"), [(0, 5, False), (5, 0, True), (3, 3, True)])
async def test_subscriptions_share_an_index_that_reaches_back_far_enough(older, newer, shared):
    transactions = transactions_of(GrowingLog([entry((0, n)) for n in range(10)]))
    first = transactions.index(Position(0, newer))
    assert transactions.used
    assert (transactions.index(Position(0, older)) is first) == shared


async def test_an_older_index_that_has_caught_up_serves_both():
    entries = [entry((0, n)) for n in range(10)]
    transactions = transactions_of(GrowingLog(entries))
    late = transactions.index(Position(0, 5))
    early = transactions.index(Position(0, 0))
    late.feed(entries[5:8])
    assert transactions.index(Position(0, 5)) is late
    early.feed(entries[:8])
    assert transactions.index(Position(0, 5)) is early
    assert transactions.index(Position(0, 0)) is early


async def test_on_a_cluster_with_transactions_entries_wait_for_the_owner_and_go_on_what_it_has_said_before():
    entries = [entry((0, n)) for n in range(10)]
    log = GrowingLog(entries)
    log.write_up_to(10)
    answers = [Position(0, 7)]

    async def last():
        return answers[0]

    transactions = TopicTransactions(log, owner(last=last))
    assert transactions.permitted(entries) == entries, "no transactions so far"
    assert log.dispatch_limit is None
    transactions.on_last_entry(Position(0, 4))
    transactions.guard()
    assert (log.dispatch_limit.active, log.dispatch_limit.limit) == (True, Position(0, 4))
    told = asyncio.Event()
    listen(transactions, told.set)
    assert transactions.permitted(entries[:5]) == entries[:5]
    assert not told.is_set()
    assert transactions.permitted(entries) == entries[:5]
    await asyncio.wait_for(told.wait(), 60)
    assert transactions.permitted(entries) == entries[:8]
    told.clear()
    answers[0] = Position(0, 9)
    await asyncio.wait_for(told.wait(), 60)
    assert transactions.permitted(entries) == entries
    transactions.close()


async def test_those_who_wait_are_called_once_and_none_that_has_ended_meanwhile():
    transactions = transactions_of(GrowingLog([]))
    transactions.guard()
    calls = []

    def first():
        calls.append("first")
        transactions.forget(second)

    def second():
        calls.append("second")
        transactions.forget(first)

    for waiting in (first, second, first):
        transactions.call_on_move(waiting)
    transactions.on_last_entry(Position(0, 1))
    assert len(calls) == 1, "each of the two ends the other"
    transactions.on_last_entry(Position(0, 2))
    assert len(calls) == 1
    transactions.close()


OPEN = OwnerTransaction(open=True, aborted=False, last_entry=Position(0, 3))
ABORTED = OwnerTransaction(open=False, aborted=True, last_entry=Position(0, 3))
UNKNOWN = OwnerTransaction(open=False, aborted=False, last_entry=Position(0, 3))


@pytest.mark.parametrize(
    ("answers", "aborted"),
    [
        pytest.param([ABORTED], True, id="aborted"),
        pytest.param([None, OPEN, ABORTED], True, id="the owner is slow to know"),
        pytest.param([UNKNOWN, UNKNOWN], False, id="the owner has lost its snapshot"),
        pytest.param([UNKNOWN, None, UNKNOWN, OPEN, UNKNOWN, UNKNOWN], False, id="only two answers in a row count"),
        pytest.param([UNKNOWN, ABORTED], True, id="found in the end"),
    ],
)
async def test_a_message_behind_the_marker_of_its_transaction_is_what_the_owner_takes_it_for(
    monkeypatch, answers, aborted
):
    monkeypatch.setattr(transactions_module, "ASK_OWNER_S", (0.01, 0.02))
    entries = [entry((0, 0), 7, ABORT), entry((0, 1), 7), entry((0, 2)), entry((0, 3), 8)]
    log = GrowingLog(entries)
    log.write_up_to(4)
    left = list(answers)

    async def ask(txn):
        return left.pop(0) if txn == (1, 7) else OPEN

    transactions = TopicTransactions(log, owner(ask))
    told = asyncio.Event()
    listen(transactions, told.set)
    index = transactions.index(Position(0, 1))
    while index.limit <= Position(0, 2):
        told.clear()
        transactions.advance(index, Position(0, 2))
        if index.limit <= Position(0, 2):
            await asyncio.wait_for(told.wait(), 60)
    assert not left
    assert index.aborted((1, 7)) == aborted
    assert index.limit == Position(0, 3), "the other transaction is open, and nothing waits for it"
    transactions.close()


async def test_a_transaction_that_the_owner_does_not_know_is_open_until_all_is_read_that_it_had(monkeypatch):
    monkeypatch.setattr(transactions_module, "ASK_OWNER_S", (0.01, 0.02))
    log = GrowingLog([entry((0, 0), 7), entry((0, 1)), entry((0, 2), 7, ABORT)])
    log.write_up_to(2)
    asked = 0

    async def ask(txn):
        nonlocal asked
        asked += 1
        if asked == 4:
            log.write_up_to(3)
        return OwnerTransaction(open=False, aborted=False, last_entry=Position(0, 2))

    transactions = TopicTransactions(log, owner(ask))
    index = transactions.index(Position(0, 0))
    listen(transactions, lambda: transactions.advance(index, Position(0, 0)))
    transactions.advance(index, Position(0, 0))
    await until(lambda: asked >= 4 and index.first_open is None)
    assert index.aborted((1, 7)), "its marker was found in time"
    transactions.close()


@pytest.mark.parametrize("ends", [COMMIT, ABORT])
async def test_the_owner_is_not_asked_about_a_transaction_that_has_ended(monkeypatch, ends):
    monkeypatch.setattr(transactions_module, "ASK_OWNER_S", (0.05, 0.05))
    log = GrowingLog([entry((0, 0), 7), entry((0, 1), 7, ends)])
    log.write_up_to(1)

    async def ask(txn):
        pytest.fail("asked")

    transactions = TopicTransactions(log, owner(ask))
    told = asyncio.Event()
    listen(transactions, told.set)
    index = transactions.index(Position(0, 0))
    transactions.advance(index, Position(0, 0))
    await asyncio.wait_for(told.wait(), 60)
    log.write_up_to(2)
    told.clear()
    transactions.advance(index, Position(0, 0))
    await asyncio.wait_for(told.wait(), 60)
    assert index.limit == Position(0, 2)
    await until(lambda: index.question is None)
    transactions.close()


def test_a_late_message_is_remembered_as_aborted_until_its_own_ledger_is_gone():
    index = TransactionIndex(Position(0, 0))
    index.feed([entry((0, 0), 7), entry((0, 1), 7, ABORT), entry((2, 0), 7)])
    index.trimmed(2)
    assert index.aborted((1, 7))
    index.trimmed(3)
    assert not index.aborted((1, 7))
    index.feed([entry((3, 0), 8), entry((4, 0))])
    index.end((1, 8), aborted=True)
    index.end((1, 9), aborted=True)
    index.trimmed(4)
    assert index.aborted((1, 8))
    assert not index.aborted((1, 9))


async def test_many_late_transactions_wait_once_for_all(monkeypatch):
    monkeypatch.setattr(transactions_module, "ASK_OWNER_S", (0.2, 30.0))
    late = 200
    entries = [entry((0, number), number + 1) for number in range(late)]
    log = GrowingLog(entries)
    log.write_up_to(late)

    async def ask(_):
        return ABORTED

    transactions = TopicTransactions(log, owner(ask))
    index = transactions.index(Position(0, 0))
    last = entries[-1].position
    listen(transactions, lambda: transactions.advance(index, last))
    transactions.advance(index, last)
    await until(lambda: index.limit > last, 10)
    transactions.close()


def test_a_transaction_of_which_the_owner_has_pushed_a_message_is_committed():
    index = TransactionIndex(Position(0, 0))
    index.feed([entry((0, 0), 1), entry((0, 1), 2), entry((0, 2), 1)])
    index.end_pushed({(1, 1): Position(0, 2)})
    assert index.first_open == Position(0, 1)
    index.feed([entry((0, 3), 1, COMMIT), entry((0, 4), 1)])
    index.end_pushed({(1, 1): Position(0, 2)})
    assert index.open_transactions == 2, "a message after the commit was not pushed"


async def test_pushed_messages_wait_for_no_marker():
    entries = [entry((0, 0)), entry((0, 1), 1), entry((0, 2), 1), entry((0, 3))]
    log = GrowingLog(entries)
    log.in_cache = {one.position for one in entries}
    log.write_up_to(4)
    transactions = transactions_of(log)
    index = transactions.index(Position(0, 0))
    transactions.advance(index, Position(0, 3))
    assert index.limit == Position(0, 1)
    transactions.on_pushed([entries[1]])
    transactions.advance(index, Position(0, 3))
    assert index.limit == Position(0, 4)
    transactions.close()


async def test_a_bounded_number_of_pushed_transactions_is_remembered(monkeypatch):
    monkeypatch.setattr(transactions_module, "MAX_PUSHED", 2)
    entries = [entry((0, number), number) for number in range(3)]
    log = GrowingLog(entries)
    log.in_cache = {one.position for one in entries}
    log.write_up_to(3)
    transactions = transactions_of(log)
    for one in entries:
        transactions.on_pushed([one])
    index = transactions.index(Position(0, 0))
    transactions.advance(index, Position(0, 2))
    assert index.limit == Position(0, 0), "its marker is awaited"
    transactions.close()
