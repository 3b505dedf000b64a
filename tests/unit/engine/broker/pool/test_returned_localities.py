"""Localities that have members again."""

from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.pool.returned_localities import MAX_ABSENT, STABLE_S, Period, ReturnedLocalities


def test_consumers_of_the_absence_look_up_again_once_the_locality_is_stable():
    returned = ReturnedLocalities()
    assert returned.update({"/a", "/b"}, 100.0) is None
    assert returned.update({"/a", "/b"}, 101.0) is None
    assert returned.update({"/a"}, 102.0) is None
    assert returned.update({"/a"}, 160.0) is None
    assert returned.update({"/a", "/b"}, 161.0) is None
    assert returned.update({"/a", "/b"}, 161.0 + STABLE_S - 0.1) is None
    # Its member may have left right after the update at 101.
    assert returned.update({"/a", "/b"}, 161.0 + STABLE_S) == Period(101.0, 161.0)
    assert returned.update({"/a", "/b"}, 300.0) is None, "once"


def test_a_locality_not_seen_before_may_have_been_absent_since_the_start():
    returned = ReturnedLocalities()
    returned.update({"/a"}, 50.0)
    returned.update({"/a", "/b"}, 80.0)
    assert returned.update({"/a", "/b"}, 80.0 + STABLE_S) == Period(50.0, 80.0)


def test_absent_localities_are_bounded():
    returned = ReturnedLocalities()
    returned.update(set(), 0.0)
    for number in range(MAX_ABSENT + 5):
        returned.update({f"/z{number}"}, 1.0 + number)
    returned.update(set(), 500.0)
    assert len(returned._absent) == MAX_ABSENT


@given(st.lists(st.sets(st.sampled_from(["", "/a", "/b", "/c"])), max_size=60))
def test_a_period_is_in_the_past_and_ends_when_it_is_stable(steps):
    returned, now = ReturnedLocalities(), 0.0
    for step in steps:
        now += 4.0
        period = returned.update(step, now)
        if period is not None:
            assert 0 <= period.since <= period.until <= now - STABLE_S
            assert returned.update(step, now) is None
