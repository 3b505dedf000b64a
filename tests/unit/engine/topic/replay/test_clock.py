"""The clock of a replay: tables of what it has released, and of when it releases a publish time."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.topic.replay.clock import UNLIMITED, ReplayClock

DAY = 86_400_000.0


def started(speed=1.0, end=None):
    """A replay of publish times from 1,000,000 on, which has begun a day later."""
    return ReplayClock.started(1_000_000, end, speed, 1_000_000 + DAY)


@pytest.mark.parametrize(
    ("clock", "after_ms", "released"),
    [
        (started(), 0, 1_000_000),
        (started(), 2500, 1_002_500),
        (started(), -50, 1_000_000),  # the machine's clock was set back
        (started(10), 2500, 1_025_000),
        (started(0.5), 2500, 1_001_250),
        (started(end=1_001_000), 2500, 1_001_000),
        (started(UNLIMITED), 0, math.inf),
        (started(UNLIMITED, 1_001_000), 0, 1_001_000),
        (started().pause(1_000_000 + DAY + 700), 2500, 1_000_700),
        (started(5, 1_001_000).pause(1_000_000 + DAY + 700), 2500, 1_001_000),
        (started().pause(1_000_000 + DAY + 700).pause(1_000_000 + DAY + 900), 2500, 1_000_700),
        (started().pause(1_000_000 + DAY + 700).resume(1_000_000 + DAY + 1700), 2500, 1_001_500),
        (started().resume(1_000_000 + DAY + 1700), 2500, 1_002_500),
        (started().with_speed(10, 1_000_000 + DAY + 1000), 2500, 1_016_000),
        (started(UNLIMITED).with_speed(1, 1_000_000 + DAY + 1000), 2500, 1_000_000 + DAY + 2500),
        (started(UNLIMITED, 1_001_000).pause(1_000_000 + DAY + 1000), 2500, 1_001_000),
    ],
)
def test_what_the_clock_has_released(clock, after_ms, released):
    assert clock.released(1_000_000 + DAY + after_ms) == released


@pytest.mark.parametrize(
    ("clock", "publish_ms", "after_ms"),
    [
        (started(), 1_000_000, 0),
        (started(), 999_000, 0),
        (started(), 1_002_500, 2500),
        (started(10), 1_025_000, 2500),
        (started(end=1_001_000), 1_001_000, 1000),
        (started(end=1_001_000), 1_001_001, None),
        (started(UNLIMITED), 1_900_000, 0),
        (started(UNLIMITED, 1_001_000), 1_001_001, None),
        (started().pause(1_000_000 + DAY + 700), 1_000_701, None),
        (started().pause(1_000_000 + DAY + 700), 1_000_700, 700),
    ],
)
def test_when_the_clock_releases_a_publish_time(clock, publish_ms, after_ms):
    found = clock.next_release(publish_ms)
    assert found == (None if after_ms is None else 1_000_000 + DAY + after_ms)


def test_a_replay_has_ended_when_its_last_publish_time_is_released():
    clock = started(end=1_001_000)
    begun = 1_000_000 + DAY
    assert [clock.ended(begun + after) for after in (0, 999, 1000, 5000)] == [False, False, True, True]
    assert not started().ended(begun + DAY)
    assert started(UNLIMITED, 1_001_000).ended(begun)


CHANGES = st.lists(
    st.tuples(st.integers(0, 5000), st.sampled_from(["pause", "resume"]) | st.floats(0.01, 1000) | st.just(UNLIMITED)),
    max_size=12,
)


@given(CHANGES, st.integers(0, 100_000))
def test_the_clock_never_steps_back_and_keeps_what_it_promises(changes, later_ms):
    clock, now, reached = started(), 1_000_000 + DAY, 1_000_000.0
    for after_ms, change in changes:
        now += after_ms
        assert clock.position(now) >= reached - 1e-3
        reached = clock.position(now)
        if isinstance(change, float):
            clock = clock.with_speed(change, now)
        else:
            clock = clock.pause(now) if change == "pause" else clock.resume(now)
        jumps = clock.speed == UNLIMITED and not clock.paused
        assert clock.position(now) == pytest.approx(now if jumps else reached)
        reached = clock.position(now)
    due = clock.next_release(reached + later_ms)
    if due is not None:
        assert clock.released(max(due, now)) >= reached + later_ms - 1e-3
