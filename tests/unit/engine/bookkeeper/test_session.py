"""BatchSession and BookieSession as state machines: requests out, replies in, in pieces of any size, in any order, or late."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.bookkeeper import session_v2
from readonly_engine.bookkeeper.session import BookieSession
from readonly_engine.bookkeeper.session_v2 import BatchSession
from readonly_engine.wire import bookie
from readonly_engine.wire.bookie_v2 import encode_batch_read
from readonly_engine.wire.bookkeeper_pb2 import ENOENTRY, Response
from readonly_engine.wire.errors import FrameTooLargeError, MalformedFrameError
from readonly_engine.wire.framing import STORED_FRAME_BYTES


def framed(frame):
    return len(frame).to_bytes(4, "big") + frame


def reply(request_id, body=b"", code=0):
    return framed(struct.pack(">iiqqq", 0x02070000, code, 12, 0, request_id) + body)


def feed(session, data, most=1 << 30):
    """Deliver bytes as a socket would: as much at a time as fits the session's buffer, and `most`."""
    found = []
    while data:
        room = session.buffer()
        assert len(room) > 0
        piece = data[: min(len(room), most)]
        room[: len(piece)] = piece
        found += [(header, bytes(frame)) for header, frame in session.received(len(piece))]
        data = data[len(piece) :]
    return found


def ask(session, deadline=9.0):
    return session.batch_read(12, 0, 100, 1 << 20, deadline)


def test_requests_are_numbered_and_are_the_codecs_bytes():
    session = BatchSession()
    assert ask(session) == (1, encode_batch_read(1, 12, 0, 100, 1 << 20))
    assert ask(session) == (2, encode_batch_read(2, 12, 0, 100, 1 << 20))
    assert session.next_timer() == 9.0


def test_replies_are_matched_in_whatever_order_they_come():
    session = BatchSession()
    ask(session)
    ask(session)
    assert not session.answered
    found = feed(session, reply(2, b"two") + reply(1, code=2))
    assert [(header.request_id, header.status) for header, _ in found] == [(2, 0), (1, ENOENTRY)]
    assert found[0][1].endswith(b"two")
    assert session.next_timer() is None
    assert session.answered


def test_a_real_reply_one_byte_at_a_time(golden):
    session = BatchSession()
    for _ in range(61):
        ask(session)
    frame = golden("bookie_batch_all")
    assert feed(session, framed(frame) + framed(frame)[:7], most=1) == [((61, 0, 12, 0), frame)]


def test_a_huge_reply_does_not_leave_a_huge_buffer():
    session = BatchSession()
    ask(session)
    feed(session, reply(1, bytes(session_v2.KEPT_BUFFER_BYTES + 1)))
    assert len(session.buffer()) == session_v2.IDLE_BUFFER_BYTES
    assert session._buffer.nbytes == session_v2.IDLE_BUFFER_BYTES


@given(
    st.lists(st.integers(0, 3 * session_v2.IDLE_BUFFER_BYTES), min_size=1, max_size=6),
    st.sampled_from([1 << 10, 1 << 14, 1 << 30]),
)
def test_replies_can_stay_where_they_are(sizes, most):
    session = BatchSession()
    bodies = [bytes([65 + i]) * size for i, size in enumerate(sizes)]
    data = b"".join(reply(ask(session)[0], body) for body in bodies)
    kept = []
    while data:
        room = session.buffer()
        piece = data[: min(len(room), most)]
        room[: len(piece)] = piece
        replies = session.received(len(piece))
        kept += [frame for _, frame in replies]
        if replies:
            session.leave(bytearray(session_v2.IDLE_BUFFER_BYTES))
        data = data[len(piece) :]
    assert [bytes(frame[32:]) for frame in kept] == bodies


def test_late_replies_are_dropped_and_the_next_still_match():
    session = BatchSession()
    ask(session)
    late, _ = ask(session, 5.0)
    assert session.next_timer() == 5.0
    assert session.on_timer(4.9) == []
    assert session.on_timer(5.0) == [late]
    waiting, _ = ask(session)
    assert [header.request_id for header, _ in feed(session, reply(late) + reply(waiting))] == [waiting]


def test_a_frame_above_the_limit_and_a_negative_one_end_the_session():
    for session, limit in ((BatchSession(), STORED_FRAME_BYTES), (BatchSession(1000), 1000)):
        with pytest.raises(FrameTooLargeError, match=f"{limit + 1} bytes was announced; the limit is {limit}"):
            feed(session, (limit + 1).to_bytes(4, "big"))
    with pytest.raises(MalformedFrameError):
        feed(BatchSession(), b"\xff\xff\xff\xff")


def test_the_buffer_grows_as_a_large_reply_arrives_and_not_as_it_is_announced():
    session = BatchSession()
    ask(session)
    body = bytes(20 << 20)
    data = reply(1, body)
    arrived, largest = 0, 0
    while arrived < len(data):
        room = session.buffer()
        largest = max(largest, session._buffer.nbytes)
        assert session._buffer.nbytes <= max(session_v2.AT_ONCE_BYTES, 2 * max(arrived, 1))
        count = min(len(room), len(data) - arrived)
        room[:count] = data[arrived : arrived + count]
        arrived += count
        found = session.received(count)
    assert [bytes(frame[32:]) for _, frame in found] == [body]
    assert largest >= len(data)


def test_requests_for_single_entries_are_numbered_and_are_the_codecs_bytes():
    session = BookieSession()
    assert session.read_entry(47, 0, 9.0) == (1, bookie.encode_read(1, 47, 0))
    assert session.long_poll(47, 2, 1000, 9.0) == (2, bookie.encode_long_poll(2, 47, 2, 1000))
    assert session.read_lac(47, 9.0) == (3, bookie.encode_read_lac(3, 47))
    assert session.next_timer() == 9.0


@given(st.lists(st.sampled_from(["ask", "answer", "answer again", "expire"]), max_size=30), st.data())
def test_every_request_ends_exactly_once(steps, data):
    """In any order of replies, late replies and deadlines, each request is either answered or expired."""
    session, now = BookieSession(), 0.0
    asked, ended, waiting = [], [], {}
    for step in steps:
        if step == "ask":
            deadline = now + data.draw(st.integers(1, 3))
            asked.append(session.read_entry(1, 0, deadline)[0])
            waiting[asked[-1]] = deadline
        elif step == "expire":
            now += 1
            gone = session.on_timer(now)
            assert sorted(gone) == sorted(request for request, deadline in waiting.items() if deadline <= now)
            ended += gone
            for request in gone:
                del waiting[request]
        elif asked:
            request = data.draw(st.sampled_from(asked))
            frame = Response(status=403)
            frame.header.txn_id = request
            encoded = frame.SerializeToString()
            found = session.receive_data(len(encoded).to_bytes(4, "big") + encoded)
            assert [number for number, _ in found] == ([request] if request in waiting else [])
            waiting.pop(request, None)
            ended += [number for number, _ in found]
    assert session.next_timer() == min(waiting.values(), default=None)
    assert sorted(ended + session.on_timer(1e9)) == asked
