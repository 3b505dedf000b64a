"""A source cluster whose hosts accept connections and never answer delays the work at no other cluster."""

import datetime as dt
import socket

import pytest
from readonly_operator.bindings.topic_index import BindingTopicIndex
from readonly_operator.cluster.broker_ports import BrokerPorts
from readonly_operator.cluster.local_cursors.checks import CheckRequest
from readonly_operator.cluster.local_cursors.release import ReleaseRequest
from readonly_operator.cluster.source_clusters import SourceClusters
from readonly_operator.kube.kinds import POOL
from readonly_operator.kube.names import FINALIZER_WRITER, PoolKey
from readonly_operator.kube.store import Store

from tests.support.waiting import wait_until
from tests.unit.operator.cluster.local_cursors.admin_world import GUARD, IDENTITY

HOSTS, POOLS = 3, 20
TIMEOUT_SECONDS, MAX_SECONDS = 3600.0, 120.0
"""Of a request, and of the work at a healthy cluster: that a request ends at its timeout is no way to be in time."""

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


@pytest.fixture
def dead_hosts(monkeypatch):
    """Servers that accept by their backlog alone; a request to them ends with the test."""
    monkeypatch.setattr("readonly_operator.cluster.local_cursors.admin.REQUEST_SECONDS", TIMEOUT_SECONDS)
    monkeypatch.setattr("readonly_operator.cluster.registration.STEP_SECONDS", TIMEOUT_SECONDS)
    servers = [socket.create_server(("127.0.0.1", 0), backlog=128) for _ in range(HOSTS)]
    yield ",".join(f"127.0.0.1:{server.getsockname()[1]}" for server in servers)
    for server in servers:
        server.close()


@pytest.fixture
def store():
    return Store(BindingTopicIndex())


@pytest.fixture
def clusters(store):
    made = SourceClusters(
        None, store, 60.0, "cluster.local", lambda: NOON, lambda _: None, lambda _: None, BrokerPorts(None)
    )
    made.start()
    yield made
    made.stop()


@pytest.fixture
def put(store, pool_body):
    """Store a pool of a source cluster that is registered there; return its source."""

    def put(name, hosts, **metadata):
        body = pool_body(name, lookup={"clusterName": name})
        body["spec"]["source"] |= {"adminUrl": f"http://{hosts}"}
        body["metadata"] |= {"finalizers": [FINALIZER_WRITER], **metadata}
        store.put(POOL, body)

    return put


def test_a_binding_of_a_healthy_cluster_is_deleted_in_time(world, clusters, store, put, dead_hosts):
    for number in range(POOLS):
        key = PoolKey("dead", f"pool-{number}")
        put(key.name, dead_hosts)
        source = world.source.__class__("pulsar://127.0.0.1:1", f"http://{dead_hosts}", "zk:127.0.0.1:1")
        request = ReleaseRequest(f"pool {key}", source, f"dead.{key.name}@u", None)
        clusters.cursor_releases.track(key, {(key, "uid"): request})
        clusters.cursor_checks.track(key, {key: CheckRequest(source, f"dead.{key.name}@u", 4, ("shop/eu",))})
    wait_until(lambda: clusters.cursor_releases.busy_since and clusters.cursor_checks.busy_since)
    healthy = PoolKey("team", "demo")
    world.add("shop/eu", "orders", guards=[f"{GUARD}0"])
    request = ReleaseRequest("binding team/orders", world.source, IDENTITY, None)
    clusters.cursor_releases.track(healthy, {(healthy, "uid"): request})
    clusters.cursor_checks.track(healthy, {healthy: CheckRequest(world.source, IDENTITY, 4, ("shop/eu",))})

    def done():
        report = clusters.cursor_releases.report(healthy).get("uid")
        return report and report.complete and clusters.cursor_checks.report(healthy)

    wait_until(done, MAX_SECONDS)
    assert world.topics == {"persistent://shop/eu/orders": []}
    assert clusters.is_healthy()


def test_the_entry_of_a_pool_of_a_healthy_cluster_is_removed_in_time(world, clusters, put, dead_hosts):
    for number in range(POOLS):
        put(f"pool-{number}", dead_hosts)
    clusters.wake()
    wait_until(lambda: clusters.registrations.busy_since)
    address = world.source.admin_url.removeprefix("http://")
    world.refused["clusters/"] = 404
    put("readers", address, deletionTimestamp="2026-01-01T12:00:00Z")
    clusters.wake()
    wait_until(lambda: clusters.registrations.report(PoolKey("team", "readers")).released, MAX_SECONDS)
