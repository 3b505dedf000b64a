"""The gate of a replay: entries leave it in the topic's order, when their publish times are released."""

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.topic.position import Position
from readonly_engine.topic.replay.gate import (
    MAX_AHEAD_BYTES,
    MAX_AHEAD_ENTRIES,
    MAX_SKEW_MS,
    AheadEntry,
    ReplayGate,
)

NOW_MS = 1_800_000_000_000


def ahead(*times, size=10):
    return [AheadEntry(Position(7, number), time, size) for number, time in enumerate(times)]


def test_a_time_that_no_stored_entry_can_have_holds_back_no_later_one():
    """A producer whose clock is ahead of all others: its message follows the one before it."""
    gate = ReplayGate()
    gate.add_entries(ahead(100, 10**15, 200), NOW_MS)
    assert gate.release(100) == (7, 1)
    assert gate.next_ms == 200
    first = ReplayGate()
    first.add_entries(ahead(NOW_MS + MAX_SKEW_MS, 2**63, NOW_MS), NOW_MS)
    assert (first.release(NOW_MS), first.next_ms) == (None, NOW_MS + MAX_SKEW_MS), "clocks differ a little"
    assert first.release(NOW_MS + MAX_SKEW_MS) == (7, 2)


def test_the_gate_asks_for_a_bounded_number_of_entries_and_bytes():
    gate = ReplayGate()
    assert gate.room == MAX_AHEAD_ENTRIES
    gate.add_entries(ahead(*range(MAX_AHEAD_ENTRIES // 2)), NOW_MS)
    assert gate.room == MAX_AHEAD_ENTRIES // 2
    gate.add_entries(ahead(MAX_AHEAD_ENTRIES), NOW_MS)
    assert gate.room == 0
    large = ReplayGate()
    large.add_entries(ahead(1, size=MAX_AHEAD_BYTES // 2), NOW_MS)
    assert large.room == MAX_AHEAD_ENTRIES - 1
    large.add_entries(ahead(2, size=1), NOW_MS)
    assert large.room == 0
    large.release(2)
    assert large.room == MAX_AHEAD_ENTRIES


@given(st.lists(st.integers(0, 50), max_size=30), st.lists(st.integers(0, 60), max_size=10))
def test_each_entry_is_released_with_the_largest_time_up_to_it(times, clock):
    gate, released = ReplayGate(), -1
    gate.add_entries(ahead(*times), NOW_MS)
    for now in accumulate(clock, max):
        last = gate.release(now)
        released = released if last is None else last.entry_id
        due = [number for number, time in enumerate(accumulate(times, max)) if time <= now]
        assert released == max(due, default=-1)
        assert len(gate) == len(times) - released - 1
