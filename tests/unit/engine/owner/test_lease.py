"""How long a consumer is served without its owner's word, with time as an argument."""

from __future__ import annotations

import pytest
from readonly_engine.owner.lease import OWNER_LEASE_S, OwnerLease

LIVENESS_CHECK_S = 5.0
"""How long a stock owner waits for a sign of life before it gives a place to another (connectionLivenessCheckTimeoutMillis)."""


@pytest.fixture
def lease():
    made = OwnerLease()
    made.subscribed(100.0)
    return made


def test_nothing_is_delivered_before_the_owner_has_the_consumer():
    assert not OwnerLease().holds(0.0)


def test_an_owner_that_answers_is_believed_from_the_sending_on(lease):
    assert lease.holds(100.0 + OWNER_LEASE_S - 0.1)
    lease.answered(103.0)
    assert lease.holds(103.0 + OWNER_LEASE_S - 0.1)
    assert not lease.holds(103.0 + OWNER_LEASE_S)


def test_an_owner_that_is_silent_for_a_while_and_kept_the_connection_kept_the_consumer(lease):
    assert not lease.holds(150.0)
    lease.answered(150.0)
    assert lease.holds(150.0)
    assert not lease.lapsed


def test_it_ends_no_later_than_an_owner_gives_the_place_to_another():
    assert OWNER_LEASE_S <= LIVENESS_CHECK_S


def test_an_answer_over_a_connection_that_has_not_the_consumer_counts_for_nothing(lease):
    lease.detached(101.0)
    lease.answered(104.0)
    assert not lease.holds(100.0 + OWNER_LEASE_S)


def test_an_owner_that_moves_soon_costs_nothing(lease):
    lease.detached(101.0)
    assert lease.holds(103.0)
    lease.subscribed(103.0)
    assert lease.holds(103.0 + OWNER_LEASE_S - 0.1)
    assert not lease.lapsed


def test_what_lapsed_while_the_consumer_was_away_must_be_compared_before_it_goes_on(lease):
    lease.detached(101.0)
    assert not lease.holds(100.0 + OWNER_LEASE_S)
    assert lease.lapsed
    lease.answered(110.0)
    assert not lease.holds(110.0)
    lease.subscribed(111.0)
    assert lease.holds(111.0)
    assert not lease.lapsed


def test_what_lapsed_before_the_connection_broke_counts_as_lapsed(lease):
    lease.detached(130.0)
    assert lease.lapsed


def test_a_dead_owner_of_a_topic_that_nobody_loads_gives_nothing_away(lease):
    lease.detached(101.0)
    for looked in range(102, 140, 2):
        assert lease.holds(looked)
        lease.extend_unowned(float(looked))
    assert lease.holds(138.0 + OWNER_LEASE_S - 0.1)
    assert not lease.holds(138.0 + OWNER_LEASE_S)


def test_a_lease_that_has_lapsed_does_not_begin_again_because_the_owner_is_found_dead(lease):
    """Before it died it may have had another consumer, whose acks it may have stored."""
    lease.detached(101.0)
    assert not lease.holds(110.0)
    lease.extend_unowned(110.0)
    assert not lease.holds(110.0)


def test_a_dead_owner_is_looked_for_only_where_the_consumer_is_not_attached(lease):
    lease.extend_unowned(200.0)
    assert not lease.holds(200.0)
