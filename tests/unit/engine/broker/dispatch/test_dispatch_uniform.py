"""Shared and Key_Shared: the short way does what the long one does, with the same accounts after it."""

from dataclasses import asdict
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.dispatch.consumer_state import ConsumerState
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.broker.dispatch.key_shared import KeySharedDispatcher, LookAhead
from readonly_engine.broker.dispatch.multiple import UnackedLimits
from readonly_engine.broker.dispatch.shared import SharedDispatcher
from readonly_engine.topic.position import Position

from tests.unit.engine.broker.conftest import Topic

NOW = 1000
START = Position(1, -1)
FIRST, OTHERS = (0, 0), ((3, 60), (50, 0), (200, 150), (0, 7))
KEYS = 7
KINDS = {
    "Shared": SharedDispatcher,
    "Key_Shared": KeySharedDispatcher,
    "Key_Shared, few may wait": partial(KeySharedDispatcher, look_ahead=LookAhead(2, 6)),
    "Key_Shared, any order": partial(KeySharedDispatcher, any_order=True),
}

consumers = st.lists(st.tuples(st.integers(0, 50), st.sampled_from([0, 0, 0, 1])), min_size=1, max_size=5)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.lists(st.integers(1, 4), min_size=1, max_size=60)),
        st.tuples(st.just("permits"), st.integers(0, 4), st.integers(1, 40)),
        st.tuples(st.just("writable"), st.integers(0, 4), st.booleans()),
        st.tuples(st.just("ack"), st.integers(0, 4), st.integers(1, 30)),
        st.tuples(st.just("redeliver"), st.integers(0, 4)),
        st.tuples(st.just("leave"), st.integers(0, 4)),
        st.tuples(st.just("join"), st.integers(1, 40)),
    ),
    max_size=25,
)


class Side:
    """A dispatcher with its consumers; all of them are told the same."""

    def __init__(self, topic, setup, limits, kind="Shared"):
        self.topic, self.keyed = topic, kind != "Shared"
        self.cursor = CursorReplica(topic.chain, START)
        self.dispatcher = KINDS[kind](topic.chain, self.cursor, UnackedLimits(*limits))
        self.consumers, self.joined, self.short = [], 0, 0
        for permits, priority in setup:
            self.join(permits, priority)

    def join(self, permits, priority=0):
        self.joined += 1
        self.consumers.append(ConsumerState(permits=permits, priority=priority, name=f"c{self.joined}"))
        self.dispatcher.add(self.consumers[-1])

    def read_more(self, plainly):
        """What goes out, as (consumer, position)."""
        out = []
        while (want := self.dispatcher.next_read(NOW)) is not None:
            position, count = want
            entries = self.topic.read(position, count)
            if not entries:
                break
            runs = self.dispatcher.dispatch_uniform(entries) if plainly else None
            if runs is None:
                out += [(one.consumer.name, one.entry.position) for one in self.dispatcher.dispatch(entries, NOW)]
            else:
                self.short += 1
                for run in runs:
                    assert run.messages == sum(entry.messages for entry in run.entries)
                    out += [(run.consumer.name, entry.position) for entry in run.entries]
        return sorted(out, key=lambda one: one[0]) if self.keyed else out  # stable: the order of each consumer

    def do(self, what, *given):
        if what == "permits":
            self.consumers[given[0] % len(self.consumers)].permits += given[1]
        elif what == "writable":
            self.consumers[given[0] % len(self.consumers)].writable = given[1]
        elif what == "ack":
            receiver = self.consumers[given[0] % len(self.consumers)]
            for position in sorted(receiver.pending)[: given[1]]:
                self.cursor.ack(position)
                self.dispatcher.acked(position, receiver)
        elif what == "redeliver":
            self.dispatcher.redeliver(self.consumers[given[0] % len(self.consumers)], [])
        elif what == "join":
            self.join(*given)
        elif what == "leave" and len(self.consumers) > 1:
            self.dispatcher.remove(self.consumers.pop(given[0] % len(self.consumers)))

    @property
    def accounts(self):
        return [asdict(receiver) for receiver in self.consumers], self.dispatcher.next_read(NOW)


@pytest.mark.parametrize("kind", KINDS)
@given(consumers, steps, st.sampled_from([FIRST, *OTHERS]))
def test_the_short_way_does_the_same(kind, setup, script, limits):
    topic = Topic()
    long, short = Side(topic, setup, limits, kind), Side(topic, setup, limits, kind)
    for what, *given_ in script:
        if what == "write":
            for number, messages in enumerate(given_[0]):
                topic.write(messages, key=str((number + messages) % KEYS))
        else:
            long.do(what, *given_)
            short.do(what, *given_)
        assert short.read_more(plainly=True) == long.read_more(plainly=False)
        assert short.accounts == long.accounts


def test_new_entries_go_the_short_way_and_acks_in_between_do_not_change_that():
    topic = Topic()
    side = Side(topic, [(1000, 0), (1000, 0)], (0, 0))
    side.cursor.ack(Position(1, 1000))  # by another broker, of a later lease
    for number in range(5):
        for _ in range(30):
            topic.write()
        assert len(side.read_more(plainly=True)) == 30
        assert side.short == number + 1
        side.do("ack", 1, 5)  # leaves what the other has
    assert side.cursor.sparse


def test_what_is_acked_ahead_or_comes_again_goes_the_long_way():
    topic = Topic()
    side = Side(topic, [(1000, 0)], (0, 0))
    for _ in range(3):
        topic.write()
    side.cursor.ack(Position(1, 1))
    assert side.read_more(plainly=True) == [("c1", Position(1, 0)), ("c1", Position(1, 2))]
    side.do("redeliver", 0)
    assert side.read_more(plainly=True) == [("c1", Position(1, 0)), ("c1", Position(1, 2))]
    assert side.short == 0
