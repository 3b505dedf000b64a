"""The rules of holding a Lease."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_operator.runtime.lease import Election, Terms

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
TERMS = Terms("me", 15)


def seen(spec, now=100.0, terms=TERMS):
    election = Election(terms)
    election.observe(spec, now)
    return election


def test_a_lease_that_nobody_has_is_taken():
    for spec in ({}, {"holderIdentity": ""}, {"holderIdentity": None, "leaseDurationSeconds": 15}):
        assert seen(spec).may_take(100.0), spec


def test_a_lease_of_another_is_left_alone_while_it_is_renewed():
    election = seen({"holderIdentity": "other", "leaseDurationSeconds": 15, "renewTime": "1"})
    assert not election.may_take(114.9)
    assert election.may_take(115.0), "it has not changed for as long as it counts"
    election.observe({"holderIdentity": "other", "leaseDurationSeconds": 15, "renewTime": "2"}, 114.9)
    assert not election.may_take(115.0)
    assert election.holder == "other"


def test_what_counts_is_the_holders_duration_and_not_the_clock_of_its_machine():
    election = seen({"holderIdentity": "other", "leaseDurationSeconds": 60, "renewTime": "1970-01-01T00:00:00.0Z"})
    assert not election.may_take(159.0)
    assert election.may_take(160.0)


def test_who_waits_too_long_to_renew_has_lost_it_before_another_may_take_it():
    election = seen({})
    assert election.left_seconds(100.0) <= 0
    assert not election.holds
    election.observe(election.spec(NOON), 100.0)
    election.acquired(100.0)
    assert election.holds
    assert election.left_seconds(109.0) == pytest.approx(1.0)
    assert election.left_seconds(110.0) <= 0
    assert TERMS.deadline_seconds < TERMS.seconds


def test_what_is_written():
    first = seen({}).spec(NOON)
    assert first == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T12:00:00.000000Z",
        "renewTime": "2026-01-01T12:00:00.000000Z",
        "leaseTransitions": 0,
    }
    later = NOON + dt.timedelta(seconds=2)
    renewed = seen(first).spec(later)
    assert renewed == first | {"renewTime": "2026-01-01T12:00:02.000000Z"}
    taken_over = seen(renewed, terms=Terms("you", 15)).spec(later)
    assert (taken_over["holderIdentity"], taken_over["leaseTransitions"]) == ("you", 1)
    assert taken_over["acquireTime"] == "2026-01-01T12:00:02.000000Z"


def test_a_lease_that_is_given_back_can_be_taken_at_once():
    given_back = seen(seen({}).spec(NOON)).released(NOON)
    assert seen(given_back, terms=Terms("you", 15)).may_take(100.0)


def test_who_sees_another_in_its_place_has_lost_it_and_has_nothing_to_give_back():
    election = seen({})
    election.observe(election.spec(NOON), 100.0)
    election.acquired(100.0)
    assert election.left_seconds(101.0) > 0
    election.observe({"holderIdentity": "other", "leaseDurationSeconds": 15}, 101.0)
    assert not election.holds
    assert election.left_seconds(101.0) <= 0
    election.observe({}, 101.0)
    assert election.left_seconds(101.0) > 0, "nobody else has it, and it is taken again at the next renewal"


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0.1, 20.0)), max_size=40), st.integers(3, 30))
def test_never_two_at_a_time(turns, seconds):
    """Two processes look in any order and at any times: the Lease is what both see, each has its own clock."""
    lease, version, now = {}, 0, 0.0
    offsets = {"a": 1000.0, "b": 5.0}
    elections = {name: Election(Terms(name, seconds)) for name in "ab"}
    for name, pause in turns:
        now += pause
        election, clock = elections[name], now + offsets[name]
        election.observe(lease, clock)
        if election.may_take(clock):
            lease = election.spec(NOON + dt.timedelta(seconds=version))
            version += 1
            election.observe(lease, clock)
            election.acquired(clock)
        acting = [one for one in "ab" if elections[one].left_seconds(now + offsets[one]) > 0]
        assert len(acting) <= 1, (acting, now)
