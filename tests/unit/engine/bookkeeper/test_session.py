"""BookieSession as a state machine. The replies are a real bookie's; only their transaction ids are replaced."""

from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.bookkeeper.session import BookieSession
from readonly_engine.wire import bookie
from readonly_engine.wire.bookkeeper_pb2 import Response


def test_requests_are_numbered_and_are_the_codecs_bytes():
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
