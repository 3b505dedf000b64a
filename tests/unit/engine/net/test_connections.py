"""Checks whether connections are alive, room for those that are not let in yet, and writes after a turn of the event loop."""

import asyncio
import logging

from readonly_engine.net.half_open import HalfOpenConnections
from readonly_engine.net.keep_alive import SLOTS, KeepAlive
from readonly_engine.net.write_coalescer import WriteCoalescer


class Connection:
    def __init__(self, keep_alive: KeepAlive) -> None:
        self.checks = 0
        self._keep_alive = keep_alive
        keep_alive.add(self)

    def check_alive(self) -> None:
        self.checks += 1


def test_each_connection_is_checked_once_a_round_and_a_new_one_after_a_whole_round():
    keep_alive = KeepAlive()
    connections = []
    for _ in range(SLOTS):
        connections.append(Connection(keep_alive))
        keep_alive.tick()
    assert [connection.checks for connection in connections] == [1] + [0] * (SLOTS - 1)
    for _ in range(SLOTS - 1):
        keep_alive.tick()
    assert [connection.checks for connection in connections] == [1] * SLOTS


def test_one_that_is_gone_is_not_checked_and_may_go_while_its_slot_is():
    keep_alive = KeepAlive()
    gone, leaving = Connection(keep_alive), Connection(keep_alive)
    keep_alive.discard(gone)
    leaving.check_alive = lambda: keep_alive.discard(leaving)
    for _ in range(2 * SLOTS):
        keep_alive.tick()
    assert gone.checks == 0
    assert not any(keep_alive._slots)


def test_the_oldest_makes_room_for_one_that_is_too_many():
    half_open = HalfOpenConnections(2, 100)
    assert [half_open.add(name) for name in "ab"] == [None, None]
    assert half_open.add("c") == "a"
    half_open.remove("a")
    half_open.remove("c")
    assert half_open.add("d") is None
    assert half_open.add("e") == "b"


def test_the_oldest_that_holds_something_makes_room_for_bytes():
    half_open = HalfOpenConnections(10, 100)
    for name in "abc":
        half_open.add(name)
    assert half_open.set_buffered("b", 60) is None
    assert half_open.set_buffered("c", 40) is None
    assert half_open.set_buffered("a", 0) is None
    assert half_open.set_buffered("c", 41) == "b"
    half_open.remove("b")
    assert half_open.buffered_bytes == 41
    half_open.remove("b")
    half_open.remove("c")
    assert (half_open.buffered_bytes, len(half_open)) == (0, 1)


def test_one_that_was_let_in_holds_nothing():
    half_open = HalfOpenConnections(10, 100)
    half_open.add("a")
    half_open.remove("a")
    assert half_open.set_buffered("a", 1000) is None
    assert half_open.buffered_bytes == 0


class Recorder:
    def __init__(self, *, broken: bool = False) -> None:
        self.flushed = 0
        self._broken = broken

    def flush(self) -> None:
        self.flushed += 1
        if self._broken:
            raise OSError("the socket is broken")


def test_all_are_flushed_once_the_turn_is_over_and_none_before(caplog):
    async def run():
        turn, all_of_them = WriteCoalescer(), [Recorder(), Recorder(broken=True), Recorder()]
        for sender in all_of_them:
            turn.add(sender)
        assert [sender.flushed for sender in all_of_them] == [0, 0, 0]
        await asyncio.sleep(0)
        assert [sender.flushed for sender in all_of_them] == [1, 1, 1]
        turn.add(all_of_them[0])
        await asyncio.sleep(0)
        assert all_of_them[0].flushed == 2

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert "a client cannot be sent to" in caplog.text
