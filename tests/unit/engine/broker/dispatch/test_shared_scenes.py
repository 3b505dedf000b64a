"""Shared: priorities, chunks of large messages, and messages whose time has not come."""

import pytest
from readonly_engine.broker.dispatch.consumer_state import ConsumerState
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.broker.dispatch.shared import SharedDispatcher
from readonly_engine.topic.position import EARLIEST, Position

NOW = 1_700_000_000_000


@pytest.fixture
def shared(topic):
    return SharedDispatcher(topic.chain, CursorReplica(topic.chain, EARLIEST))


def read_more(topic, dispatcher, now=NOW):
    found = []
    while (want := dispatcher.next_read(now)) is not None:
        entries = topic.read(*want)
        if not entries:
            break
        found += [(d.consumer.name, d.entry.position.entry_id) for d in dispatcher.dispatch(entries, now)]
    return found


def test_a_message_in_chunks_goes_to_one_consumer_also_when_that_has_to_wait(topic, shared):
    one, two = ConsumerState(name="one", permits=1), ConsumerState(name="two", permits=100)
    shared.add(one)
    shared.add(two)
    for index in range(3):
        topic.write(chunk=("large", index, 3))
        topic.write()
    assert read_more(topic, shared) == [("one", 0), ("two", 1), ("two", 3), ("two", 5)]
    one.permits = 1
    assert read_more(topic, shared) == [("one", 2)]
    one.permits = 10
    assert read_more(topic, shared) == [("one", 4)]


def test_chunks_of_a_consumer_that_leaves_go_to_another_together(topic, shared):
    one, two = ConsumerState(name="one", permits=1), ConsumerState(name="two", permits=100)
    shared.add(one)
    for index in range(3):
        topic.write(chunk=("large", index, 3))
    assert read_more(topic, shared) == [("one", 0)]
    shared.add(two)
    assert read_more(topic, shared) == []
    shared.remove(one)
    assert read_more(topic, shared) == [("two", 0), ("two", 1), ("two", 2)]


def test_what_is_due_while_nobody_has_permits_comes_later_and_does_not_keep_the_broker_awake(topic, shared):
    receiver = ConsumerState(name="one", permits=1)
    shared.add(receiver)
    topic.write(deliver_at=NOW + 1000)
    assert read_more(topic, shared) == []
    receiver.permits = 0
    assert read_more(topic, shared, NOW + 2000) == []
    assert shared.next_timer() is None
    receiver.permits = 1
    assert read_more(topic, shared, NOW + 2000) == [("one", 0)]


def test_a_delayed_message_that_is_acked_meanwhile_does_not_come(topic, shared):
    shared.add(ConsumerState(name="one", permits=100))
    topic.write(deliver_at=NOW + 1000)
    read_more(topic, shared)
    shared._cursor.ack(Position(1, 0))
    assert read_more(topic, shared, NOW + 1000) == []


def test_the_first_consumer_after_a_while_starts_over_also_with_what_is_delayed(topic, shared):
    one = ConsumerState(name="one", permits=100)
    shared.add(one)
    topic.write(deliver_at=NOW + 1000)
    topic.write()
    assert read_more(topic, shared) == [("one", 1)]
    shared.remove(one)
    shared.add(ConsumerState(name="two", permits=100))
    assert read_more(topic, shared, NOW + 1000) == [("two", 0), ("two", 1)]
