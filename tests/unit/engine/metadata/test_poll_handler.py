"""kazoo's waits by poll(2): the results of its own select, which is the oracle."""

import resource
import socket
import threading
from contextlib import suppress

import pytest
from kazoo.handlers.utils import selector_select
from readonly_engine.metadata.zookeeper_handler import PollHandler


def poll(*args):
    return PollHandler().select(*args)


@pytest.fixture
def pair():
    ends = socket.socketpair()
    yield ends
    for one in ends:
        one.close()


def nothing(_ours, _theirs):
    pass


def bytes_came(_ours, theirs):
    theirs.send(b"x")


def it_hung_up(_ours, theirs):
    theirs.close()


def its_buffer_is_full(ours, _theirs):
    ours.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            ours.send(bytes(1 << 16))


@pytest.mark.parametrize("state", [nothing, bytes_came, it_hung_up, its_buffer_is_full])
@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("timeout", [0, 0.001])
def test_a_socket_is_as_ready_as_kazoo_finds_it(pair, state, reads, writes, timeout):
    state(*pair)
    asked = ([pair[0]] * reads, [pair[0]] * writes, [], timeout)
    expected = tuple(list(found) for found in selector_select(*asked))
    if reads and writes:
        expected = ([pair[0]] * bool(expected[0]), [pair[0]] * (state is not its_buffer_is_full), [])
    assert poll(*asked) == expected


def test_a_wait_without_a_limit_ends_when_bytes_come(pair):
    threading.Timer(0.01, pair[1].send, [b"x"]).start()
    assert poll([pair[0]], [], []) == ([pair[0]], [], [])


def test_a_closed_socket_is_an_error_as_in_kazoo(pair):
    pair[0].close()
    for wait in (poll, selector_select):
        with pytest.raises((ValueError, TypeError), match="descriptor"):
            wait([pair[0]], [], [], 0)


def test_descriptors_beyond_those_of_select(pair):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1100:
        pytest.skip("the system allows too few descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1100), hard))
    many = [pair[0].dup() for _ in range(1050)]
    try:
        pair[1].send(b"x")
        assert poll(many[-1:], [], [], 0) == (many[-1:], [], [])
        assert many[-1].fileno() > 1024
    finally:
        for one in many:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
