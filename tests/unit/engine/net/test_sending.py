"""Bytes into many sockets at once: in C and in Python the same."""

import socket
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine import native
from readonly_engine.net.sending import MAX_PIECES, join_rest, send_many_in_python, send_one, send_pieces

C = native.load("readonly_engine.net._send")
SENDERS = [
    pytest.param(send_many_in_python, id="python"),
    *([] if C is None else [pytest.param(C.send_many, id="c")]),
]

BUFFER = 4096
LARGE = 1 << 22
"""More than any socket takes at once."""


@pytest.fixture(params=SENDERS)
def send_many(request):
    return request.param


@pytest.fixture
def pairs():
    with ExitStack() as open_sockets:

        def make(count):
            made = []
            for _ in range(count):
                ours, theirs = socket.socketpair()
                for one in (ours, theirs):
                    open_sockets.enter_context(one)
                    one.setblocking(False)
                made.append((ours, theirs))
            return made

        yield make


def received(one):
    found = b""
    while True:
        try:
            piece = one.recv(1 << 20)
        except BlockingIOError:
            return found
        if not piece:
            return found
        found += piece


def test_who_does_not_take_all_of_it_is_named_with_what_was_taken(send_many, pairs):
    (slow, its_reader), (quick, other) = pairs(2)
    data = bytes(range(256)) * (LARGE // 256)
    ((index, taken),) = send_many([slow.fileno()], data)
    assert index == 0
    assert 0 < taken < LARGE
    assert send_many([quick.fileno(), slow.fileno()], b"more") == [(1, 0)]
    assert received(its_reader) == data[:taken]
    assert received(other) == b"more"


def test_a_socket_whose_other_end_is_gone_takes_nothing(send_many, pairs):
    (broken, its_reader), (whole, other) = pairs(2)
    its_reader.close()
    assert send_many([broken.fileno(), whole.fileno()], b"data") == [(0, 0)]
    assert received(other) == b"data"


def test_a_descriptor_of_nothing_takes_nothing(send_many, pairs):
    ((ours, _),) = pairs(1)
    descriptor = ours.fileno()
    ours.close()
    assert send_many([descriptor, -1], b"data") == [(0, 0), (1, 0)]


def test_nobody_and_nothing_are_no_trouble(send_many, pairs):
    ((ours, theirs),) = pairs(1)
    assert send_many([], b"data") == []
    assert send_many([ours.fileno()], b"") == []
    assert received(theirs) == b""


@pytest.mark.parametrize("wrong", [(["1"], b"data"), ([1.5], b"data"), ([None], b"data"), ([-1], "text")])
def test_what_is_no_descriptor_and_what_are_no_bytes_is_an_error(send_many, wrong):
    with pytest.raises(TypeError):
        send_many(*wrong)


def test_a_number_that_no_descriptor_has_is_an_error(send_many):
    for number in (1 << 40, -(1 << 40), 1 << 80):
        with pytest.raises(OverflowError):
            send_many([number], b"data")


@given(sizes=st.lists(st.integers(0, 3 * BUFFER), max_size=8), count=st.integers(1, 4))
def test_what_is_taken_and_what_is_left_is_all_of_it(sizes, count):
    for sender in (parameter.values[0] for parameter in SENDERS):
        pairs = [socket.socketpair() for _ in range(count)]
        try:
            for ours, theirs in pairs:
                ours.setblocking(False)
                theirs.setblocking(False)
                ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
            expected = [b""] * count
            for number, size in enumerate(sizes):
                data = bytes([number]) * size
                left = dict(sender([ours.fileno() for ours, _ in pairs], data))
                assert all(taken < size for taken in left.values())
                expected = [got + data[: left.get(index, size)] for index, got in enumerate(expected)]
            assert [received(theirs) for _, theirs in pairs] == expected
        finally:
            for ours, theirs in pairs:
                ours.close()
                theirs.close()


def test_one_socket_alone(pairs):
    ((ours, theirs),) = pairs(1)
    assert send_one(ours.fileno(), b"data") == 4
    theirs.close()
    assert send_one(ours.fileno(), b"data") == 0


def test_pieces_that_a_socket_takes_and_the_rest_are_all_bytes(pairs):
    ((ours, theirs),) = pairs(1)
    pieces = [bytes([number]) * (LARGE // 16) for number in range(16)]
    pieces.insert(1, b"")
    pieces[2] = memoryview(pieces[2])
    taken = send_pieces(ours.fileno(), pieces)
    assert 0 < taken < LARGE
    assert received(theirs) + join_rest(pieces, taken) == b"".join(pieces)
    assert join_rest(pieces, LARGE) == join_rest([], 0) == b""
    theirs.close()
    assert send_pieces(ours.fileno(), pieces) == 0


@pytest.mark.parametrize("count", [0, MAX_PIECES, MAX_PIECES + 1])
def test_more_pieces_than_the_kernel_takes_follow_later(pairs, count):
    ((ours, theirs),) = pairs(1)
    assert send_pieces(ours.fileno(), [b"x"] * count) == min(count, MAX_PIECES)
    assert received(theirs) == b"x" * min(count, MAX_PIECES)
