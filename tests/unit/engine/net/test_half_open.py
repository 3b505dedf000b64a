"""Connections that are not let in yet: the oldest make room."""

from readonly_engine.net.half_open import HalfOpenConnections


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
