"""Consumers that get what is new together get what each would get alone."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker import seat as seat_module
from readonly_engine.broker.seat import NO_DESCRIPTOR
from readonly_engine.broker.together import Together
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
        self.told = Position(1, -1)
        self.asked_on = []
        self._listeners = []

    def await_notification(self, position):
        self.asked_on.append(position)
        return position > self.told

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
        self.told = positions[-1]
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
    guarded = False


class Link:
    """A connection over a real socket."""

    def __init__(self, log, *, tls=False):
        self._log = log
        self.tls = tls
        self.direct = {}
        self.pieces = 0
        self.ours, self.theirs = socket.socketpair()
        for one in (self.ours, self.theirs):
            one.setblocking(False)
        self.descriptor = NO_DESCRIPTOR if tls else self.ours.fileno()
        self.waiting = b""

    def end_turn(self):
        self._log.append("turn")

    def left_over(self, data, taken):
        self.descriptor = NO_DESCRIPTOR
        self.waiting += data[taken:]
        for follower in list(self.direct):
            follower.part()

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


class Follower:
    """What a subscription is to those it reads with: alone it is called by the topic, and joins after each burst."""

    def __init__(self, scene, *, consumer_id=0, permits=1000, link=None):
        self.scene = scene
        self.link = link or Link(scene.log)
        self.consumer_id = consumer_id
        self.permits = permits
        self.messages = self.entries = self.bytes = 0
        self.next = scene.tail.topic.chain.after(scene.tail.told)
        self.seat = None
        self.alone = 0
        scene.tail.listen(self.pump)

    @property
    def key(self):
        return self.consumer_id, PARTITION, NO_EPOCH

    def pump(self):
        self.part()
        newest = self.scene.tail.latest_batch
        if newest is None or newest.first != self.next or newest.messages > self.permits:
            return
        self.alone += 1
        chunk = newest.frames(*self.key)
        self.link.send(chunk)
        self._count(len(newest), newest.messages, len(chunk), newest.following)
        self.seat = self.scene.together.join(self, self.link, self.key, self.permits)
        if self.seat is not None:
            self.scene.tail.unlisten(self.pump)

    def settle(self):
        if self.seat is not None:
            self._count(*self.seat.settle())

    def part(self):
        if self.seat is not None:
            self.settle()
            self.seat.leave()
            self.seat = None
            self.scene.tail.listen(self.pump)

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
        self.together = Together(self.tail, self.owner)
        self.followers = []

    def follower(self, **options):
        self.followers.append(Follower(self, **options))
        return self.followers[-1]

    def expected(self, consumer_id=0):
        frames = []
        for entries in self.tail.topic.ledgers.values():
            frames += [entry.frame(consumer_id, PARTITION) for entry in entries]
        return b"".join(frames)

    def close(self):
        for follower in self.followers:
            follower.link.close()


@pytest.fixture
def scene():
    made = Scene()
    yield made
    made.close()


def test_after_a_burst_alone_the_next_ones_come_together(scene):
    first, second, other = scene.follower(), scene.follower(), scene.follower(consumer_id=3)
    scene.tail.tell(1)
    assert scene.tail.listening == 1
    scene.tail.tell(2, 1)
    scene.tail.tell(1)
    assert [one.alone for one in scene.followers] == [1, 1, 1]
    assert first.link.sent() == second.link.sent() == scene.expected()
    assert other.link.sent() == scene.expected(3)
    for one in scene.followers:
        one.settle()
        one.settle()
        assert (one.entries, one.messages, one.permits) == (4, 5, 995)
        assert one.bytes == len(scene.expected(one.consumer_id))
        assert one.next == Position(1, 4)


def test_what_waits_for_the_end_of_the_turn_goes_first(scene):
    scene.follower()
    scene.tail.tell(1)
    assert scene.log == []
    scene.tail.tell(1)
    assert scene.log == ["turn"]


def test_who_joins_late_gets_nothing_twice_and_misses_nothing(scene):
    early = scene.follower()
    scene.tail.tell(1)
    late = scene.follower()
    before = len(scene.expected())
    scene.tail.tell(1)
    scene.tail.tell(1)
    assert early.link.sent() == scene.expected()
    assert late.link.sent() == scene.expected()[before:]


def test_those_without_permits_look_alone_and_come_back(scene):
    poor, rich = scene.follower(permits=3), scene.follower()
    scene.tail.tell(1)
    scene.tail.tell(1)
    scene.tail.tell(2)
    assert (poor.seat, poor.permits, poor.next) == (None, 1, Position(1, 2))
    assert rich.seat is not None
    scene.tail.tell(1)
    assert rich.link.sent() == scene.expected()
    assert len(poor.link.sent()) < len(scene.expected())


def test_permits_that_come_meanwhile_count(scene):
    one = scene.follower(permits=2)
    scene.tail.tell(1)
    one.permits += 5
    one.seat.grant(5)
    for _ in range(6):
        scene.tail.tell(1)
    assert one.seat is not None
    one.settle()
    assert one.permits == 0
    scene.tail.tell(1)
    assert one.seat is None


def test_a_socket_that_is_full_gets_the_rest_by_its_connection_and_the_others_go_on(scene):
    slow, quick = scene.follower(permits=1 << 20), scene.follower(permits=1 << 20)
    scene.tail.tell(1)
    while slow.seat is not None:
        scene.tail.tell(*[1] * 50)
        quick.received = getattr(quick, "received", b"") + quick.link.sent()
    assert slow.link.waiting
    assert slow.next == quick.scene.tail.latest_batch.following
    assert slow.link.sent() == scene.expected() == quick.received
    scene.tail.tell(1)
    assert (slow.seat, quick.seat is None) == (None, False)


@pytest.mark.parametrize("special", ["marker", "something else", "owner"])
def test_whatever_needs_a_look_is_looked_at_alone(scene, special):
    followers = [scene.follower(), scene.follower()]
    scene.tail.tell(1)
    if special == "marker":
        scene.tail.tell(1, marker=True)
        assert [one.alone for one in followers] == [2, 2]
    elif special == "owner":
        scene.owner.guarded = True
        scene.tail.tell(1)
        assert [one.alone for one in followers] == [2, 2]
    else:
        scene.tail.interrupt()
        assert [one.seat for one in followers] == [None, None]
        scene.tail.tell(1)
        assert [one.alone for one in followers] == [2, 2]
    scene.tail.tell(1)
    for one in followers:
        assert one.link.sent() == scene.expected()


def test_nobody_joins_whose_bytes_must_go_through_the_transport(scene):
    one = scene.follower()
    one.link.descriptor = NO_DESCRIPTOR
    scene.tail.tell(1)
    assert one.seat is None
    assert scene.tail.listening == 1


@pytest.mark.parametrize("tls", [False, True])
def test_consumers_of_one_connection_get_what_is_new_in_one_piece(scene, tls):
    link = Link(scene.log, tls=tls)
    row = [scene.follower(consumer_id=number, link=link) for number in range(3)]
    other = scene.follower()
    scene.tail.tell(1)
    assert [one.alone for one in row] == [1, 1, 1]
    scene.tail.tell(2, 1)
    late = scene.follower(consumer_id=3, link=link, permits=3)
    scene.tail.tell(1)
    before = link.pieces
    scene.tail.tell(1)
    assert link.pieces == before + 1
    assert [one.alone for one in (*row, other, late)] == [1, 1, 1, 1, 1]
    for one in (*row, late, other):
        one.settle()
        one.settle()
        assert one.next == scene.tail.latest_batch.following
    for one in (*row, other):
        assert (one.entries, one.messages, one.permits) == (5, 6, 994)
        assert one.bytes == len(scene.expected(one.consumer_id))
    assert (late.entries, late.permits) == (2, 1)
    assert len(link.sent()) == sum(one.bytes for one in (*row, late))


def test_one_of_a_row_that_has_no_permits_looks_alone_and_the_others_go_on(scene):
    poor = scene.follower(permits=2)
    rich = scene.follower(consumer_id=1, link=poor.link)
    for _ in range(4):
        scene.tail.tell(1)
    assert (poor.seat, poor.entries, rich.seat is None) == (None, 2, False)
    poor.part()
    rich.part()
    for one in (poor, rich):
        scene.tail.unlisten(one.pump)
    assert scene.tail.listening == 0


def test_what_is_too_much_for_one_piece_goes_to_each_alone(scene, monkeypatch):
    first = scene.follower()
    second = scene.follower(consumer_id=1, link=first.link)
    scene.tail.tell(1)
    scene.tail.tell(1)
    assert (first.alone, second.alone) == (1, 1)
    monkeypatch.setattr(seat_module, "ROW_BYTES", 2 * len(scene.expected()))
    scene.tail.tell(1, 1, 1)
    assert (first.alone, second.alone) == (2, 2)
    scene.tail.tell(1)
    assert (first.alone, second.alone) == (2, 2)
    for one in (first, second):
        one.settle()
        assert (one.entries, one.bytes) == (6, len(scene.expected(one.consumer_id)))
    assert len(first.link.sent()) == first.bytes + second.bytes


def test_a_row_stays_where_the_socket_takes_no_more(scene):
    first = scene.follower()
    second = scene.follower(consumer_id=1, link=first.link)
    scene.tail.tell(1)
    first.link.left_over(b"", 0)
    scene.tail.tell(1)
    assert (first.alone, second.alone) == (1, 1)


def test_after_a_part_of_what_is_new_the_rest_is_asked_for(scene):
    scene.follower()
    scene.tail.tell(1)
    scene.tail.tell(1, complete=False)
    assert scene.tail.asked_on == [Position(1, 2)]


def test_with_the_last_one_the_topic_is_listened_to_no_more(scene):
    one = scene.follower()
    scene.tail.tell(1)
    one.part()
    scene.tail.unlisten(one.pump)
    assert scene.tail.listening == 0


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
    st.tuples(st.just("marker"), st.none()),
    st.tuples(st.sampled_from(["part", "grant", "settle", "full", "new", "beside"]), st.integers(0, 3)),
)


@given(st.lists(STEPS, max_size=25))
def test_whatever_happens_each_gets_a_gapless_run_and_all_sums_are_right(steps):
    scene = Scene()
    try:
        starts = []
        for kind, value in [("new", 0), ("new", 1), *steps, ("tell", [1])]:
            if kind == "tell":
                scene.tail.tell(*value)
            elif kind == "marker":
                scene.tail.tell(1, marker=True)
            elif kind == "interrupt":
                scene.tail.interrupt()
            elif kind == "new":
                starts.append(len(scene.expected(value % 2)))
                scene.follower(consumer_id=value % 2, permits=5 + value)
            elif kind == "beside" and value < len(scene.followers):
                link = scene.followers[value].link
                starts.append(len(scene.expected(2 + len(scene.followers))))
                scene.follower(consumer_id=2 + len(scene.followers), permits=5 + value, link=link)
            elif kind == "beside":
                pass
            else:
                one = scene.followers[value % len(scene.followers)]
                if kind == "part":
                    one.part()
                elif kind == "settle":
                    one.settle()
                elif kind == "full":
                    one.link.left_over(b"", 0)
                else:
                    one.permits += 4
                    if one.seat is not None:
                        one.seat.grant(4)
        received = {}
        for one, start in zip(scene.followers, starts, strict=True):
            one.settle()
            if one.link not in received:
                received[one.link] = by_consumer(one.link.sent())
            got = received[one.link].get(one.consumer_id, b"")
            assert scene.expected(one.consumer_id)[start : start + len(got)] == got
            assert one.bytes == len(got)
            assert one.permits >= 0
    finally:
        scene.close()
