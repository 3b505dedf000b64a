"""The choice of replicas, by its properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.bookkeeper import replicas
from readonly_engine.bookkeeper.replicas import ReplicaOrder

BOOKIES = ("a", "b", "c")


def choice(locality="", random=lambda: 0.5):
    return ReplicaOrder(locality, random)


EVENTS = st.lists(
    st.tuples(st.sampled_from(["answered", "failed", "busy", "later"]), st.sampled_from(BOOKIES), st.floats(0, 5)),
    max_size=40,
)


def play(known, events):
    now = 0.0
    for what, bookie, seconds in events:
        if what == "answered":
            known.answered(bookie, seconds, now)
        elif what == "failed":
            known.failed(bookie, now)
        elif what == "busy":
            known.busy(bookie, now)
        else:
            now += seconds
    return now


@given(EVENTS, st.permutations(BOOKIES), st.integers(0, 100))
def test_every_replica_is_in_the_order_once_whatever_happened(events, bookies, turn):
    known = choice()
    now = play(known, events)
    assert sorted(known.order(bookies, now, turn)) == sorted(bookies)


@given(EVENTS, st.sampled_from(BOOKIES))
def test_one_that_has_just_failed_is_never_before_one_that_just_answered(events, victim):
    known = choice()
    now = play(known, events)
    for bookie in BOOKIES:
        known.answered(bookie, 0.001, now)
    known.failed(victim, now)
    assert known.order(BOOKIES, now)[-1] == victim


@given(EVENTS)
def test_patience_and_rest_have_their_limits(events):
    known = choice()
    now = play(known, events)
    for bookie in BOOKIES:
        assert replicas.SPECULATE_S[0] <= known.speculative_timeout(bookie, now) <= replicas.SPECULATE_S[1]
        assert 0 <= known.rest(bookie, now) <= replicas.MAX_BUSY_REST_S


@given(EVENTS)
def test_everyone_gets_another_chance(events):
    """A minute later no bookie is avoided or slow: the order is that of the turns."""
    known = choice()
    now = play(known, events) + 60.0
    assert [known.order(BOOKIES, now, turn)[0] for turn in range(3)] == list(BOOKIES)


def test_the_nearest_healthy_replica_is_first():
    known = choice("/z1/r1")
    known.place({"a": "/z2/r1", "b": "/z1/r2", "c": "/z1/r1"})
    assert known.order(BOOKIES, 0.0) == ["c", "b", "a"]
    known.failed("c", 0.0)
    assert known.order(BOOKIES, 0.0) == ["b", "a", "c"]


def test_a_busy_one_rests_twice_as_long_each_time_with_jitter():
    least, most = choice(random=lambda: 0.0), choice(random=lambda: 1.0)
    now = 0.0
    for doubled in (1, 2, 4):
        least.busy("a", now)
        most.busy("a", now)
        assert least.rest("a", now) == pytest.approx(0.5 * doubled * replicas.AVOID_BUSY_S[0])
        assert most.rest("a", now) == pytest.approx(1.5 * doubled * replicas.AVOID_BUSY_S[0])
        now += 10.0
    assert choice().rest("a", 0.0) == 0.0


def test_one_that_only_failed_needs_no_rest_and_little_patience():
    known = choice()
    assert known.speculative_timeout("a", 0.0) == replicas.SPECULATE_S[1]
    known.failed("a", 0.0)
    assert known.rest("a", 0.0) == 0.0
    assert known.speculative_timeout("a", 1.0) == replicas.SPECULATE_S[0]
    known.answered("a", 0.05, 1.0)
    assert known.speculative_timeout("a", 1.0) == pytest.approx(0.5)


def test_bookies_differ_in_distance_only_if_places_are_known():
    order = ReplicaOrder("", lambda: 0.0)
    order.place({"one": "/a/1", "two": "/b/1"})
    assert not order.has_nearer("two", ["one", "two"]), "the reader's own place is not known"
    order.move("/a/2")
    assert order.has_nearer("two", ["one", "two"])
    assert order.has_nearer("three", ["one", "three"])
    assert not order.has_nearer("one", ["one", "two"])
    assert not order.has_nearer("two", ["two", "three"])
    assert not order.has_nearer("one", ["one"])
