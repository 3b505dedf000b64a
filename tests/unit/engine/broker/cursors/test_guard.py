"""How far an owner may delete: never a ledger that a cursor needs, stored or about to be."""

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


def test_a_late_move_of_the_pool_is_no_expiry_as_often_as_it_may_be_late() -> None:
    assert not Guard().take_late(Position(1, 0))
    restored = Guard(Position(4, 7))
    assert not restored.take_late(Position(4, 8)), "no former holder can have moved it there"
    assert [restored.take_late(Position(4, 7)) for _ in range(3)] == [True, True, False]
    restored.mark_delete = Position(4, -1)
    restored.unanswered(Position(5, -1))
    restored.unanswered(Position(3, -1))
    assert restored.mark_delete is None, "where it is, is not known"
    assert [restored.take_late(Position(5, -1)) for _ in range(5)] == [True] * 4 + [False]


def test_what_a_guard_retains_needs_no_move() -> None:
    guard = Guard()
    assert not guard.retains(Position(4, 7))
    guard.mark_delete = Position(4, 3)
    assert guard.retains(Position(4, 3))
    assert guard.retains(Position(5, 0))
    assert not guard.retains(Position(4, 2))
    assert not guard.retains(Position(3, 99))
    assert not guard.retains(EARLIEST)


@pytest.mark.parametrize(
    ("present", "slowest", "stays", "follows", "lag"),
    [
        (None, Position(4, 7), Position(4, -1), Position(4, -1), 0),
        (Position(3, 9), Position(4, 7), Position(4, -1), Position(4, -1), 0),
        (Position(4, -1), Position(4, 7), Position(4, -1), Position(4, 7), 8),
        (Position(4, 5), Position(4, 7), Position(4, 5), Position(4, 7), 2),
        (Position(4, 7), Position(4, 7), Position(4, 7), Position(4, 7), 0),
        (Position(4, 8), Position(4, 7), Position(4, -1), Position(4, -1), 0),
        (Position(5, -1), Position(4, 7), Position(4, -1), Position(4, -1), 0),
        (EARLIEST, EARLIEST, EARLIEST, EARLIEST, 0),
    ],
)
def test_it_follows_inside_of_a_ledger_where_it_has_to(
    present: Position | None, slowest: Position, stays: Position, follows: Position, lag: int
) -> None:
    guard = Guard()
    guard.mark_delete = present
    assert (guard.target(slowest), guard.target(slowest, follow=True), guard.lag(slowest)) == (stays, follows, lag)


@given(slowest=POSITIONS | st.none(), expected=st.lists(POSITIONS), present=POSITIONS | st.none(), follow=st.booleans())
def test_it_is_never_after_a_cursor_and_never_a_ledger_before_all(
    slowest: Position | None, expected: list[Position], present: Position | None, follow: bool
) -> None:
    guard = Guard()
    guard.mark_delete = present
    for position in expected:
        guard.expect(position)
    needed = [*expected, *([] if slowest is None else [slowest])]
    target = guard.target(slowest, follow=follow)
    assert (target is None) == (not needed)
    if target is not None:
        assert all(target <= position for position in needed)
        assert target.ledger_id == min(needed).ledger_id
    for position in expected:
        guard.arrived(position)
    assert not list(guard.expected)
