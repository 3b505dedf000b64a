"""Bounds of status pages: how much of the broker's time they take, and what is kept for rates."""

from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.http.status.quota import BURST_S, SHARE, PageQuota
from readonly_engine.http.status.rates import MAX_AGE_S, MAX_KEPT, RecentRates
from readonly_engine.http.status.slices import STEPS, Slices


@given(st.lists(st.tuples(st.floats(0, 2), st.floats(0, 0.5)), max_size=300))
def test_pages_take_no_more_than_their_share_of_time(steps):
    quota, now, spent = PageQuota(), 0.0, 0.0
    for pause, cost in steps:
        now += pause
        if not quota.enter(now):
            quota.leave(cost)
            spent += cost
        assert spent <= BURST_S + SHARE * now + 0.5 + 1e-6, "the burst, the share, and the page that exceeded them"


def test_after_a_page_that_took_long_the_next_one_is_told_how_long_to_wait():
    quota = PageQuota()
    assert quota.enter(0.0) == 0.0
    quota.leave(3.0)
    assert round(quota.enter(0.0), 6) == 20.0
    assert quota.enter(19.0) > 0
    assert quota.enter(20.1) == 0.0


def test_a_clock_that_goes_back_gives_no_time():
    quota = PageQuota()
    quota.enter(100.0)
    quota.leave(2.0)
    assert quota.enter(50.0) > 0


def test_many_viewers_do_not_shorten_the_interval_of_a_rate():
    rates = RecentRates()
    assert rates.of("a", 0, 0, 0.0) is None
    assert rates.of("a", 50, 500, 0.5) is None
    assert rates.of("a", 100, 1000, 2.0) == (50.0, 500.0)
    assert rates.of("a", 900, 9000, 2.1) == (50.0, 500.0)


def test_counters_that_begin_again_have_no_negative_rate():
    rates = RecentRates()
    rates.of("a", 100, 100, 0.0)
    assert rates.of("a", 5, 5, 2.0) == (0.0, 0.0)


def test_an_old_sample_gives_no_rate():
    rates = RecentRates()
    rates.of("a", 0, 0, 0.0)
    assert rates.of("a", 100, 100, MAX_AGE_S + 1) is None


def test_few_samples_are_kept():
    rates = RecentRates()
    for number in range(3 * MAX_KEPT):
        rates.of(number, 0, 0, 0.0)
    assert len(rates) == MAX_KEPT


async def test_the_time_of_other_work_is_not_counted():
    times = iter([0.0, 1.0, 50.0, 52.0])
    slices = Slices(lambda: next(times))
    assert not slices.add(STEPS - 1)
    assert slices.add()
    await slices.pause()
    assert slices.spent_s == 3.0
    assert slices.steps == STEPS
