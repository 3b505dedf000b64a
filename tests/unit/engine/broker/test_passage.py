from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.passage import FIRST_WINDOW, MOST_AT_ONCE, Passage
from readonly_engine.topic.position import Position


def positions(*entries):
    return [Position(1, entry) for entry in entries]


def test_the_first_permits_are_few():
    passage = Passage(1 << 20, remember=True)
    passage.asked(1000)
    assert passage.grant() == FIRST_WINDOW
    assert passage.grant() == 0


def test_no_more_than_the_client_asked_for():
    passage = Passage(1 << 20, remember=True)
    passage.asked(3)
    assert passage.grant() == 3
    assert passage.grant() == 0


@given(st.integers(1, 5 << 20), st.integers(1, 100), st.integers(1, 3000))
def test_what_is_on_its_way_fits_the_buffer(size, batch, asked):
    """All that the client asked for comes in the end; never more than the buffer at once, give or take one window's guess."""
    passage = Passage(1 << 20, remember=False)
    passage.asked(asked)
    on_the_way, got = passage.grant(), 0
    while on_the_way > 0:
        passage.came(Position(1, got), batch, size)
        got += batch
        on_the_way -= batch
        granted = passage.grant()
        on_the_way += granted
        window = max(1, (1 << 20) * batch // size)
        assert on_the_way <= max(FIRST_WINDOW, min(window, MOST_AT_ONCE))
    assert got >= asked


def test_acked_is_not_pending():
    passage = Passage(1 << 20, remember=True)
    for position in positions(0, 1, 2, 3):
        assert passage.came(position, 1, 100)
    passage.acked(positions(1), cumulative=False)
    assert passage.pending == set(positions(0, 2, 3))
    passage.acked(positions(2), cumulative=True)
    assert passage.pending == set(positions(3))
    passage.returned(positions(3))
    assert not passage.pending


def test_after_the_end_nothing_comes_and_nothing_is_asked_for():
    passage = Passage(1 << 20, remember=True)
    passage.asked(100)
    passage.grant()
    passage.end()
    assert not passage.came(Position(1, 0), 1, 100)
    assert not passage.pending
    assert passage.grant() == 0
