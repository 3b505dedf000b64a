"""A pool's entry in the source cluster's metadata: made, mended, removed, and never taken from somebody else."""

import itertools
from urllib.parse import quote

import pytest
from readonly_operator.assembly.finalizer import needs_finalizer
from readonly_operator.bindings.topic_index import BindingTopicIndex
from readonly_operator.cluster.fetch import ANONYMOUS
from readonly_operator.cluster.registration import (
    REMOVE_SECONDS,
    RETRY_SECONDS,
    Entry,
    RegistrationController,
    Step,
    step,
)
from readonly_operator.kube.kinds import POOL
from readonly_operator.kube.names import FINALIZER_WRITER, PoolKey
from readonly_operator.kube.store import Store

from tests.support.played_http import played_http

HOST = "demo.team.svc.cluster.local"
OURS = {
    "serviceUrl": f"http://{HOST}:8080",
    "brokerServiceUrl": f"pulsar://{HOST}:6650",
    "listenerName": "pool-uid-of-demo",
}
NAMESAKE = {**OURS, "listenerName": "pool-uid-elsewhere"}
UNMARKED = {name: value for name, value in OURS.items() if name != "listenerName"}
THEIRS = {"serviceUrl": "http://b:8080", "brokerServiceUrl": "pulsar://b:6650"}


@pytest.fixture
def entry(make_pool):
    return Entry.of(make_pool(lookup={"clusterName": "readers"}), "cluster.local")


def test_the_entry_names_what_clients_use(entry):
    assert entry.name == "readers"
    assert entry.data() == OURS


@pytest.fixture
def synced(pool_body):
    """Sync a pool with an admin API that has one entry or none; return the report, and method and path of the requests."""

    def sync(name, entry=None, **metadata):
        asked = []

        def answer(request):
            asked.append((request.method, request.path))
            return (204, None) if request.method != "GET" else (404, None) if entry is None else (200, entry)

        with played_http(answer) as port:
            body = pool_body(lookup={"clusterName": name})
            body["spec"]["source"]["adminUrl"] = f"http://127.0.0.1:{port}"
            body["metadata"] |= {"finalizers": [FINALIZER_WRITER], **metadata}
            store = Store(BindingTopicIndex())
            store.put(POOL, body)
            made = RegistrationController(store, "cluster.local", 60, lambda _: None, lambda _: ANONYMOUS)
            made.sync()
            return made.report(PoolKey("team", "demo")), asked

    return sync


@pytest.mark.parametrize("name", ["a..b", "eu:west=1"])
def test_a_name_is_one_part_of_the_path(synced, name):
    path = f"/admin/v2/clusters/{quote(name, safe='')}"
    assert synced(name)[1] == [("GET", path), ("PUT", path)]


@pytest.mark.parametrize(("entry", "uid"), [(NAMESAKE, "uid-elsewhere"), (UNMARKED, "")])
def test_the_entry_of_a_pool_of_the_same_name_elsewhere_is_neither_adopted_nor_removed(synced, entry, uid):
    report, asked = synced("readers", entry)
    assert (report.condition.reason, [method for method, _ in asked]) == ("NameTaken", ["GET"])
    assert (f"of the ReadOnlyBrokerPool with uid {uid}" in report.condition.message) is bool(uid)
    assert "pulsar-admin clusters delete readers if its pool is gone" in report.condition.message
    report, asked = synced("readers", entry, deletionTimestamp="2026-01-01T00:00:00Z")
    assert (report.released, [method for method, _ in asked]) == (True, ["GET"])


def test_the_own_entry_is_removed_with_the_pool(synced):
    report, asked = synced("readers", OURS, deletionTimestamp="2026-01-01T00:00:00Z")
    assert (report.released, [method for method, _ in asked]) == (True, ["GET", "DELETE"])


def test_an_entry_that_cannot_be_removed_is_given_up_after_two_minutes_of_tries(pool_body):
    """The pool may have been deleted long before this process, or before its turn."""
    body = pool_body(lookup={"clusterName": "readers"})
    body["spec"]["source"]["adminUrl"] = "http://127.0.0.1:1"
    body["metadata"] |= {"finalizers": [FINALIZER_WRITER], "deletionTimestamp": "2020-01-01T00:00:00Z"}
    store, clock = Store(BindingTopicIndex()), itertools.repeat(0.0)
    store.put(POOL, body)
    made = RegistrationController(
        store, "cluster.local", 60, lambda _: None, lambda _: ANONYMOUS, clock=lambda: next(clock)
    )
    tries = 0
    while not made.report(PoolKey("team", "demo")).released:
        made._due.clear()
        made.sync()
        tries += 1
    assert tries == REMOVE_SECONDS / RETRY_SECONDS + 1


def test_a_pool_wants_none_unless_it_says_so(make_pool):
    assert Entry.of(make_pool(), "cluster.local") is None


@pytest.mark.parametrize(
    ("found", "staying", "leaving"),
    [
        (None, Step.CREATE, Step.NOTHING),
        (OURS, Step.NOTHING, Step.DELETE),
        ({**OURS, "peerClusterNames": ["other"]}, Step.NOTHING, Step.DELETE),
        ({**OURS, "serviceUrl": "http://old:8080"}, Step.UPDATE, Step.DELETE),
        ({**OURS, "brokerServiceUrl": "pulsar://demo.team.svc.old.domain:6650"}, Step.UPDATE, Step.DELETE),
        (NAMESAKE, Step.TAKEN, Step.NOTHING),
        (UNMARKED, Step.TAKEN, Step.NOTHING),
        (THEIRS, Step.TAKEN, Step.NOTHING),
        ({}, Step.TAKEN, Step.NOTHING),
    ],
)
def test_what_is_done(entry, found, staying, leaving):
    assert step(entry, found, leaving=False) is staying
    assert step(entry, found, leaving=True) is leaving


TARGET = {"configMap": {"name": "c"}, "statefulSet": {"name": "s"}}


@pytest.mark.parametrize(
    ("spec", "has_finalizer"),
    [
        ({}, False),
        ({"cursors": "Local", "onDeletion": "Release"}, True),
        ({"lookup": {"clusterName": "readers"}}, True),
        ({"explicitLac": {"management": "Verify", "onDeletion": "Restore"}}, False),
        ({"explicitLac": {"management": "Manage", "target": TARGET, "onDeletion": "Keep"}}, False),
        ({"explicitLac": {"management": "Manage", "target": TARGET, "onDeletion": "Restore"}}, True),
    ],
)
def test_only_pools_that_leave_something_behind_are_held(make_pool, spec, has_finalizer):
    assert needs_finalizer(make_pool(**spec)) is has_finalizer
