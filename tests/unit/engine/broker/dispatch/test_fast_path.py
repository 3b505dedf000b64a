"""The short way of consumers at the tail gives the same as the long one, or declines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.dispatch.consumer_state import ConsumerState
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.broker.dispatch.single_active import SingleActiveDispatcher
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.topic.tail_batch import TailBatch

from tests.unit.engine.broker.conftest import Topic

NOW = 1_700_000_000_000


@pytest.fixture
def scene(topic):
    for messages in (1, 3, 1):
        topic.write(messages)
    cursor = CursorReplica(topic.chain, EARLIEST)
    dispatcher = SingleActiveDispatcher(topic.chain, cursor, elected=False)
    receiver = ConsumerState(permits=5)
    dispatcher.add(receiver)
    return topic, cursor, dispatcher, receiver


def newest(topic, first):
    entries = topic.read(first, 100)
    return TailBatch(entries, topic.chain.after(entries[-1].position), complete=True)


def test_all_that_is_new_goes_out_at_once(scene):
    topic, _, dispatcher, receiver = scene
    assert dispatcher.dispatch_batch(newest(topic, Position(1, 0))) is receiver
    assert receiver.permits == 0
    receiver.permits = 10
    assert dispatcher.next_read(NOW) == (Position(1, 3), 10)


@pytest.mark.parametrize(
    "hinder",
    [
        lambda topic, dispatcher, cursor, receiver: setattr(receiver, "permits", 4),
        lambda topic, dispatcher, cursor, receiver: setattr(receiver, "writable", False),
        lambda topic, dispatcher, cursor, receiver: cursor.ack(Position(1, 0)),
        lambda topic, dispatcher, cursor, receiver: cursor.ack(Position(1, 2)),
        lambda topic, dispatcher, cursor, receiver: cursor.ack_partially(Position(1, 1), 0b101),
        lambda topic, dispatcher, cursor, receiver: cursor.withhold(Position(1, 1)),
        lambda topic, dispatcher, cursor, receiver: dispatcher.deactivate(receiver),
        lambda topic, dispatcher, cursor, receiver: dispatcher.dispatch(topic.read(Position(1, 0), 1), NOW),
    ],
)
def test_whatever_needs_a_look_at_each_entry_goes_the_long_way(scene, hinder):
    topic, cursor, dispatcher, receiver = scene
    hinder(topic, dispatcher, cursor, receiver)
    before = receiver.permits
    assert dispatcher.dispatch_batch(newest(topic, Position(1, 0))) is None
    assert receiver.permits == before


def test_a_reader_of_some_keys_goes_the_long_way(topic):
    topic.write()
    dispatcher = SingleActiveDispatcher(topic.chain, CursorReplica(topic.chain, EARLIEST), elected=False)
    dispatcher.add(ConsumerState(permits=5, ranges=((0, 100),)))
    assert dispatcher.dispatch_batch(newest(topic, Position(1, 0))) is None


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    acks=st.lists(st.tuples(st.booleans(), st.integers(0, 5))),
    permits=st.integers(-1, 12),
    start=st.integers(0, 5),
    behind=st.booleans(),
)
def test_what_is_taken_is_what_would_have_been_offered(sizes, acks, permits, start, behind):
    topic = Topic()
    positions = [topic.write(messages) for messages in sizes]
    sides = []
    for _ in range(2):
        cursor = CursorReplica(topic.chain, EARLIEST)
        for cumulative, index in acks:
            position = positions[index % len(positions)]
            (cursor.ack_cumulative if cumulative else cursor.ack)(position)
        receiver = ConsumerState(permits=permits)
        dispatcher = SingleActiveDispatcher(topic.chain, cursor, elected=False)
        dispatcher.add(receiver)
        sides.append((dispatcher, receiver))
    (short, taker), (long, offered) = sides
    burst = newest(topic, positions[start % len(positions)])
    if behind:
        entries = short.within_permits(topic.read(burst.first, 100))
        burst = TailBatch(entries, topic.chain.after(entries[-1].position))
    if short.dispatch_batch(burst, 1 if behind else 0) is None:
        assert taker.permits == permits
        return
    wanted = long.next_read(NOW)
    assert wanted is not None
    assert wanted[0] == burst.first
    deliveries = long.dispatch(topic.read(burst.first, 100), NOW)
    assert [delivery.entry.position for delivery in deliveries] == [
        p for p in positions if burst.first <= p <= burst.last
    ]
    assert not any(delivery.unacked for delivery in deliveries)
    assert offered.permits == taker.permits
    offered.permits = taker.permits = 100
    assert long.next_read(NOW) == short.next_read(NOW)
