"""When the owner pushes, and how much."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.tail.budget import RETURN_S, STEADY_S, PushBudget, PushRate, SourceSchedule

RATE = PushRate(messages=100.0, burst=200, bytes=10_000.0)
MAX_BATCH = 50


@given(st.lists(st.tuples(st.floats(0, 0.5), st.integers(1, MAX_BATCH)), max_size=400))
def test_an_owner_delivers_no_more_than_the_rate_and_one_batch(steps):
    budget, now, delivered = PushBudget(RATE, 0.0), 0.0, 0
    permits = budget.begin(now)
    for pause, messages in steps:
        now += pause
        if permits <= 0:
            assert budget.exhausted
            budget.end()
            permits = budget.begin(now)
            continue
        permits -= messages
        delivered += messages
        permits += budget.on_delivered(messages, 1, now)
        assert delivered <= RATE.burst + RATE.messages * now + MAX_BATCH


def test_few_messages_never_exhaust_the_budget_and_take_few_flows():
    budget, flows = PushBudget(RATE, 0.0), 0
    assert budget.begin(0.0) == RATE.burst
    for number in range(10_000):
        flows += bool(budget.on_delivered(1, 10, number / (0.9 * RATE.messages)))
        assert not budget.exhausted
    assert flows <= 10_000 / (RATE.burst / 10)


def test_messages_above_the_rate_exhaust_it():
    budget = PushBudget(RATE, 0.0)
    budget.begin(0.0)
    number = 0
    while not budget.exhausted:
        number += 1
        budget.on_delivered(1, 10, number / (1.5 * RATE.messages))
    assert RATE.burst < number <= 3 * RATE.burst


def test_large_messages_exhaust_it_too():
    budget = PushBudget(RATE, 0.0)
    budget.begin(0.0)
    for _ in range(4):
        budget.on_delivered(1, 5_000, 0.0)
    assert not budget.exhausted
    budget.on_delivered(1, 5_000, 0.0)
    assert budget.exhausted
    budget.end()
    assert not budget.begin(0.1), "bytes are still in debt"
    assert budget.begin(1.0) == RATE.burst


def test_unused_permits_are_taken_back_when_a_subscription_ends():
    budget = PushBudget(RATE, 0.0)
    assert budget.begin(0.0) == RATE.burst
    budget.on_delivered(20, 1, 0.0)
    budget.end()
    assert budget.begin(0.0) == RATE.burst - 20


def test_a_clock_that_goes_back_gives_no_tokens():
    budget = PushBudget(RATE, 100.0)
    budget.begin(100.0)
    budget.on_delivered(RATE.burst, 1, 50.0)
    assert budget.exhausted
    assert not budget.on_delivered(1, 1, 100.0)


def test_the_time_at_bookies_doubles_while_the_source_changes_often():
    schedule, now, waits = SourceSchedule(RATE), 0.0, []
    for _ in range(8):
        schedule.pushed(now)
        now += STEADY_S / 2
        waits.append(schedule.exhausted(now))
    assert all(later in {2 * earlier, RETURN_S[1]} for earlier, later in pairwise(waits))
    assert waits[-1] == RETURN_S[1]
    schedule.pushed(now)
    assert schedule.exhausted(now + STEADY_S) == RETURN_S[0]


@pytest.mark.parametrize(("messages", "expected"), [(0, True), (499, True), (500, False), (10_000, False)])
def test_the_owner_pushes_again_below_half_the_rate(messages, expected):
    schedule = SourceSchedule(RATE)
    schedule.exhausted(100.0)
    assert schedule.may_push(messages, 110.0) is expected
    assert schedule.may_push(0, 115.0) is True
