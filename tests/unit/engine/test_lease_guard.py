"""Leases against the clock, whatever timers do."""

import math

from readonly_engine.lease_guard import LeaseGuard

from tests.support.clock import Clock


def test_a_lease_that_ended_while_no_timer_ran_is_found_by_the_first_look():
    clock = Clock(100.0)
    guard = LeaseGuard(clock)
    ended = []

    def check(now):
        if now < 106.0:
            return 106.0
        ended.append(now)
        return math.inf

    guard.add(check)
    guard.check_all()
    clock.now = 105.9
    guard.check_due()
    assert not ended
    clock.now = 125.0  # the process was stopped for 20 s
    guard.check_due()
    assert ended == [125.0]
    guard.check_due()
    assert ended == [125.0], "what has ended is not looked at again and again"


def test_the_first_of_several_leases_counts():
    guard = LeaseGuard(Clock(100.0))
    for ends in (110.0, 103.0, math.inf):
        guard.add(lambda _now, ends=ends: ends)
    guard.check_all()
    assert guard.due == 103.0
