"""How far an owner may delete: never a ledger that a cursor needs, stored or about to be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.cursors.guard import Guard, ledger_begin
from readonly_engine.topic.position import EARLIEST, Position

POSITIONS = st.builds(Position, st.integers(0, 5), st.integers(-1, 9)) | st.just(EARLIEST)


@pytest.mark.parametrize(
    ("mark_delete", "begin"),
    [
        (Position(7, 9), Position(7, -1)),
        (Position(7, -1), Position(7, -1)),
        (EARLIEST, EARLIEST),
    ],
)
def test_a_guard_is_at_the_begin_of_a_ledger(mark_delete: Position, begin: Position) -> None:
    assert ledger_begin(mark_delete) == begin


def test_without_cursors_there_is_no_guard() -> None:
    assert Guard().target(None) is None


def test_an_expected_cursor_holds_it_until_it_has_arrived() -> None:
    guard = Guard()
    guard.expect(Position(3, 5))
    guard.expect(Position(3, 5))
    assert guard.target(Position(9, 1)) == Position(3, -1)
    assert guard.target(None) == Position(3, -1)
    guard.arrived(Position(3, 5))
    assert guard.target(Position(9, 1)) == Position(3, -1)
    guard.arrived(Position(3, 5))
    assert guard.target(Position(9, 1)) == Position(9, -1)


def test_a_guard_that_is_further_than_it_was_put_was_moved_by_the_owner() -> None:
    guard = Guard()
    assert not guard.expired(Position(4, 7))  # it is not known where it was put
    guard.mark_delete = Position(4, -1)
    assert not guard.expired(Position(3, 99))  # the end of the ledger before
    assert not guard.expired(Position(4, -1))
    assert guard.expired(Position(4, 0))


def test_what_a_guard_retains_needs_no_move() -> None:
    guard = Guard()
    assert not guard.retains(Position(4, 7))
    guard.mark_delete = Position(4, -1)
    assert guard.retains(Position(4, -1))
    assert guard.retains(Position(5, 0))
    assert not guard.retains(Position(3, 99))
    assert not guard.retains(EARLIEST)


@given(slowest=POSITIONS | st.none(), expected=st.lists(POSITIONS))
def test_it_is_never_after_a_cursor_and_never_a_ledger_before_all(
    slowest: Position | None, expected: list[Position]
) -> None:
    guard = Guard()
    for position in expected:
        guard.expect(position)
    needed = [*expected, *([] if slowest is None else [slowest])]
    target = guard.target(slowest)
    assert (target is None) == (not needed)
    if target is not None:
        assert all(target <= position for position in needed)
        assert target.ledger_id == min(needed).ledger_id
    for position in expected:
        guard.arrived(position)
    assert not list(guard.expected)
