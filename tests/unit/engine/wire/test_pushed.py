"""MESSAGEs of an owner, read in C and in Python: the same entries, or nothing for the usual way; and what splices write."""

import gc
import math
import socket
import weakref
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine import native
from readonly_engine.clock import lease_time
from readonly_engine.wire.commands import decode_command, encode_command, encode_message_frame
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.entry_view import EntryView, encode_views
from readonly_engine.wire.framing import FrameSplitter
from readonly_engine.wire.message_pb2 import MessageMetadata
from readonly_engine.wire.pulsar_pb2 import BaseCommand
from readonly_engine.wire.pushed import PurePushReader

IN_C = native.load("readonly_engine.wire._entries")
built = pytest.mark.skipif(IN_C is None, reason="a C compiler is optional; CI has one")
WAYS = [
    pytest.param(PurePushReader, id="Python"),
    pytest.param(None if IN_C is None else IN_C.PushReader, id="C", marks=built),
]
MESSAGE = encode_message_frame(7, 300, 5, -1, b"entry")
NAMES = {7: "seven", 300: "three hundred"}


class Received:
    """What a reader makes of bytes. A splice's client has no socket.

    Attributes:
        runs: names of handlers with their entries.
        spliced: frames and splice of a delivery; None without one.
        rest: the bytes that take the usual way.
    """

    def __init__(self, way, data, splice=None, *, partial=False):
        self.runs = []
        self.spliced = None
        self.rest = b""
        splitter = SimpleNamespace(partial=partial, missing=1 << 20)
        handlers = {number: splice if splice and number == 7 else self.named(name) for number, name in NAMES.items()}
        reader = way(self.on_rest, handlers, splitter)
        reader.splicing = SimpleNamespace(
            guard=SimpleNamespace(due=math.inf), latency=SimpleNamespace(due=False), deliver=self.deliver
        )
        reader.receive(data)
        self.end = len(data) - len(self.rest)

    def named(self, name):
        return lambda entries: self.runs.append((name, entries))

    def deliver(self, writes, splice):
        assert not self.runs
        self.spliced = (list(writes.values()), splice)

    def on_rest(self, data):
        assert data
        self.rest = data


def new_splice():
    """Return a splice, and what falls back from it."""
    back = []
    return IN_C.Splice(back.extend), back


class Client:
    """A client's connection."""

    def __init__(self, descriptor=-1, unsent=()):
        self.descriptor, self.unsent = descriptor, list(unsent)


def message(**fields):
    command = BaseCommand(type=BaseCommand.MESSAGE)
    command.message.consumer_id = 7
    where = command.message.message_id
    where.ledger_id, where.entry_id = 3, 4
    for name, value in fields.items():
        if name == "ack_set":
            command.message.ack_set.append(value)
        elif name in {"redelivery_count", "consumer_epoch"}:
            setattr(command.message, name, value)
        else:
            setattr(where, name, value)
    return command


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("partition", [-1, 0, 12])
def test_a_plain_message_is_an_entry(way, partition):
    received = Received(way, encode_message_frame(7, 300, 5, partition, b"entry"))
    assert (received.runs, received.rest) == ([("seven", [Entry(300, 5, 5, 0, b"entry")])], b"")


@pytest.mark.parametrize("way", WAYS)
def test_messages_of_one_consumer_are_one_run(way):
    frames = [
        encode_message_frame(consumer, 1, entry, -1, b"x" * entry) for entry, consumer in enumerate([7, 7, 300, 7])
    ]
    received = Received(way, b"".join(frames) + frames[0][:9])
    assert [(handler, [entry.entry_id for entry in entries]) for handler, entries in received.runs] == [
        ("seven", [0, 1]),
        ("three hundred", [2]),
        ("seven", [3]),
    ]
    assert received.rest == frames[0][:9]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0",
        b"\0" * 8,
        b"\xff" * 16,
        MESSAGE[:-1],
        MESSAGE[:4] + b"\xff\xff\xff\xff" + MESSAGE[8:],
        encode_message_frame(8, 300, 5, -1, b"of an unknown consumer"),
        encode_command(BaseCommand(type=BaseCommand.PING)),
        encode_command(message(redelivery_count=1), b"x"),
        encode_command(message(ack_set=5), b"x"),
        encode_command(message(consumer_epoch=0), b"x"),
        encode_command(message(batch_index=0), b"x"),
        encode_command(message(entry_id=-1), b"x"),
        encode_command(message(ledger_id=-(1 << 63)), b"x"),
    ],
)
def test_anything_else_goes_the_usual_way(way, data):
    received = Received(way, data)
    assert (received.runs, received.rest) == ([], data)
    received = Received(way, MESSAGE + data)
    assert (len(received.runs), received.rest) == (1, data)
    received = Received(way, MESSAGE + data, partial=True)
    assert (received.runs, received.rest) == ([], MESSAGE + data)


@built
@given(st.integers(0, len(MESSAGE) - 1), st.binary(min_size=1, max_size=60))
def test_damaged_frames_are_the_same_in_both_or_left_to_python(position, noise):
    framed = (4 + len(noise)).to_bytes(4, "big") + len(noise).to_bytes(4, "big") + noise
    for data in (MESSAGE[:position] + noise[:1] + MESSAGE[position + 1 :], framed, noise):
        in_c, in_python = Received(IN_C.PushReader, data), Received(PurePushReader, data)
        assert (in_c.runs, in_c.rest) in (([], data), (in_python.runs, in_python.rest))


PLAIN = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1).SerializeToString()
STORED = len(PLAIN).to_bytes(4, "big") + PLAIN + b"body"
PUSHED = encode_message_frame(7, 300, 5, -1, STORED)


@built
@given(st.integers(0, len(PUSHED) - 1), st.binary(max_size=1))
def test_a_splice_delivers_what_is_next_and_plain_and_nothing_else(position, noise):
    ledger = SimpleNamespace(last_readable=4)
    splice, back = new_splice()
    splice.start(Client(), ledger, 300, 4, 9, -1, -1, False, 1, len(STORED))
    data = PUSHED[:position] + noise + PUSHED[position + 1 :]
    received, usual = Received(IN_C.PushReader, data, splice), Received(PurePushReader, data)
    if received.rest != usual.rest:
        assert (received.spliced, received.runs, back, received.rest) == (None, [], [], data)  # left to Python
        return
    if received.spliced is None:
        assert (back, splice.take()) == ([one for _, run in usual.runs for one in run], None)
        assert ledger.last_readable == 4
        return
    ((_, (entry,)),) = usual.runs
    view = EntryView(entry)
    assert (entry.ledger_id, entry.entry_id, view.marker, view.txn, view.messages) == (300, 5, False, None, 1)
    frame = encode_views([view], 9, -1, -1)
    assert received.spliced == ([[frame]], splice)
    assert (received.runs, back) == ([], [])
    assert (splice.take(), splice.take()) == ((entry.payload, 1, 1, len(STORED), len(frame)), None)
    assert (ledger.last_readable, splice.entry_id) == (5, 5)


@built
@pytest.mark.parametrize(
    ("last", "messages", "size", "delivered"),
    [(4, 1, len(STORED), 1), (4, 0, 1 << 20, 0), (4, 9, len(STORED) - 1, 0), (3, 9, 1 << 20, 0), (5, 9, 1 << 20, 0)],
)
def test_a_splice_ends_at_its_limits_and_lets_nothing_overtake(last, messages, size, delivered):
    splice, back = new_splice()
    splice.start(Client(), SimpleNamespace(last_readable=last), 300, last, 9, -1, -1, False, messages, size)
    later = encode_message_frame(7, 300, last + 1 + delivered, -1, STORED)
    received = Received(IN_C.PushReader, PUSHED + later, splice)
    assert (received.spliced is not None) == bool(delivered)
    assert len(back) == 2 - delivered
    assert splice.running == (not back)
    splice.stop()
    assert Received(IN_C.PushReader, later, splice).spliced is None


def spliced_frames(client, count):
    """Let a splice deliver entries to a client; return their frames, and those that were left to Python."""
    splice, back = new_splice()
    splice.start(client, SimpleNamespace(last_readable=4), 300, 4, 9, -1, -1, False, count, 1 << 30)
    pushed = [encode_message_frame(7, 300, 5 + at, -1, STORED) for at in range(count)]
    received = Received(IN_C.PushReader, b"".join(pushed), splice)
    assert not back
    frames = [encode_views([EntryView(Entry(300, 5 + at, 5 + at, 0, STORED))], 9, -1, -1) for at in range(count)]
    return frames, [] if received.spliced is None else received.spliced[0]


@built
@pytest.mark.parametrize("count", [1, 2, 64, 65])
def test_a_socket_takes_the_frames_of_a_splice_at_once(count):
    near, far = socket.socketpair()
    with near, far:
        frames, left = spliced_frames(Client(near.fileno()), count)
        if count > 64:  # more than one system call takes
            assert left == [frames]
        else:
            assert left == []
            assert far.recv(1 << 20) == b"".join(frames)


@built
@pytest.mark.parametrize("client", [Client(), Client(1 << 20), object(), None])
def test_a_client_without_an_open_socket_gets_its_frames_from_python(client):
    frames, left = spliced_frames(client, 2)
    assert left == [frames]


@built
def test_no_frame_of_a_splice_overtakes_pending_ones():
    near, far = socket.socketpair()
    with near, far:
        frames, left = spliced_frames(Client(near.fileno(), [b"pending"]), 1)
        assert left == [frames]
        far.setblocking(False)
        with pytest.raises(BlockingIOError):
            far.recv(1)


@built
def test_what_a_full_socket_does_not_take_is_left_to_python():
    taken = []
    for count in range(1, 65, 7):
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as near:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            near.connect(server.getsockname())
            far, _ = server.accept()
            near.setblocking(False)
            sent, left = b"", []
            while not left:
                frames, left = spliced_frames(Client(near.fileno()), count)
                whole, rest = b"".join(frames), b"".join(left[0]) if left else b""
                assert whole.endswith(rest)
                sent += whole.removesuffix(rest)
            taken.append(len(whole) - len(rest))
            near.close()
            with far:
                assert b"".join(iter(lambda far=far: far.recv(1 << 20), b"")) == sent
    assert any(taken), "no socket has taken a part"


@built
def test_a_lease_that_may_have_ended_is_checked_before_the_delivery():
    checked = []
    reader = IN_C.PushReader(None, {7: lambda entries: checked.append("entries")}, SimpleNamespace(partial=False))
    guard = SimpleNamespace(due=lease_time() - 1, check_due=lambda: checked.append("lease"))
    reader.splicing = SimpleNamespace(guard=guard, latency=SimpleNamespace(due=True), deliver=None)
    reader.responsive = False
    reader.receive(MESSAGE)
    assert (checked, reader.responsive) == (["lease", "entries"], True)
    guard.due = lease_time() + 60
    reader.receive(MESSAGE)
    assert checked == ["lease", "entries", "entries"]


@built
def test_errors_of_what_c_calls_are_not_lost():
    def fail(*_):
        raise OSError("as told")

    partial = SimpleNamespace(partial=False)
    for reader in (
        IN_C.PushReader(None, {7: fail}, partial),
        IN_C.PushReader(fail, {}, partial),
        IN_C.PushReader(fail, {8: None}, partial),
    ):
        with pytest.raises(OSError, match="as told"):
            reader.receive(MESSAGE)
    with pytest.raises(AttributeError):
        IN_C.PushReader(None, {7: fail}, None).receive(MESSAGE)
    reader = IN_C.PushReader(None, {7: None}, partial)
    reader.splicing = object()
    with pytest.raises(AttributeError):
        reader.receive(MESSAGE)


@built
def test_an_error_behind_a_delivered_entry_loses_no_frame():
    class Ledger:
        def __setattr__(self, name, value):
            if value > 5:
                raise OSError("as told")

    splice, _ = new_splice()
    near, far = socket.socketpair()
    with near, far:
        splice.start(Client(near.fileno()), Ledger(), 300, 4, 9, -1, -1, False, 9, 1 << 20)
        with pytest.raises(OSError, match="as told"):
            Received(IN_C.PushReader, PUSHED + encode_message_frame(7, 300, 6, -1, STORED), splice)
        far.setblocking(False)
        assert far.recv(1 << 20) == encode_views([EntryView(Entry(300, 5, 5, 0, STORED))], 9, -1, -1)


@built
@pytest.mark.parametrize("objects", range(5))
def test_a_collection_of_garbage_may_stop_the_splice(objects):
    """The splice then has the last reference to the client, and the collection begins with each new object in turn."""
    splice, back = new_splice()
    client = Client()
    alive = weakref.ref(client)
    splice.start(client, SimpleNamespace(last_readable=4), 300, 4, 9, -1, -1, False, 9, 1 << 20)
    del client
    delivered, stop = [], lambda *_: splice.stop()
    reader = IN_C.PushReader(None, {7: splice}, SimpleNamespace(partial=False))
    reader.splicing = SimpleNamespace(
        guard=SimpleNamespace(due=math.inf),
        latency=SimpleNamespace(due=False),
        deliver=lambda writes, _: delivered.append([writer is alive() for writer in writes]),
    )
    threshold = gc.get_threshold()
    gc.disable()
    held = [[] for _ in range(200)], [{} for _ in range(200)]  # so that new ones are not those of an earlier time
    gc.callbacks.append(stop)
    try:
        gc.set_threshold(gc.get_count()[0] + objects)
        gc.enable()
        reader.receive(PUSHED)
    finally:
        gc.set_threshold(*threshold)
        gc.enable()
        gc.callbacks.remove(stop)
        del held
    assert (delivered, len(back)) in (([[True]], 0), ([], 1))


@pytest.mark.parametrize("way", WAYS)
@given(
    cuts=st.lists(st.integers(0, 2000), max_size=8),
    consumers=st.lists(st.sampled_from([7, 300, 8, None]), max_size=20),
    skipped=st.booleans(),
)
def test_frames_that_arrive_in_parts_cost_one_message_each(way, cuts, consumers, skipped):
    frames = [
        encode_command(BaseCommand(type=BaseCommand.PING))
        if consumer is None
        else encode_message_frame(consumer, 1, number, -1, b"x" * (17 * number))
        for number, consumer in enumerate(consumers)
    ]
    if skipped:
        frames.insert(len(frames) // 2, (500).to_bytes(4, "big") + bytes(500))
    stream, splitter = b"".join(frames), FrameSplitter(400)
    splitter.skip = True
    pushed, usual = [], []

    def handle(entries):
        pushed.extend(entry.entry_id for entry in entries)

    reader = way(lambda data: usual.append(splitter.receive_data(data)), {7: handle, 300: handle}, splitter)
    bounds = sorted({0, *(cut for cut in cuts if cut < len(stream)), len(stream)})
    for begin, end in pairwise(bounds):
        reader.receive(stream[begin:end])
    rest = [frame for frames in usual for frame in frames]
    messages = [decode_command(frame)[0].message for frame in rest if frame[5] == BaseCommand.MESSAGE]
    late = [one.message_id.entry_id for one in messages if one.consumer_id != 8]
    assert sorted(pushed + late) == [number for number, consumer in enumerate(consumers) if consumer in {7, 300}]
    assert (splitter.partial, len(splitter.skipped)) == (False, skipped)
    if not skipped:
        assert len(late) <= max(len(bounds) - 2, 0)


@built
def test_c_wants_bytes_and_a_dict():
    with pytest.raises(TypeError):
        IN_C.PushReader(None, {}, None).receive(bytearray(MESSAGE))
    with pytest.raises(TypeError):
        IN_C.PushReader(None, [], None)
