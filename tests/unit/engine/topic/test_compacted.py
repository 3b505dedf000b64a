"""Compacted reads against a model: a topic as a list of entries, and the kept ones of a compaction."""

import asyncio
from contextlib import asynccontextmanager

from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.bookkeeper.errors import NoSuchLedgerError
from readonly_engine.topic.chain import LedgerChain
from readonly_engine.topic.compacted import BLOCK, CompactedChain, CompactedLog, Compaction
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.message_pb2 import MessageMetadata
from readonly_engine.wire.pulsar_pb2 import MessageIdData

from tests.support.ledgers import ledger_list

LEDGER_ENTRIES = 30


def payload_of(position):
    encoded = MessageMetadata(producer_name=str(position)).SerializeToString()
    return len(encoded).to_bytes(4, "big") + encoded


class Reader:
    """A compacted ledger."""

    def __init__(self, ledger_id, kept):
        self.ledger_id = ledger_id
        self.kept = kept
        self.deleted = False
        self.reads = 0

    async def read(self, first, last):
        self.reads += 1
        await asyncio.sleep(0)
        if self.deleted:
            raise NoSuchLedgerError(f"ledger {self.ledger_id}")
        entries = []
        for index in range(first, last + 1):
            position = self.kept[index]
            where = MessageIdData(ledger_id=position.ledger_id, entry_id=position.entry_id).SerializeToString()
            payload = payload_of(position)
            stored = len(where).to_bytes(4, "big") + where + len(payload).to_bytes(4, "big") + payload
            entries.append(Entry(self.ledger_id, index, index - 1, 0, stored))
        return entries


class Topic:
    """A topic of several ledgers, all in memory."""

    topic = "a topic"

    def __init__(self, count):
        self.chain = LedgerChain()
        self.count = count
        self.first_ledger = 0
        self.listeners = set()
        self.tell()

    def tell(self):
        last = max(self.count - 1, 0) // LEDGER_ENTRIES
        closed = ((ledger_id, LEDGER_ENTRIES) for ledger_id in range(self.first_ledger, last))
        self.chain.topic_changed(ledger_list(*closed, last))
        self.chain.lac_advanced(last, (self.count - 1) % LEDGER_ENTRIES if self.count else -1)
        for listener in list(self.listeners):
            listener()

    @property
    def positions(self):
        every = [Position(number // LEDGER_ENTRIES, number % LEDGER_ENTRIES) for number in range(self.count)]
        return [position for position in every if position.ledger_id >= self.first_ledger]

    def listen(self, listener, *, latency_tolerant=False):
        del latency_tolerant
        self.listeners.add(listener)

    def unlisten(self, listener):
        self.listeners.discard(listener)

    def cached(self, first, count):
        found = []
        while len(found) < count and self.chain.readable(first):
            found.append(TopicEntry(Entry(*first, 0, 0, payload_of(first))))
            first = self.chain.after(first)
        return found

    async def read(self, first, count):
        return self.cached(first, count)


@asynccontextmanager
async def opened(topic, *compactions):
    """Open the log of a topic with these compactions, of which the last one counts. Yields the log and the compactions."""
    found = list(compactions)

    async def find():
        return found[-1] if found else None

    log = CompactedLog(topic, find)
    await log.opened()
    try:
        yield log, found
    finally:
        log.close()


async def read_all(log, position, count=7):
    """Read like a subscription: the next entries, again and again."""
    found = []
    while True:
        position = log.chain.at_or_after(position)
        entries = log.cached(position, count)
        if not entries:
            if not log.chain.readable(position):
                return found
            await log.read(position, count)
            continue
        for entry in entries:
            found.append(entry.position)
            position = log.chain.after(entry.position)


@st.composite
def compactions(draw):
    count = draw(st.integers(1, 5 * LEDGER_ENTRIES))
    topic = Topic(count)
    horizon = draw(st.sampled_from(topic.positions))
    taken = [position for position in topic.positions if position <= horizon]
    kept = [position for position in taken if draw(st.integers(0, 3)) == 0]
    trimmed = draw(st.integers(0, horizon.ledger_id))
    return topic, horizon, kept, trimmed


@given(compactions(), st.data())
def test_what_is_kept_up_to_the_horizon_and_everything_behind_it(made, data):
    topic, horizon, kept, trimmed = made
    behind = [position for position in topic.positions if position > horizon]
    start = data.draw(st.sampled_from([EARLIEST, *topic.positions]))

    async def run():
        topic.first_ledger = trimmed
        topic.tell()
        async with opened(topic, Compaction(Reader(900, kept), len(kept), horizon)) as (log, _):
            found = await asyncio.wait_for(read_all(log, start), 10)
        assert found == [position for position in (*kept, *behind) if position >= start]

    asyncio.run(run())


async def test_without_a_compaction_it_is_the_topic():
    topic = Topic(100)
    async with opened(topic) as (log, _):
        assert await read_all(log, EARLIEST) == topic.positions
        assert log.chain.limit == topic.positions[-1]


def test_a_topic_without_entries_of_its_own_any_more_goes_to_the_last_kept_one():
    chain = LedgerChain()
    compacted = CompactedChain(chain)
    compacted.compacted(Position(3, 9), Position(3, 4), -1)
    assert compacted.limit == Position(3, 4)
    assert compacted.readable(Position(3, 4))
    assert not compacted.readable(compacted.after(Position(3, 4)))


async def test_reading_on_reads_each_block_once():
    topic = Topic(1)
    kept = [Position(0, number) for number in range(3 * BLOCK)]
    reader = Reader(900, kept)
    async with opened(topic, Compaction(reader, len(kept), kept[-1])) as (log, _):
        assert await read_all(log, EARLIEST, 20) == kept
    searched = 2 + len(kept).bit_length()
    assert reader.reads <= 3 + searched


async def test_ledgers_that_go_away_are_not_jumped_over_before_the_next_compaction_is_known():
    topic = Topic(100)
    first, second = Reader(900, []), Reader(901, [Position(0, 5), Position(1, 3), Position(2, 7)])
    async with opened(topic, Compaction(first, 0, Position(0, 9))) as (log, compactions):
        called = asyncio.Event()
        log.listen(called.set)
        position = Position(1, 0)
        assert log.chain.at_or_after(position) == position
        compactions.append(Compaction(second, 3, Position(2, 9)))
        topic.first_ledger = 2
        topic.tell()
        assert log.chain.outdated
        assert log.chain.at_or_after(position) == position, "what is gone may be in a compacted ledger"
        assert not log.chain.readable(position)
        assert log.cached(position, 10) == []
        while log.chain.outdated:
            called.clear()
            await asyncio.wait_for(called.wait(), 60)
        assert (await read_all(log, position))[:3] == [Position(1, 3), Position(2, 7), Position(2, 10)]


async def test_a_compacted_ledger_that_was_replaced_is_left_for_the_next():
    topic = Topic(100)
    first = Reader(900, [Position(0, 5), Position(0, 6)])
    second = Reader(901, [Position(0, 6), Position(1, 3)])
    async with opened(topic, Compaction(first, 2, Position(0, 9))) as (log, compactions):
        called = asyncio.Event()
        log.listen(called.set)
        compactions.append(Compaction(second, 2, Position(1, 9)))
        first.deleted = True
        try:
            await log.read(Position(0, 0), 10)
        except NoSuchLedgerError:
            await asyncio.wait_for(called.wait(), 60)
        assert (await read_all(log, Position(0, 0)))[:3] == [Position(0, 6), Position(1, 3), Position(1, 10)]
