"""The dispatchers against naive models, over every interleaving that hypothesis thinks of, and scenes that these leave open."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from readonly_engine.broker.dispatch.consumer_state import READ_ENTRIES, ConsumerState
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.broker.dispatch.key_shared import KeySharedDispatcher
from readonly_engine.broker.dispatch.multiple import UnackedLimits
from readonly_engine.broker.dispatch.shared import SharedDispatcher
from readonly_engine.broker.dispatch.single_active import BACKLOG_ENTRIES, SingleActiveDispatcher
from readonly_engine.topic.position import EARLIEST, Position

from tests.support.examples import examples

MANY = 10_000
NOW = 1_700_000_000_000


class Delivering(RuleBasedStateMachine):
    """What both types have in common: a topic that grows, consumers that come and go, and a pump as Subscription's."""

    at_once = READ_ENTRIES

    def __init__(self, topic):
        super().__init__()
        self.topic = topic
        self.cursor = CursorReplica(topic.chain, EARLIEST)
        self.consumers = []
        self.permits = {}

    def receiver(self, data):
        return data.draw(st.sampled_from(self.consumers))

    # The topic

    @initialize(entries=st.integers(0, 4), permits=st.integers(0, 6))
    def begin(self, entries, permits):
        for _ in range(entries):
            self.topic.write()
        self.add()
        self.grant(self.consumers[0], permits)

    @rule(entries=st.lists(st.tuples(st.sampled_from([1, 1, 1, 5]), st.sampled_from([False] * 4 + [True])), max_size=4))
    def write(self, entries):
        for messages, marker in entries:
            self.topic.write(messages, marker=marker)

    @rule(step=st.integers(1, 2))
    def roll(self, step):
        self.topic.roll(step)

    @rule()
    def trim(self):
        self.topic.trim()

    # The clients

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), permits=st.integers(1, 6))
    def flow(self, data, permits):
        self.grant(self.receiver(data), permits)
        self.read_more(permits)

    def grant(self, receiver, permits):
        receiver.permits += permits
        self.permits[id(receiver)] += permits

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), writable=st.booleans())
    def connection(self, data, writable):
        self.receiver(data).writable = writable

    # Delivery

    @rule(count=st.integers(1, 30))
    def read_more(self, count):
        for _ in range(MANY):
            ready = [receiver for receiver in self.may_receive() if receiver.ready]
            want = self.dispatcher.next_read(NOW)
            assert (want is None) == (not ready)
            if want is None:
                return
            position, most = want
            assert 0 < most <= min(self.at_once, sum(receiver.permits for receiver in ready))
            entries = self.topic.read(position, min(count, most))
            if not entries:
                assert not self.topic.chain.readable(position)
                return
            for receiver, entry, redeliveries, unacked in self.dispatcher.dispatch(entries, NOW):
                assert not unacked
                assert receiver in self.may_receive()
                assert receiver.writable
                assert self.permits[id(receiver)] > 0, "a batch may overdraw, but then it is over"
                assert not entry.marker
                assert not self.cursor.is_acked(entry.position)
                self.permits[id(receiver)] -= entry.messages
                self.delivered(receiver, entry, redeliveries)
        raise AssertionError("the pump does not come to rest")

    @invariant()
    def permits_are_counted_in_messages(self):
        for receiver in self.consumers:
            assert receiver.permits == self.permits[id(receiver)]

    def left(self):
        """What the subscription must still get."""
        return [position for position in self.topic.messages if not self.cursor.is_acked(position)]

    def give_everyone_all(self):
        for receiver in self.consumers:
            receiver.writable = True
            self.grant(receiver, MANY)
        self.read_more(30)


class SharedMachine(Delivering):
    """Shared: each entry has one holder until it is acked or asked for again."""

    def __init__(self, topic):
        super().__init__(topic)
        self.dispatcher = SharedDispatcher(topic.chain, self.cursor)
        self.holder = {}
        self.redeliveries = {}
        self.newest = EARLIEST

    def may_receive(self):
        return self.consumers

    def delivered(self, receiver, entry, redeliveries):
        position = entry.position
        assert position not in self.holder, "delivered to two"
        assert redeliveries == self.redeliveries.get(position, 0)
        if position not in self.redeliveries and position <= self.newest:
            raise AssertionError(f"{position} again, and nobody asked for it")
        self.newest = max(self.newest, position)
        self.holder[position] = receiver
        self.redeliveries.setdefault(position, 0)

    def give_back(self, receiver, positions, *, counts=True):
        for position in positions:
            if self.holder.get(position) is receiver:
                del self.holder[position]
                if counts and not self.cursor.is_acked(position):
                    self.redeliveries[position] += 1

    @rule()
    def add(self):
        receiver = ConsumerState()
        if not self.consumers:  # the first one starts over
            self.holder, self.redeliveries, self.newest = {}, {}, EARLIEST
        self.consumers.append(receiver)
        self.permits[id(receiver)] = 0
        self.dispatcher.add(receiver)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def remove(self, data):
        receiver = self.receiver(data)
        self.consumers.remove(receiver)
        self.dispatcher.remove(receiver)
        self.give_back(receiver, list(self.holder), counts=False)

    @precondition(lambda self: self.topic.messages)
    @rule(data=st.data())
    def ack(self, data):
        """By any client, of any entry."""
        position = data.draw(st.sampled_from(self.topic.messages))
        self.cursor.ack(position)
        self.dispatcher.acked(position)
        self.holder.pop(position, None)

    @precondition(lambda self: self.holder)
    @rule(data=st.data())
    def ack_what_was_delivered(self, data):
        position = data.draw(st.sampled_from(sorted(self.holder)))
        self.cursor.ack(position)
        self.dispatcher.acked(position)
        del self.holder[position]

    @precondition(lambda self: self.topic.messages)
    @rule(data=st.data())
    def the_owners_cursor_is_ahead(self, data):
        self.cursor.ack_cumulative(data.draw(st.sampled_from(self.topic.messages)))
        self.dispatcher.cursor_moved()
        for position in [position for position in self.holder if self.cursor.is_acked(position)]:
            del self.holder[position]

    @rule()
    def everyone_leaves_and_one_comes_back(self):
        for receiver in list(self.consumers):
            self.consumers.remove(receiver)
            self.dispatcher.remove(receiver)
        self.add()
        self.grant(self.consumers[0], 2)
        self.read_more(2)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def redeliver_all(self, data):
        receiver = self.receiver(data)
        self.dispatcher.redeliver(receiver, [])
        self.give_back(receiver, list(self.holder))

    @precondition(lambda self: self.consumers and self.topic.positions)
    @rule(data=st.data())
    def redeliver_some(self, data):
        """Its own, others', unknown ones, some of them twice."""
        receiver = self.receiver(data)
        positions = data.draw(
            st.lists(st.sampled_from([*self.topic.positions, Position(99, 0)]), min_size=1, max_size=6)
        )
        self.dispatcher.redeliver(receiver, positions)
        self.give_back(receiver, positions)

    @invariant()
    def what_is_pending_is_what_was_delivered_and_not_acked(self):
        for receiver in self.consumers:
            assert set(receiver.pending) == {p for p, holder in self.holder.items() if holder is receiver}
            sizes = {entry.position: entry.messages for entry in self.topic.entries}
            assert all(sizes.get(position, count) == count for position, count in receiver.pending.items())

    def teardown(self):
        """With permits enough, everything that is not acked has exactly one holder: nothing is lost."""
        if not self.consumers:
            self.add()
        self.give_everyone_all()
        held = [position for position in self.left() if position in self.holder]
        assert held == self.left()


class SingleMachine(Delivering):
    """Exclusive and Failover: since it last started over, the active consumer has got every unacked entry, in order."""

    elected = True
    at_once = BACKLOG_ENTRIES

    def __init__(self, topic):
        super().__init__(topic)
        self.dispatcher = SingleActiveDispatcher(topic.chain, self.cursor, elected=self.elected)
        self.active = None
        self.start_over()

    def start_over(self):
        self.got = []
        self.last = EARLIEST

    def may_receive(self):
        return [self.active] if self.active is not None else []

    def delivered(self, receiver, entry, redeliveries):
        assert redeliveries == 0
        assert entry.position > self.last
        skipped = [p for p in self.topic.messages if self.last < p < entry.position and not self.cursor.is_acked(p)]
        assert skipped == []
        self.last = entry.position
        self.got.append(entry.position)

    @rule()
    def add(self):
        receiver = ConsumerState()
        self.consumers.append(receiver)
        self.permits[id(receiver)] = 0
        self.dispatcher.add(receiver)
        if not self.elected:
            self.active = receiver
            self.start_over()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def remove(self, data):
        receiver = self.receiver(data)
        self.consumers.remove(receiver)
        self.dispatcher.remove(receiver)
        if receiver is self.active:
            self.active = None

    @precondition(lambda self: self.elected and self.consumers)
    @rule(data=st.data())
    def activate(self, data):
        receiver = self.receiver(data)
        self.dispatcher.activate(receiver)
        if receiver is not self.active:
            self.active = receiver
            self.start_over()

    @precondition(lambda self: self.elected and self.consumers)
    @rule(data=st.data())
    def deactivate(self, data):
        receiver = self.receiver(data)
        self.dispatcher.deactivate(receiver)
        if receiver is self.active:
            self.active = None

    @precondition(lambda self: self.topic.messages)
    @rule(data=st.data(), cumulative=st.booleans())
    def ack(self, data, cumulative):
        position = data.draw(st.sampled_from(self.topic.messages))
        if cumulative:
            self.cursor.ack_cumulative(position)
        else:
            self.cursor.ack(position)
            self.dispatcher.acked(position)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def redeliver(self, data):
        """Whatever is named, these types start over."""
        receiver = self.receiver(data)
        self.dispatcher.redeliver(receiver, data.draw(st.sampled_from([[], self.topic.positions[:1]])))
        if receiver is self.active:
            self.start_over()

    def teardown(self):
        """With permits enough, everything that is not acked has been delivered since the last start: nothing is lost."""
        if self.active is None:
            self.add()
            if self.elected:
                self.active = self.consumers[-1]
                self.dispatcher.activate(self.active)
                self.start_over()
        self.give_everyone_all()
        assert [position for position in self.got if position in self.left()] == self.left()


class ExclusiveMachine(SingleMachine):
    elected = False


@pytest.mark.parametrize("machine", [SharedMachine, SingleMachine, ExclusiveMachine])
def test_every_interleaving(make_topic, machine):
    run_state_machine_as_test(
        lambda: machine(make_topic()), settings=settings(max_examples=examples(120), stateful_step_count=40)
    )


def read_more(topic, dispatcher, now=NOW):
    """Deliver until nothing moves: (name of the receiver, entry)."""
    found = []
    while (want := dispatcher.next_read(now)) is not None:
        entries = topic.read(*want)
        if not entries:
            break
        found += [(d.consumer.name, d.entry.position.entry_id) for d in dispatcher.dispatch(entries, now)]
    return found


@pytest.fixture
def shared(topic):
    return SharedDispatcher(topic.chain, CursorReplica(topic.chain, EARLIEST))


def test_entries_go_round_in_batches_of_twenty(topic, shared):
    for _ in range(90):
        topic.write()
    for name in "abc":
        shared.add(ConsumerState(permits=1000, name=name))
    assert "".join(name for name, _ in read_more(topic, shared)) == "a" * 20 + "b" * 20 + "c" * 20 + "a" * 20 + "b" * 10


def test_what_is_delivered_again_comes_before_what_is_new(topic, shared):
    for _ in range(4):
        topic.write()
    one, other = ConsumerState(name="one", permits=3), ConsumerState(name="other")
    shared.add(one)
    shared.add(other)
    assert read_more(topic, shared) == [("one", 0), ("one", 1), ("one", 2)]
    shared.redeliver(one, [Position(1, 2), Position(1, 0), Position(1, 0)])
    other.permits = 10
    assert read_more(topic, shared) == [("other", 0), ("other", 2), ("other", 3)]


def test_a_consumer_whose_connection_is_full_waits(topic):
    topic.write()
    dispatcher = SingleActiveDispatcher(topic.chain, CursorReplica(topic.chain, EARLIEST), elected=False)
    receiver = ConsumerState(name="one", permits=10, writable=False)
    dispatcher.add(receiver)
    assert dispatcher.next_read(NOW) is None
    assert dispatcher.dispatch(topic.read(Position(1, 0), 1), NOW) == []
    receiver.writable = True
    assert read_more(topic, dispatcher) == [("one", 0)]


def test_outstanding_is_what_was_delivered_and_not_acked(topic, shared):
    cursor = CursorReplica(topic.chain, EARLIEST)
    single = SingleActiveDispatcher(topic.chain, cursor, elected=False)
    position = topic.write()
    for dispatcher in (shared, single):
        dispatcher.add(ConsumerState(permits=1))
        assert not dispatcher.outstanding
        read_more(topic, dispatcher)
        assert dispatcher.outstanding
        dispatcher._cursor.ack(position)
        dispatcher.acked(position)
        assert not dispatcher.outstanding


@pytest.mark.parametrize("make", [SharedDispatcher, KeySharedDispatcher])
@pytest.mark.parametrize(
    ("limits", "more"),
    [
        (UnackedLimits(0, 0), 20),
        (UnackedLimits(15, 0), 5),
        (UnackedLimits(0, 12), 2),
        (UnackedLimits(10, 0), 0),
        (UnackedLimits(4, 0), 0),
        (UnackedLimits(0, 1), 0),
    ],
)
def test_limits_that_change_count_for_entries_that_are_pending_too(topic, make, limits, more):
    dispatcher = make(topic.chain, CursorReplica(topic.chain, EARLIEST))
    receiver = ConsumerState(permits=1000)
    dispatcher.add(receiver)
    for _ in range(10):
        topic.write()
    assert len(read_more(topic, dispatcher)) == 10
    dispatcher.follow(limits, delayed=True)
    for _ in range(20):
        topic.write()
    assert len(read_more(topic, dispatcher)) == more
    dispatcher.follow(UnackedLimits(0, 0), delayed=True)
    assert len(read_more(topic, dispatcher)) == 20 - more


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
