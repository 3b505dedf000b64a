"""OwnerLease, with time as an argument."""

import pytest
from readonly_engine.owner.lease import OWNER_LEASE_S, OwnerLease

LIVENESS_CHECK_S = 5.0
"""How long a stock owner waits for a sign of life before it gives a place to another (connectionLivenessCheckTimeoutMillis)."""


@pytest.fixture
def lease():
    made = OwnerLease()
    made.subscribed(100.0)
    return made


def test_a_new_lease_does_not_hold():
    assert not OwnerLease().holds(0.0)


def test_a_lease_starts_when_the_answered_request_was_sent(lease):
    assert lease.holds(100.0 + OWNER_LEASE_S - 0.1)
    lease.answered(103.0)
    assert lease.holds(103.0 + OWNER_LEASE_S - 0.1)
    assert not lease.holds(103.0 + OWNER_LEASE_S)


def test_an_expired_lease_resumes_on_the_same_connection(lease):
    assert not lease.holds(150.0)
    lease.answered(150.0)
    assert lease.holds(150.0)
    assert not lease.lapsed


def test_a_lease_is_no_longer_than_the_owners_liveness_timeout():
    assert OWNER_LEASE_S <= LIVENESS_CHECK_S


def test_a_lease_that_expired_before_the_detachment_has_lapsed(lease):
    lease.detached(130.0)
    assert lease.lapsed


def test_a_dead_owner_and_an_unloaded_topic_renew_the_lease(lease):
    lease.detached(101.0)
    for looked in range(102, 140, 2):
        assert lease.holds(looked)
        lease.extend_unowned(float(looked))
    assert lease.holds(138.0 + OWNER_LEASE_S - 0.1)
    assert not lease.holds(138.0 + OWNER_LEASE_S)


def test_extend_unowned_does_not_change_an_attached_lease(lease):
    lease.extend_unowned(200.0)
    assert not lease.holds(200.0)
