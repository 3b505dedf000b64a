"""Connections that are not let in yet: the oldest make room."""

from __future__ import annotations

from readonly_engine.broker.half_open import HalfOpen


def test_the_oldest_makes_room_for_one_that_is_too_many():
    half_open = HalfOpen(2, 100)
    assert [half_open.came(name) for name in "ab"] == [None, None]
    assert half_open.came("c") == "a"
    half_open.left("a")
    half_open.left("c")
    assert half_open.came("d") is None
    assert half_open.came("e") == "b"


def test_the_oldest_that_holds_something_makes_room_for_bytes():
    half_open = HalfOpen(10, 100)
    for name in "abc":
        half_open.came(name)
    assert half_open.holds("b", 60) is None
    assert half_open.holds("c", 40) is None
    assert half_open.holds("a", 0) is None
    assert half_open.holds("c", 41) == "b"
    half_open.left("b")
    assert half_open.held_bytes == 41
    half_open.left("b")
    half_open.left("c")
    assert (half_open.held_bytes, len(half_open)) == (0, 1)


def test_one_that_was_let_in_holds_nothing():
    half_open = HalfOpen(10, 100)
    half_open.came("a")
    half_open.left("a")
    assert half_open.holds("a", 1000) is None
    assert half_open.held_bytes == 0
