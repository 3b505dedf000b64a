"""The clock of a replay: tables of what it has released, and of when it releases a publish time."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.topic.replay.clock import LOOP_PAUSE_MS, UNLIMITED, ReplayClock
from readonly_engine.topic.replay.shared import SharedClock

DAY = 86_400_000.0


def started(speed=1.0, end=None):
    """A replay of publish times from 1,000,000 on, which has begun a day later."""
    return ReplayClock.started(1_000_000, end, speed, 1_000_000 + DAY)


def looping(speed=1.0):
    return ReplayClock.started(1_000_000, 1_001_000, speed, 1_000_000 + DAY, loop=True)


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


@pytest.mark.parametrize(
    ("clock", "after_ms"),
    [
        (started(end=1_001_000), None),
        (looping(), 1000 + LOOP_PAUSE_MS),
        (looping(speed=0.5), 2000 + LOOP_PAUSE_MS),
        (looping().pause(1_000_000 + DAY + 700), None),
        (looping().seek(1_000_900, 1_000_000 + DAY + 5000), 5100 + LOOP_PAUSE_MS),
    ],
)
def test_when_a_loop_begins_again(clock, after_ms):
    assert clock.next_round_ms == (None if after_ms is None else 1_000_000 + DAY + after_ms)


def test_a_jump_begins_a_round_and_keeps_speed_and_pause():
    clock = started(10).pause(1_000_000 + DAY + 700).seek(1_000_100, 1_000_000 + DAY + 900)
    assert (clock.round, clock.round_ms, clock.speed, clock.paused) == (1, 1_000_100, 10, True)
    assert clock.released(1_000_000 + DAY + 5000) == 1_000_100
    assert clock.resume(1_000_000 + DAY + 5000).released(1_000_000 + DAY + 5010) == 1_000_200


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


def test_delayed_messages_are_due_by_the_clock_of_the_replay():
    begun, now = 1_000_000 + DAY, [1_000_000 + DAY + 50]
    shared = SharedClock(started(10, 1_001_000), lambda: now[0])
    assert (shared.delivery_ms(), shared.seconds_until(1_000_900)) == (1_000_500, 0.04)
    assert shared.seconds_until(1_001_001) is None, "it was delivered after the replay's end"
    shared.change(shared.clock.pause(now[0]))
    assert shared.seconds_until(1_000_900) is None
    unlimited = SharedClock(started(UNLIMITED), lambda: begun)
    assert unlimited.delivery_ms() == begun
    assert unlimited.seconds_until(int(begun) + 500) == 0.5, "a delay that lasts still"
