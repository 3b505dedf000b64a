"""A pool's entry in the writable cluster's metadata: made, mended, removed, and never taken from somebody else."""

from __future__ import annotations

import pytest
from readonly_operator.reconcile.holding import needs_hold
from readonly_operator.registration import Entry, Step, step

HOST = "demo.team.svc.cluster.local"
OURS = {"serviceUrl": f"http://{HOST}:8080", "brokerServiceUrl": f"pulsar://{HOST}:6650"}
THEIRS = {"serviceUrl": "http://b:8080", "brokerServiceUrl": "pulsar://b:6650"}


@pytest.fixture
def entry(make_pool):
    return Entry.of(make_pool(lookup={"clusterName": "readers"}), "cluster.local")


def test_the_entry_names_what_clients_use(entry):
    assert entry.name == "readers"
    assert entry.data() == OURS


def test_a_pool_wants_none_unless_it_says_so(make_pool):
    assert Entry.of(make_pool(), "cluster.local") is None


@pytest.mark.parametrize(
    ("found", "staying", "leaving"),
    [
        (None, Step.CREATE, Step.NOTHING),
        (OURS, Step.NOTHING, Step.DELETE),
        ({**OURS, "peerClusterNames": ["other"]}, Step.NOTHING, Step.DELETE),
        ({**OURS, "serviceUrl": "http://old:8080"}, Step.UPDATE, Step.DELETE),
        (THEIRS, Step.TAKEN, Step.NOTHING),
        ({}, Step.TAKEN, Step.NOTHING),
    ],
)
def test_what_is_done(entry, found, staying, leaving):
    assert step(entry, found, leaving=False) is staying
    assert step(entry, found, leaving=True) is leaving


@pytest.mark.parametrize(
    ("spec", "held"),
    [
        ({}, False),
        ({"lookup": {"clusterName": "readers"}}, True),
        ({"explicitLac": {"management": "Verify", "onDeletion": "Restore"}}, False),
    ],
)
def test_only_pools_that_leave_something_behind_are_held(make_pool, spec, held):
    assert needs_hold(make_pool(**spec)) is held


@pytest.mark.parametrize(("policy", "held"), [("Keep", False), ("Restore", True)])
def test_managing_explicit_lac_holds_a_pool_that_is_to_restore(make_pool, policy, held):
    target = {"configMap": {"name": "c"}, "statefulSet": {"name": "s"}}
    assert needs_hold(make_pool(explicitLac={"management": "Manage", "target": target, "onDeletion": policy})) is held
