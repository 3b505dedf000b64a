"""Consumers that get what is new together get what each would get alone."""

import socket
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.dispatch.latency import LatencySampler
from readonly_engine.broker.fanout import groups as groups_module
from readonly_engine.broker.fanout.tail_fanout import TailFanout
from readonly_engine.net.direct_writer import NO_DESCRIPTOR
from readonly_engine.topic.position import Position
from readonly_engine.topic.tail_batch import TailBatch
from readonly_engine.wire.commands import decode_command
from readonly_engine.wire.framing import FrameSplitter

from tests.unit.engine.broker.conftest import Topic

PARTITION = -1
NO_EPOCH = -1


class Tail:
    """A topic that tells its listeners of bursts, as TopicLog does."""

    def __init__(self):
        self.topic = Topic()
        self.latest_batch = None
        self.last = Position(1, -1)
        self.asked_on = []
        self._listeners = []

    def defer_to_notification(self, position):
        self.asked_on.append(position)
        return position > self.last

    def listen(self, listener):
        self._listeners.append(listener)

    def unlisten(self, listener):
        self._listeners.remove(listener)

    @property
    def listening(self):
        return len(self._listeners)

    def tell(self, *messages, marker=False, complete=True):
        positions = [self.topic.write(count, marker=marker) for count in messages]
        entries = self.topic.read(positions[0], len(positions))
        self.latest_batch = TailBatch(entries, self.topic.chain.after(positions[-1]), complete=complete)
        self.last = positions[-1]
        self._call()
        return self.latest_batch

    def interrupt(self):
        """Listeners are called for something else."""
        self.latest_batch = None
        self._call()

    def _call(self):
        for listener in list(self._listeners):
            listener()


class Owner:
    """Allows the entries up to a limit, or all."""

    limit = None

    def allows(self, position):
        return self.limit is None or position <= self.limit


class FakeWriter:
    """A connection over a real socket."""

    def __init__(self, log, *, tls=False):
        self._log = log
        self.tls = tls
        self.direct_subscribers = {}
        self.pieces = 0
        self.ours, self.theirs = socket.socketpair()
        for one in (self.ours, self.theirs):
            one.setblocking(False)
        self.descriptor = NO_DESCRIPTOR if tls else self.ours.fileno()
        self.waiting = b""

    def flush_all(self):
        self._log.append("turn")

    def write_remainder(self, data, taken):
        self.descriptor = NO_DESCRIPTOR
        self.waiting += data[taken:]
        for subscriber in list(self.direct_subscribers):
            subscriber.leave_fanout()

    def send(self, data):
        self.pieces += 1
        if self.waiting or self.descriptor == NO_DESCRIPTOR:
            self.waiting += data
        else:
            self.ours.sendall(data)

    def sent(self):
        found = b""
        while True:
            try:
                found += self.theirs.recv(1 << 20)
            except BlockingIOError:
                return found + self.waiting

    def close(self):
        self.ours.close()
        self.theirs.close()


class FakeSubscriber:
    """What a subscription is to those it reads with: alone it is called by the topic, and joins after each burst."""

    def __init__(self, scene, *, consumer_id=0, permits=1000, writer=None):
        self.scene = scene
        self.writer = writer or FakeWriter(scene.log)
        self.consumer_id = consumer_id
        self.permits = permits
        self.messages = self.entries = self.bytes = 0
        self.next = scene.tail.topic.chain.after(scene.tail.last)
        self.member = None
        self.alone = 0
        scene.tail.listen(self.read_more)

    @property
    def key(self):
        return self.consumer_id, PARTITION, NO_EPOCH

    def read_more(self):
        self.leave_fanout()
        latest = self.scene.tail.latest_batch
        if latest is None or latest.first != self.next or latest.messages > self.permits:
            return
        if not self.scene.owner.allows(latest.last):
            return
        self.alone += 1
        chunk = latest.frames(*self.key)
        self.writer.send(chunk)
        self._count(len(latest), latest.messages, len(chunk), latest.following)
        self.member = self.scene.fanout.join(self, self.writer, self.key, self.permits)
        if self.member is not None:
            self.scene.tail.unlisten(self.read_more)

    def flush_accounting(self):
        if self.member is not None:
            self._count(*self.member.take_totals())

    def leave_fanout(self):
        if self.member is not None:
            self.flush_accounting()
            self.member.leave()
            self.member = None
            self.scene.tail.listen(self.read_more)

    def _count(self, entries, messages, size, following):
        self.permits -= messages
        self.entries += entries
        self.messages += messages
        self.bytes += size
        self.next = following


class Scene:
    def __init__(self):
        self.log = []
        self.tail = Tail()
        self.owner = Owner()
        self.timers = []
        self.latency = LatencySampler(self.timers.append)
        self.latency.due = False
        self.fanout = TailFanout(self.tail, self.owner, latency=self.latency)
        self.subscribers = []

    def subscriber(self, **options):
        self.subscribers.append(FakeSubscriber(self, **options))
        return self.subscribers[-1]

    def expected(self, consumer_id=0):
        frames = []
        for entries in self.tail.topic.ledgers.values():
            frames += [entry.frame(consumer_id, PARTITION) for entry in entries]
        return b"".join(frames)

    def close(self):
        for subscriber in self.subscribers:
            subscriber.writer.close()


@pytest.fixture
def scene():
    with closing(Scene()) as made:
        yield made


def test_after_a_burst_alone_the_next_ones_come_together(scene):
    first, second, other = scene.subscriber(), scene.subscriber(), scene.subscriber(consumer_id=3)
    scene.tail.tell(1)
    assert scene.tail.listening == 1
    scene.tail.tell(2, 1)
    scene.tail.tell(1)
    assert [one.alone for one in scene.subscribers] == [1, 1, 1]
    assert first.writer.sent() == second.writer.sent() == scene.expected()
    assert other.writer.sent() == scene.expected(3)
    for one in scene.subscribers:
        one.flush_accounting()
        one.flush_accounting()
        assert (one.entries, one.messages, one.permits) == (4, 5, 995)
        assert one.bytes == len(scene.expected(one.consumer_id))
        assert one.next == Position(1, 4)


def test_a_batch_for_all_is_one_sample_of_latency_while_one_is_due(scene):
    for _ in range(3):
        scene.subscriber()
    scene.tail.tell(1)
    scene.tail.tell(1)
    assert sum(scene.latency.tail.counts) == 0
    scene.latency.due = True
    scene.tail.tell(2, 1)
    scene.tail.tell(1)
    assert sum(scene.latency.tail.counts) == 1
    assert sum(scene.latency.backlog.counts) == 0
    assert len(scene.timers) == 1


def test_what_waits_for_the_end_of_the_turn_goes_first(scene):
    scene.subscriber()
    scene.tail.tell(1)
    assert scene.log == []
    scene.tail.tell(1)
    assert scene.log == ["turn"]


def test_a_socket_that_is_full_gets_the_rest_by_its_connection_and_the_others_go_on(scene):
    slow, quick = scene.subscriber(permits=1 << 20), scene.subscriber(permits=1 << 20)
    scene.tail.tell(1)
    while slow.member is not None:
        scene.tail.tell(*[1] * 50)
        quick.received = getattr(quick, "received", b"") + quick.writer.sent()
    assert slow.writer.waiting
    assert slow.next == quick.scene.tail.latest_batch.following
    assert slow.writer.sent() == scene.expected() == quick.received
    scene.tail.tell(1)
    assert (slow.member, quick.member is None) == (None, False)


@pytest.mark.parametrize("tls", [False, True])
def test_consumers_of_one_connection_get_what_is_new_in_one_piece(scene, tls):
    writer = FakeWriter(scene.log, tls=tls)
    row = [scene.subscriber(consumer_id=number, writer=writer) for number in range(3)]
    other = scene.subscriber()
    scene.tail.tell(1)
    assert [one.alone for one in row] == [1, 1, 1]
    scene.tail.tell(2, 1)
    late = scene.subscriber(consumer_id=3, writer=writer, permits=3)
    scene.tail.tell(1)
    before = writer.pieces
    scene.tail.tell(1)
    assert writer.pieces == before + 1
    assert [one.alone for one in (*row, other, late)] == [1, 1, 1, 1, 1]
    for one in (*row, late, other):
        one.flush_accounting()
        one.flush_accounting()
        assert one.next == scene.tail.latest_batch.following
    for one in (*row, other):
        assert (one.entries, one.messages, one.permits) == (5, 6, 994)
        assert one.bytes == len(scene.expected(one.consumer_id))
    assert (late.entries, late.permits) == (2, 1)
    assert len(writer.sent()) == sum(one.bytes for one in (*row, late))


def test_what_is_too_much_for_one_piece_goes_to_each_alone(scene, monkeypatch):
    first = scene.subscriber()
    second = scene.subscriber(consumer_id=1, writer=first.writer)
    scene.tail.tell(1)
    scene.tail.tell(1)
    assert (first.alone, second.alone) == (1, 1)
    monkeypatch.setattr(groups_module, "MAX_CONNECTION_BATCH_BYTES", 2 * len(scene.expected()))
    scene.tail.tell(1, 1, 1)
    assert (first.alone, second.alone) == (2, 2)
    scene.tail.tell(1)
    assert (first.alone, second.alone) == (2, 2)
    for one in (first, second):
        one.flush_accounting()
        assert (one.entries, one.bytes) == (6, len(scene.expected(one.consumer_id)))
    assert len(first.writer.sent()) == first.bytes + second.bytes


def test_after_a_part_of_what_is_new_the_rest_is_asked_for(scene):
    scene.subscriber()
    scene.tail.tell(1)
    scene.tail.tell(1, complete=False)
    assert scene.tail.asked_on == [Position(1, 2)]


def by_consumer(data):
    """The frames of each consumer, by its id."""
    found = {}
    for frame in FrameSplitter().receive_data(data):
        command, _ = decode_command(frame)
        whole = len(frame).to_bytes(4, "big") + frame
        found[command.message.consumer_id] = found.get(command.message.consumer_id, b"") + whole
    return found


STEPS = st.one_of(
    st.tuples(st.just("tell"), st.lists(st.integers(1, 3), min_size=1, max_size=3)),
    st.tuples(st.just("interrupt"), st.none()),
    st.tuples(st.sampled_from(["hold", "let"]), st.none()),
    st.tuples(st.just("marker"), st.none()),
    st.tuples(st.sampled_from(["part", "grant", "settle", "full", "new", "beside"]), st.integers(0, 3)),
)


def test_with_an_owner_that_is_asked_consumers_stay_together(scene):
    subscribers = [scene.subscriber(), scene.subscriber()]
    for _ in range(4):
        scene.owner.limit = Position(1, scene.tail.last.entry_id + 2)
        scene.tail.tell(1, 1)
    assert [one.alone for one in subscribers] == [1, 1]
    for one in subscribers:
        assert one.writer.sent() == scene.expected()


@given(st.lists(STEPS, max_size=25))
def test_whatever_happens_each_gets_a_gapless_run_and_all_sums_are_right(steps):
    with closing(Scene()) as scene:
        starts = []
        for kind, value in [("new", 0), ("new", 1), *steps, ("tell", [1])]:
            if kind == "tell":
                scene.tail.tell(*value)
            elif kind == "marker":
                scene.tail.tell(1, marker=True)
            elif kind == "interrupt":
                scene.tail.interrupt()
            elif kind == "hold":
                scene.owner.limit = scene.tail.last
            elif kind == "let":
                scene.owner.limit = None
            elif kind == "new":
                starts.append(len(scene.expected(value % 2)))
                scene.subscriber(consumer_id=value % 2, permits=5 + value)
            elif kind == "beside" and value < len(scene.subscribers):
                writer = scene.subscribers[value].writer
                starts.append(len(scene.expected(2 + len(scene.subscribers))))
                scene.subscriber(consumer_id=2 + len(scene.subscribers), permits=5 + value, writer=writer)
            elif kind == "beside":
                pass
            else:
                one = scene.subscribers[value % len(scene.subscribers)]
                if kind == "part":
                    one.leave_fanout()
                elif kind == "settle":
                    one.flush_accounting()
                elif kind == "full":
                    one.writer.write_remainder(b"", 0)
                else:
                    one.permits += 4
                    if one.member is not None:
                        one.member.add_permits(4)
            for one in scene.subscribers if scene.owner.limit is not None else ():
                before = one.next
                one.flush_accounting()
                assert one.next == before or scene.owner.allows(Position(1, one.next.entry_id - 1))
        received = {}
        for one, start in zip(scene.subscribers, starts, strict=True):
            one.flush_accounting()
            if one.writer not in received:
                received[one.writer] = by_consumer(one.writer.sent())
            got = received[one.writer].get(one.consumer_id, b"")
            assert scene.expected(one.consumer_id)[start : start + len(got)] == got
            assert one.bytes == len(got)
            assert one.permits >= 0
