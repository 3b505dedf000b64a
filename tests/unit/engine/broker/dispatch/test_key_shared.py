"""Key_Shared against a naive model, over every interleaving that hypothesis thinks of."""

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
from readonly_engine.broker.dispatch.consumer_state import ConsumerState
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.broker.dispatch.key_shared import MAX_WAITING, KeySharedDispatcher, LookAhead
from readonly_engine.broker.dispatch.multiple import UnackedLimits
from readonly_engine.topic.position import EARLIEST

KEYS = ["a", "b", "c", "d", "e"]
NOW = 1_700_000_000_000
MANY = 10_000


class KeySharedMachine(RuleBasedStateMachine):
    """Each entry has one holder until it is acked or given back; a key has one holder; what it gets first comes in order."""

    sticky = False
    any_order = False
    limits = UnackedLimits()

    def __init__(self, topic):
        super().__init__()
        self.topic = topic
        self.cursor = CursorReplica(topic.chain, EARLIEST)
        self.dispatcher = KeySharedDispatcher(
            topic.chain, self.cursor, self.limits, sticky=self.sticky, any_order=self.any_order
        )
        self.consumers = []
        self.permits = {}
        self.key_of = {}
        self.due = {}
        self.holder = {}
        self.redeliveries = {}
        self.newest = {}  # by key: the last entry that was delivered for the first time
        self.now = NOW
        self.names = 0

    def unacked_keys_of_others(self, receiver):
        return {self.key_of[p] for p, holder in self.holder.items() if holder is not receiver}

    @initialize(entries=st.integers(0, 6))
    def begin(self, entries):
        self.add(0)
        for index in range(entries):
            self.write([(KEYS[index % len(KEYS)], 1, 0)])

    @rule(
        entries=st.lists(
            st.tuples(st.sampled_from(KEYS), st.sampled_from([1, 1, 3]), st.sampled_from([0, 0, 0, 50])), max_size=6
        )
    )
    def write(self, entries):
        for key, messages, delay in entries:
            deliver_at = self.now + delay if delay else 0
            position = self.topic.write(messages, key=key, deliver_at=deliver_at)
            self.key_of[position] = key
            self.due[position] = deliver_at

    @rule(step=st.integers(1, 2))
    def roll(self, step):
        self.topic.roll(step)

    @rule(passed=st.integers(1, 60))
    def time_passes(self, passed):
        self.now += passed

    @rule(part=st.integers(0, 3))
    def add(self, part):
        if self.sticky:
            if any(receiver.ranges[0][0] == part << 14 for receiver in self.consumers):
                return
            receiver = ConsumerState(ranges=((part << 14, (part + 1 << 14) - 1),))
        else:
            self.names += 1
            receiver = ConsumerState(name=f"consumer-{self.names % 3}")  # some share a name
        if not self.consumers:
            self.holder, self.redeliveries, self.newest = {}, {}, {}
        self.consumers.append(receiver)
        self.permits[receiver] = 0
        self.dispatcher.add(receiver)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def remove(self, data):
        receiver = data.draw(st.sampled_from(self.consumers))
        self.consumers.remove(receiver)
        self.dispatcher.remove(receiver)
        for position in [position for position, holder in self.holder.items() if holder is receiver]:
            del self.holder[position]

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), permits=st.integers(1, 6))
    def flow(self, data, permits):
        self.grant(data.draw(st.sampled_from(self.consumers)), permits)

    def grant(self, receiver, permits):
        receiver.permits += permits
        self.permits[receiver] += permits

    @precondition(lambda self: self.holder)
    @rule(data=st.data())
    def ack(self, data):
        position = data.draw(st.sampled_from(sorted(self.holder)))
        self.cursor.ack(position)
        self.dispatcher.acked(position, self.holder.pop(position))

    @precondition(lambda self: self.key_of)
    @rule(data=st.data())
    def ack_anything(self, data):
        position = data.draw(st.sampled_from(sorted(self.key_of)))
        self.cursor.ack(position)
        self.dispatcher.acked(position)
        self.holder.pop(position, None)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def redeliver(self, data):
        receiver = data.draw(st.sampled_from(self.consumers))
        held = sorted(position for position, holder in self.holder.items() if holder is receiver)
        named = data.draw(st.lists(st.sampled_from(held), max_size=4)) if held else []
        self.dispatcher.redeliver(receiver, named)
        for position in set(named or held):
            del self.holder[position]
            self.redeliveries[position] = self.redeliveries.get(position, 0) + 1

    @rule(count=st.integers(1, 10))
    def read_more(self, count):
        for _ in range(MANY):
            want = self.dispatcher.next_read(self.now)
            if want is None:
                return
            position, most = want
            assert most > 0
            entries = self.topic.read(position, min(count, most))
            if not entries:
                assert not self.topic.chain.readable(position)
                return
            for delivery in self.dispatcher.dispatch(entries, self.now):
                self.delivered(delivery)
        raise AssertionError("the pump does not come to rest")

    def delivered(self, delivery):
        receiver, entry, redeliveries, _ = delivery
        position = entry.position
        key = self.key_of[position]
        assert receiver in self.consumers
        assert self.permits[receiver] > 0
        self.permits[receiver] -= entry.messages
        assert position not in self.holder, "delivered to two"
        assert not self.cursor.is_acked(position)
        assert self.due[position] <= self.now
        assert redeliveries == self.redeliveries.get(position, 0)
        if not self.any_order:
            assert key not in self.unacked_keys_of_others(receiver), "a key at two consumers at a time"
            if not self.due[position] and not redeliveries:
                given_back = [p for p in self.left() if p < position and self.key_of[p] == key and p not in self.holder]
                assert not [p for p in given_back if not self.due[p] and not self.redeliveries.get(p)], "out of order"
        self.holder[position] = receiver

    def left(self):
        return [position for position in self.topic.messages if not self.cursor.is_acked(position)]

    @invariant()
    def pending_is_what_is_held(self):
        for receiver in self.consumers:
            assert receiver.permits == self.permits[receiver]
            assert set(receiver.pending) == {p for p, holder in self.holder.items() if holder is receiver}
            assert receiver.unacked == sum(receiver.pending.values())

    def teardown(self):
        """With time and permits enough, and acks, everything that is not acked is delivered: nothing is lost."""
        if self.sticky:
            for part in range(4):
                self.add(part)
        elif not self.consumers:
            self.add(0)
        self.now += 1000
        for _ in range(MANY):
            for receiver in self.consumers:
                self.grant(receiver, max(0, 10 - receiver.permits))
            self.read_more(30)
            if not self.left():
                break
            assert self.holder, "what is left has nobody"
            for position, holder in sorted(self.holder.items()):
                self.cursor.ack(position)
                self.dispatcher.acked(position, holder)
            self.holder.clear()
        assert not self.left()
        assert not self.dispatcher.outstanding
        assert self.dispatcher.next_timer() is None


class StickyMachine(KeySharedMachine):
    sticky = True


class AnyOrderMachine(KeySharedMachine):
    any_order = True


class LimitedMachine(KeySharedMachine):
    """Few messages may be unacked."""

    limits = UnackedLimits(consumer=3, subscription=5)

    @invariant()
    def the_limits_are_kept(self):
        largest = 3
        assert all(receiver.unacked < 3 + largest for receiver in self.consumers)


@pytest.mark.parametrize("machine", [KeySharedMachine, StickyMachine, AnyOrderMachine, LimitedMachine])
def test_every_interleaving(make_topic, machine):
    run_state_machine_as_test(lambda: machine(make_topic()), settings=settings(stateful_step_count=30))


@pytest.mark.parametrize(
    ("ahead", "unacked", "limit"),
    [
        (LookAhead(), UnackedLimits(), 6_000),
        (LookAhead(4_000, 10_000), UnackedLimits(), 10_000),
        (LookAhead(0, 500), UnackedLimits(), 500),
        (LookAhead(10, 0), UnackedLimits(), 30),
        (LookAhead(0, 0), UnackedLimits(7, 0), 21),
        (LookAhead(0, 0), UnackedLimits(0, 9), 9),
        (LookAhead(0, 0), UnackedLimits(0, 0), MAX_WAITING),
    ],
)
def test_the_limit_of_waiting_entries_is_the_owners(ahead, unacked, limit):
    assert ahead.limit(3, unacked) == limit


def test_reads_pause_at_the_limit_of_waiting_entries(make_topic):
    topic = make_topic()
    dispatcher = KeySharedDispatcher(topic.chain, CursorReplica(topic.chain, EARLIEST), look_ahead=LookAhead(3, 0))
    ready, slow = ConsumerState(name="ready"), ConsumerState(name="slow")
    for consumer in (ready, slow):
        dispatcher.add(consumer)
    ready.permits = MANY
    for number in range(100):
        topic.write(key=f"key-{number}")
    reads = 0
    while (step := dispatcher.next_read(NOW)) is not None:
        first, count = step
        reads += 1
        assert count <= 6 or reads == 1
        dispatcher.dispatch(topic.read(first, count), NOW)
        assert reads < 100
    assert len(dispatcher._waiting) == 6, "three for each of two consumers"
