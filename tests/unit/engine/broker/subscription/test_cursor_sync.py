"""Synchronization of a cursor's copy with the owner's cursor."""

import asyncio
import time
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.broker.subscription import cursor_sync as owner_cursor
from readonly_engine.broker.subscription.cursor_queries import OwnerCursorRanges
from readonly_engine.broker.subscription.cursor_sync import CursorSync, begins_with_batch, follow_owner
from readonly_engine.owner.consumer_events import OwnerCursorState
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.topic.compacted import CompactedChain
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.wire.pulsar_pb2 import CommandAck

from tests.support.ledgers import chain_of


class OwnerConsumer:
    """A consumer whose owner never answers with its last message."""

    async def state(self):
        await asyncio.Event().wait()


async def test_a_consumer_takes_over_where_the_owner_answers_in_another_way_only(topic, monkeypatch):
    monkeypatch.setattr(owner_cursor, "BACKOFF_S", (0.0, 0.0))
    positions = [topic.write(4) for _ in range(6)]
    cursor = CursorReplica(topic.chain, EARLIEST)
    answers = [OwnerUnavailableError("not now"), OwnerCursorState(positions[1], positions[5])]
    consumer, asked, told = OwnerConsumer(), [], []

    async def state(through):
        asked.append(through)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def acked():
        return [(EARLIEST, positions[2]), (positions[3], positions[4])]

    async def batches(through, last, begins_with_batch):
        assert (through, last) == (consumer, positions[5])
        assert await begins_with_batch()
        return [(positions[2], 0b11), (positions[3], 0b11)]

    async def read(position, count):
        assert (position, count) == (positions[2], 1)
        return [SimpleNamespace(messages=4)]

    view = SimpleNamespace(chain=topic.chain, read=read)
    owner = CursorSync(
        "s", view, cursor, SimpleNamespace(state=state, acked=acked, batches=batches), told.append, lambda _: None
    )
    async with asyncio.timeout(10):
        assert (await owner.catch_up(consumer)).mark_delete == positions[1]
    assert asked == [consumer, consumer]
    assert told == [positions[5]]
    assert cursor.mark_delete == positions[2]
    assert cursor.batches == [(positions[3], 0b11)]
    assert [position for position in positions if not cursor.is_acked(position)] == [positions[3], positions[5]]


def ack_of(*positions, cumulative=False):
    made = CommandAck(ack_type=CommandAck.Cumulative if cumulative else CommandAck.Individual)
    for position in positions:
        made.message_id.add(ledger_id=position.ledger_id, entry_id=position.entry_id)
    return made


class ResubscribedConsumer:
    """A consumer that is subscribed at the owner again."""

    def __init__(self, *, unanswered=(), lost=(), sent_away=False, resumed_at=None, answered_up_to=None):
        self.unanswered = list(unanswered)
        self.possibly_lost = [(None, ack) for ack in lost]
        self.lost_at = None if sent_away else 1.0
        self.closed_by_owner = sent_away
        self.resumed_at = resumed_at
        self.confirmed_up_to = answered_up_to
        self.sent = []

    def ack(self, ack):
        self.sent.append(ack)

    def forget_answers(self):
        self.confirmed_up_to = None


class CountingQueries:
    """The owner's cursor, with the number of queries for it."""

    def __init__(self, acked, *, unwritten=True):
        self.answer = OwnerCursorRanges(acked, unwritten)
        self.times = 0

    async def cursor(self):
        self.times += 1
        return self.answer


def compare(topic, cursor, back, mark_delete, queries=None, *, anew=True, others=None):
    """Return whether the copy stays in use."""

    async def reload():
        pass

    async def run():
        view = SimpleNamespace(chain=topic.chain, reload=reload)
        owner = CursorSync("s", view, cursor, queries, lambda _: None, lambda _: None)
        newest = topic.chain.newest_ledger - anew
        state = OwnerCursorState(mark_delete, topic.positions[-1])
        return await owner.can_resume(back, time.monotonic(), state, newest, [back], None, others)

    return asyncio.run(run())


def test_a_reader_goes_on_wherever_a_new_owner_has_put_its_cursor(topic):
    positions = [topic.write() for _ in range(20)]
    topic.roll()
    for stands, told in ((9, 19), (9, 9), (9, 3)):
        cursor = CursorReplica(topic.chain, positions[stands])
        assert compare(topic, cursor, ResubscribedConsumer(resumed_at=positions[stands]), positions[told])
        assert cursor.mark_delete == positions[stands], "the copy is the truth"


def test_a_reader_that_an_administrator_has_moved_follows(topic):
    """The owner kept the cursor all the time: the topic has no new ledger."""
    positions = [topic.write() for _ in range(20)]
    cursor = CursorReplica(topic.chain, positions[9])
    assert compare(topic, cursor, ResubscribedConsumer(resumed_at=positions[9]), positions[15], anew=False)
    assert cursor.mark_delete == positions[15]
    assert not compare(topic, cursor, ResubscribedConsumer(resumed_at=positions[9]), positions[3], anew=False)


class Million:
    """A topic of many entries in one ledger."""

    def __init__(self, entries):
        self.chain = chain_of((1, entries), 2, lac=0)
        self.positions = [Position(2, 0)]


def test_a_move_of_the_owner_costs_a_long_lived_reader_nothing():
    topic = Million(5_000_000)
    cursor = CursorReplica(topic.chain, EARLIEST)
    cursor.ack_cumulative(Position(1, 4_000_000))
    back = ResubscribedConsumer(resumed_at=cursor.mark_delete)
    began = time.process_time()
    for _ in range(100):
        assert compare(topic, cursor, back, Position(1, -1))
        assert compare(topic, cursor, back, cursor.mark_delete)
    assert time.process_time() - began < 5, "200 readers"
    assert back.sent == []


def test_a_move_of_the_owner_costs_a_durable_subscription_its_holes_and_not_its_history():
    topic = Million(5_000_000)
    cursor = CursorReplica(topic.chain, EARLIEST)
    cursor.ack_cumulative(Position(1, 4_000_000))
    holes = [(Position(1, entry), Position(1, entry + 1)) for entry in range(4_000_002, 4_200_002, 2)]
    cursor.load_acked_ranges(holes)
    assert cursor.has_acked_ranges
    queries = CountingQueries([(EARLIEST, Position(1, 4_000_000)), *holes])
    began = time.process_time()
    assert compare(topic, cursor, ResubscribedConsumer(), Position(1, 4_000_000), queries)
    assert not compare(
        topic, cursor, ResubscribedConsumer(), Position(1, 10), CountingQueries([(EARLIEST, Position(1, 10))])
    )
    assert time.process_time() - began < 5, "100,000 holes"
    assert queries.times == 1


def test_an_owner_that_lacks_only_what_is_under_way_is_asked_nothing(topic):
    positions = [topic.write() for _ in range(20)]
    cursor = CursorReplica(topic.chain, EARLIEST)
    cursor.ack_cumulative(positions[9])
    back = ResubscribedConsumer(unanswered=[ack_of(positions[9], cumulative=True)], answered_up_to=positions[4])
    assert compare(topic, cursor, back, positions[4], None)
    assert compare(topic, cursor, back, positions[12], None)
    assert cursor.mark_delete == positions[12]


@given(st.data())
def test_an_answered_ack_is_sent_again_only_where_the_owner_has_lost_it(make_topic, data):
    """Compare with a model of sets of positions: the acks that the owner lacks, and why.

    Other brokers of the pool may have sent some, and one of them may compare the whole cursor.
    """
    topic = make_topic()
    for number in range(24):
        topic.write()
        if number % 8 == 7:
            topic.roll()
    positions = topic.positions
    some = st.sets(st.sampled_from(positions))
    recent, old, under_way = data.draw(some), data.draw(some), data.draw(some)
    stored = data.draw(st.integers(-1, len(positions) - 1).map(lambda i: EARLIEST if i < 0 else positions[i]))
    holes = data.draw(some) & (recent | old)
    anew, sent_away, unwritten, compares = (data.draw(st.booleans()) for _ in range(4))
    by_others = data.draw(some)
    others = SimpleNamespace(compares_cursor=compares, possibly_lost=lambda _: sorted(by_others) if compares else [])
    cursor = CursorReplica(topic.chain, EARLIEST)
    for position in recent | old | under_way | by_others:
        cursor.ack(position)
    lost = [ack_of(*sorted(recent))] if recent else []
    back = ResubscribedConsumer(unanswered=[ack_of(position) for position in under_way], lost=lost, sent_away=sent_away)
    at_owner = {one for one in positions if one <= stored} | holes
    told = [(EARLIEST, stored)] + [(Position(one.ledger_id, one.entry_id - 1), one) for one in sorted(holes)]
    missing = (recent | old | by_others) - at_owner - under_way
    if compares and not sent_away:
        lost += [ack_of(*sorted(by_others))] if by_others else []
    elif not compares:
        missing &= recent
    known = recent | by_others if compares else recent
    may_be_lost = anew and not sent_away and unwritten and missing <= known
    goes_on = compare(topic, cursor, back, stored, CountingQueries(told, unwritten=unwritten), anew=anew, others=others)
    assert goes_on == (not missing or may_be_lost)
    assert back.sent == (lost if missing and may_be_lost else [])


async def test_a_compacted_read_skips_nothing_because_its_first_ledgers_are_gone(make_topic):
    """The owner's cursor is then before the ledgers that are left, and the compaction keeps entries before them."""
    topic = make_topic()
    kept = [topic.write() for _ in range(10)]
    topic.roll()
    left = [topic.write() for _ in range(5)]
    first_ledger = topic.chain.newest_ledger
    topic.trim()
    chain = CompactedChain(topic.chain)
    chain.compacted(kept[-1], kept[-2], first_ledger)
    cursor = CursorReplica(chain, EARLIEST)
    cursor.ack_cumulative(kept[3])
    state = OwnerCursorState(Position(first_ledger, -1), left[-1])
    assert not follow_owner(cursor, chain, state)
    assert cursor.mark_delete == kept[3]

    async def answer(*_):
        return state

    async def nothing(*_):
        return []

    queries = SimpleNamespace(state=answer, acked=nothing, batches=nothing)
    view = SimpleNamespace(chain=chain)
    owner = CursorSync("s", view, cursor, queries, lambda _: None, lambda _: None)
    await owner.catch_up(OwnerConsumer())
    back = ResubscribedConsumer(sent_away=True)
    assert await owner.can_resume(back, time.monotonic(), state, first_ledger - 1, [back], None)
    assert cursor.first_unacked() == chain.after(kept[3])
    assert follow_owner(cursor, chain, OwnerCursorState(left[1], left[-1])), "what was acked there is acked"
    assert cursor.mark_delete == left[1]


def test_the_first_entry_is_no_batch_where_it_cannot_be_read(topic, monkeypatch):
    monkeypatch.setattr(owner_cursor, "FIRST_ENTRY_TIMEOUT_S", 0.01)
    position = topic.write(4)
    state = OwnerCursorState(Position(position.ledger_id, position.entry_id - 1), position)

    async def read(*_):
        answer = answers.pop(0)
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return answer

    entry = SimpleNamespace(messages=1)
    answers = [BookKeeperError("away"), None, [], [entry], [SimpleNamespace(messages=2), entry]]
    view = SimpleNamespace(chain=topic.chain, read=read)
    found = [asyncio.run(begins_with_batch(view, state)) for _ in range(5)]
    assert found == [False, False, False, False, True]
    assert not asyncio.run(begins_with_batch(view, OwnerCursorState(None, position)))
