import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.dispatch.rate import RateLimit
from readonly_engine.config.limits import DispatchRate


@given(
    st.integers(1, 1000),
    st.lists(st.tuples(st.floats(0, 0.5), st.integers(1, 50), st.integers(1, 100)), max_size=60),
)
def test_no_more_than_a_burst_and_what_the_time_allows(rate, steps):
    limit = RateLimit(DispatchRate(messages=rate), 0.0)
    now, taken = 0.0, 0
    for passed, most, batch in steps:
        now += passed
        if limit.delay(now) == 0:
            assert taken <= rate * (1 + now) + 1e-6
            allowed = limit.allowance(most)
            assert 1 <= allowed <= most
            limit.consume(batch, 1)
            taken += batch


@given(st.integers(1, 1000), st.integers(0, 5000))
def test_after_the_delay_something_may_be_delivered(rate, taken):
    limit = RateLimit(DispatchRate(messages=rate), 10.0)
    limit.consume(taken, 0)
    delay = limit.delay(10.0)
    assert (delay == 0) == (taken <= rate - 1)
    assert limit.delay(10.0 + delay + 1e-6) == 0


def test_bytes_count_too_and_one_large_message_is_paid_for_afterwards():
    limit = RateLimit(DispatchRate(bytes=1000), 0.0)
    assert limit.delay(0.0) == 0
    assert limit.allowance(100) == 100
    limit.consume(1, 5000)
    assert limit.delay(0.0) == pytest.approx(4.001)
    assert limit.delay(4.5) == 0
