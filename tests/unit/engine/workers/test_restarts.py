"""When a worker is started again."""

import pytest
from readonly_engine.workers.restarts import BACKOFF_S, STABLE_S, Restarts


@pytest.mark.parametrize("status", [1, 2])
def test_one_that_cannot_start_ends_all(status):
    restarts = Restarts()
    restarts.started(0.0)
    assert restarts.ended(status, 1.0) is None


@pytest.mark.parametrize("status", [1, 2, 0, -9, 137])
def test_one_that_has_served_is_started_again_whatever_it_ended_with(status):
    restarts = Restarts(ready=True)
    restarts.started(0.0)
    assert restarts.ended(status, 1.0) == BACKOFF_S[0]


def test_one_that_was_killed_before_it_served_is_started_again():
    restarts = Restarts()
    restarts.started(0.0)
    assert restarts.ended(-9, 1.0) == BACKOFF_S[0]


def test_pauses_grow_up_to_a_limit_and_begin_anew_after_a_steady_time():
    restarts = Restarts(ready=True)
    now, pauses = 0.0, []
    for _ in range(8):
        restarts.started(now)
        now += 1.0
        pauses.append(restarts.ended(-9, now))
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert restarts.count == 8
    restarts.started(now)
    assert restarts.ended(-9, now + STABLE_S) == BACKOFF_S[0]
