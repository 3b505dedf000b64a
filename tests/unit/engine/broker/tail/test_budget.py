"""When the owner pushes, and how much."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.tail.budget import RETURN_S, STEADY_S, PushBudget, PushRate, SourceSchedule

RATE = PushRate(messages=100.0, burst=200, bytes=10_000.0)
MAX_BATCH = 50


@given(st.lists(st.tuples(st.floats(0, 0.5), st.integers(1, MAX_BATCH), st.booleans()), max_size=400))
def test_an_owner_delivers_no_more_than_the_rate_and_one_batch(steps):
    budget, now, delivered = PushBudget(RATE, 0.0), 0.0, 0
    for pause, messages, ends in steps:
        now += pause
        if budget.permits <= 0 and not budget.take(20 - budget.permits, now):
            continue
        delivered += messages
        budget.on_delivered(messages, 1)
        if ends:
            budget.end()
        assert delivered <= RATE.burst + RATE.messages * now + MAX_BATCH


@given(
    st.lists(
        st.tuples(st.floats(0, 0.5), st.integers(1, MAX_BATCH), st.integers(0, 5000), st.booleans(), st.booleans()),
        max_size=200,
    )
)
def test_what_an_owner_has_delivered_is_known_without_counting_it(steps):
    budget, now, messages, size = PushBudget(RATE, 0.0), 0.0, 0, 0
    assert budget.delivered == (0, 0)
    for pause, number, length, ends, slower in steps:
        now += pause
        if slower:
            budget.set_rate(PushRate(messages=20.0, burst=40, bytes=1000.0))
        if budget.permits <= 0 and not budget.take(20 - budget.permits, now):
            continue
        messages, size = messages + number, size + length
        budget.on_delivered(number, length)
        if ends:
            budget.end()
        assert budget.delivered == (messages, size)


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


@pytest.mark.parametrize(("messages", "expected"), [(0, True), (799, True), (800, False), (10_000, False)])
def test_the_owner_pushes_again_below_four_fifths_of_the_rate(messages, expected):
    schedule = SourceSchedule(RATE)
    schedule.exhausted(100.0)
    assert schedule.may_push(messages, 110.0) is expected
    assert schedule.may_push(0, 115.0) is True
