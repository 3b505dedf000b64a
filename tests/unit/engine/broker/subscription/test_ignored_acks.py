"""Acks that an owner has answered and ignored."""

import asyncio

import pytest
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.broker.subscription import ignored_acks
from readonly_engine.broker.subscription.cursor_queries import OwnerCursorRanges
from readonly_engine.broker.subscription.ignored_acks import SentAcks, find_ignored_acks
from readonly_engine.owner.consumer_events import OwnerCursorState
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.wire.pulsar_pb2 import CommandAck


def ack_of(*positions, cumulative=False):
    made = CommandAck(ack_type=CommandAck.Cumulative if cumulative else CommandAck.Individual)
    for position in positions:
        made.message_id.add(ledger_id=position.ledger_id, entry_id=position.entry_id)
    return made


class OwnerConsumer:
    """A consumer at the owner, with acks that are not answered."""

    confirmed_up_to = None

    def __init__(self, *unanswered):
        self.unanswered = list(unanswered)


class GroupedAcks:
    """Grouped acks that are not answered."""

    def __init__(self, *positions):
        self.unanswered = ack_of(*positions)


class Queries:
    """The owner's cursor, read through the admin API."""

    def __init__(self, *acked):
        self.acked = list(acked)
        self.times = 0

    async def cursor(self):
        self.times += 1
        return OwnerCursorRanges(self.acked, not_persisted=False)


def find(topic, cursor, mark_delete, queries, *consumers, grouped=None):
    sent = SentAcks.of(cursor, consumers, grouped)
    state = OwnerCursorState(mark_delete, topic.chain.limit)
    return asyncio.run(find_ignored_acks(sent, state, cursor, topic.chain, queries))


@pytest.fixture
def scene(topic):
    """Ten acked entries in two ledgers, and what the copy of the cursor knows."""
    positions = [topic.write() for _ in range(5)]
    topic.roll()
    positions += [topic.write() for _ in range(5)]
    cursor = CursorReplica(topic.chain, EARLIEST)
    cursor.ack_cumulative(positions[-1])
    return positions, cursor


def test_an_ignored_ack_in_the_middle_is_found(topic, scene):
    positions, cursor = scene
    queries = Queries((EARLIEST, positions[3]), (positions[4], positions[-1]))
    assert find(topic, cursor, positions[3], queries, OwnerConsumer()) == [positions[4]]
    assert cursor.owner_mark_delete == positions[3]


def test_acks_under_way_are_not_ignored_and_cost_no_question(topic, scene):
    positions, cursor = scene
    queries = Queries()
    under_way = OwnerConsumer(ack_of(positions[8]))
    assert find(topic, cursor, positions[7], queries, under_way, grouped=GroupedAcks(positions[9])) == []
    assert queries.times == 0
    assert cursor.owner_mark_delete == positions[7], "the next check looks again"


def test_a_cumulative_ack_under_way_is_not_ignored(topic, scene):
    positions, cursor = scene
    cursor.owner_mark_delete = positions[4]
    queries = Queries()
    assert find(topic, cursor, positions[4], queries, OwnerConsumer(ack_of(positions[9], cumulative=True))) == []
    assert queries.times == 0


def test_an_ack_that_was_answered_after_the_first_question_is_not_sent_again(topic, scene):
    positions, cursor = scene
    assert find(topic, cursor, positions[3], Queries((EARLIEST, positions[-1])), OwnerConsumer()) == []
    assert cursor.owner_mark_delete == positions[-1], "verified"


def test_a_mark_delete_position_before_the_first_entry_of_a_ledger_is_the_end_of_the_one_before(topic):
    last = [topic.write() for _ in range(5)][-1]
    topic.roll()
    cursor = CursorReplica(topic.chain, EARLIEST)
    cursor.ack_cumulative(Position(last.ledger_id + 1, -1))
    queries = Queries()
    assert find(topic, cursor, last, queries, OwnerConsumer()) == []
    assert cursor.owner_mark_delete == cursor.mark_delete, "nothing is left to verify"
    assert queries.times == 0


def test_one_check_sends_a_bounded_number_of_acks(topic, scene, monkeypatch):
    positions, cursor = scene
    monkeypatch.setattr(ignored_acks, "MAX_POSITIONS", 6)
    assert find(topic, cursor, EARLIEST, Queries(), OwnerConsumer()) == positions[:6]


def test_an_owner_without_a_cursor_has_ignored_nothing(topic, scene):
    _, cursor = scene
    assert find(topic, cursor, None, Queries(), OwnerConsumer()) == []
