"""Owners that answer, fall silent and come back, with the clock and the connections played."""

import pytest
from readonly_engine.broker.subscription import owner_leases
from readonly_engine.broker.subscription.owner_leases import OwnerLeases
from readonly_engine.lease_guard import LeaseGuard
from readonly_engine.owner.lease import OWNER_LEASE_S, PROBE_S, OwnerLease


class Connection:
    """To an owner: answers as the test has it."""

    def __init__(self, now):
        self.last_answered_ping = now
        self.ping_listener = None
        self.probes = 0

    def probe(self):
        self.probes += 1

    def answer(self, sent):
        self.last_answered_ping = sent
        if self.ping_listener is not None:
            self.ping_listener(self)


class Holder:
    def __init__(self, connection):
        self.owner_connection = connection
        self.lease = OwnerLease()
        self.lease_valid = True
        self.heard = []

    def on_lease_changed(self):
        self.heard.append(self.lease_valid)


class Scene:
    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(owner_leases, "lease_time", lambda: self.now)
        self.guard = LeaseGuard(lambda: self.now)
        self.leases = OwnerLeases(self.guard)
        self.connection = Connection(self.now)
        self.holder = Holder(self.connection)
        self.leases.subscribed(self.holder, self.now)

    def pass_time(self, seconds):
        self.now += seconds
        self.guard.check_all()


@pytest.fixture
def scene(monkeypatch):
    return Scene(monkeypatch)


def test_an_owner_is_asked_when_its_last_answer_is_old(scene):
    assert scene.connection.probes == 0
    scene.pass_time(PROBE_S)
    assert scene.connection.probes == 1
    scene.connection.answer(scene.now)
    probes = scene.connection.probes
    scene.pass_time(PROBE_S / 2)
    assert scene.connection.probes == probes


def test_a_silent_owner_suspends_its_consumers_and_an_answer_takes_that_back(scene):
    scene.pass_time(OWNER_LEASE_S - 0.1)
    assert scene.holder.lease_valid
    scene.pass_time(0.1)
    assert scene.holder.heard == [False]
    scene.connection.answer(scene.now - OWNER_LEASE_S)  # to what was asked long ago
    assert not scene.holder.lease_valid
    scene.connection.answer(scene.now - 1)
    assert scene.holder.heard == [False, True]
    assert scene.guard.due == scene.now - 1 + OWNER_LEASE_S


def test_the_last_answer_of_a_connection_that_broke_counts_on(scene):
    scene.pass_time(3)
    scene.connection.answer(scene.now)
    scene.leases.detached(scene.holder)
    scene.connection.answer(scene.now + 100)
    scene.pass_time(OWNER_LEASE_S - 0.1)
    assert scene.holder.lease_valid
    scene.pass_time(0.1)
    assert not scene.holder.lease_valid
    assert scene.holder.lease.lapsed


def test_the_loss_and_the_return_of_very_many_take_constant_time_each(scene, monkeypatch):
    looks = []
    holds = OwnerLease.holds
    monkeypatch.setattr(OwnerLease, "holds", lambda self, now: looks.append(self) or holds(self, now))
    many = [Holder(scene.connection) for _ in range(300)]
    for one in many:
        scene.leases.subscribed(one, scene.now)
    for one in many:
        scene.leases.detached(one)
    assert scene.guard.due == scene.now + OWNER_LEASE_S
    scene.pass_time(OWNER_LEASE_S)
    assert not any(one.lease_valid for one in many)
    for one in many:
        one.owner_connection = Connection(scene.now)
        scene.leases.subscribed(one, scene.now)
    assert all(one.lease_valid for one in many)
    assert len(looks) < 6 * len(many)


def test_a_consumer_that_is_back_at_another_owner_goes_on(scene):
    scene.leases.detached(scene.holder)
    scene.pass_time(2 * OWNER_LEASE_S)
    assert not scene.holder.lease_valid
    scene.holder.owner_connection = Connection(scene.now)
    scene.leases.subscribed(scene.holder, scene.now)
    assert scene.holder.lease_valid
    assert not scene.holder.lease.lapsed


def test_nobody_is_asked_for_consumers_that_have_gone(scene):
    scene.leases.remove(scene.holder)
    assert scene.connection.ping_listener is None
    probes = scene.connection.probes
    scene.pass_time(100)
    assert scene.connection.probes == probes
    assert not scene.holder.heard
    scene.leases.remove(scene.holder)
    scene.leases.detached(scene.holder)


def test_two_consumers_of_one_connection_end_and_begin_together(scene):
    other = Holder(scene.connection)
    scene.leases.subscribed(other, scene.now)
    scene.pass_time(OWNER_LEASE_S)
    assert (scene.holder.lease_valid, other.lease_valid) == (False, False)
    scene.leases.remove(other)
    scene.connection.answer(scene.now)
    assert (scene.holder.lease_valid, other.lease_valid) == (True, False)
