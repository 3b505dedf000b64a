"""The cluster's metadata move from ZooKeeper to Oxia under load (PIP-454), on releases of Pulsar that can do it."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pulsar
import pytest
from kazoo.client import KazooClient
from readonly_engine.metadata.migration import FLAG_PATH, Phase, decode_migration

from devstack.pool import BrokerProcess, Pool
from devstack.pulsar.assembled import assembled_versions
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import DEFAULT_VERSION, MIGRATION
from tests.integration.stores.number_reader import NumberReader, stored_numbers
from tests.support.java import need_java
from tests.support.messages import numbers_of
from tests.support.pulsar.fleet import SHARED, TESTS, Feed, Sink, claims_of, quiet_client
from tests.support.pulsar.stacks import fresh_stack, kept_ledgers
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.own_stack]

RELEASES = [version for version in assembled_versions() if version != DEFAULT_VERSION]
MOVED_S = 120
GAP_S = 1.0
SEND_MS = 120_000
"""Longest time by which a message may come later from the pool than from the owner."""


@pytest.fixture(params=RELEASES)
def cluster(request: pytest.FixtureRequest) -> Iterator[PulsarCluster]:
    """A cluster on ZooKeeper, with an empty Oxia beside it."""
    need_java(request.param)
    settings = kept_ledgers()
    with fresh_stack("migration", 20650, version=request.param, metadata=MIGRATION, settings=settings) as stack:
        yield stack


def phase_at(cluster: PulsarCluster) -> Phase:
    """The phase in ZooKeeper: releases before 5.0 answer NOT_STARTED after the end, for they ask the target."""
    client = KazooClient(cluster.endpoints.metadata_store.removeprefix("zk:"))
    client.start(30)
    try:
        # The request to begin is answered before the node is there.
        return decode_migration(client.get(FLAG_PATH)[0] if client.exists(FLAG_PATH) else None).phase
    finally:
        client.stop()
        client.close()


def test_a_pool_follows_the_metadata_under_load(
    cluster: PulsarCluster, tmp_path: Path, topic: str, record_testsuite_property: Callable[[str, object], None]
) -> None:
    admin, name = cluster.admin(), uuid.uuid4().hex
    options = ["--topics", TESTS]
    pool = Pool(cluster.endpoints, tmp_path, name, options)
    owner = quiet_client(cluster.endpoints.writer_url)
    late: BrokerProcess | None = None
    running: list[NumberReader | Sink | Feed] = []
    try:
        pool.start(2)
        client = quiet_client(pool.url)
        sinks = [Sink(client.subscribe(topic, "shared", consumer_type=SHARED)) for _ in range(2)]
        sinks.append(Sink(client.subscribe(topic, "exclusive")))
        at_owner, at_pool = (
            NumberReader(one.create_reader(topic, pulsar.MessageId.earliest)) for one in (owner, client)
        )
        feed = Feed(owner, topic, pause=0.01, send_timeout_millis=SEND_MS)
        running += [*sinks, at_owner, at_pool, feed]
        at_pool.wait_for(100, MOVED_S)

        admin.start_migration(cluster.spec.oxia_url())
        wait_until(lambda: phase_at(cluster) in {Phase.COMPLETED, Phase.FAILED}, MOVED_S)
        assert phase_at(cluster) is Phase.COMPLETED
        wait_until(lambda: all("have moved" in broker.log.read_text() for broker in pool.brokers), 30)
        at_pool.wait_for(feed.sent + 300, MOVED_S)

        # What has changed since is in Oxia only: a new topic, another ledger, a broker that joins.
        other = f"{topic}-other"
        owner.create_producer(other, batching_enabled=False).send(b"0")
        assert numbers_of([client.create_reader(other, pulsar.MessageId.earliest).read_next(20_000)]) == [0]
        admin.unload(topic)
        at_pool.wait_for(feed.sent + 300, MOVED_S)
        sent = feed.stop()
        for arrivals in (at_owner, at_pool):
            arrivals.wait_for(sent - 1, MOVED_S)
            arrivals.stop()
        stored = stored_numbers(owner, topic)
        assert at_pool.order == stored
        assert sorted({*stored}) == list(range(sent))
        pause = at_pool.delay_behind(at_owner)
        record_testsuite_property(
            f"migration on {cluster.spec.version}, longest delay behind the owner", f"{pause:.3f} s"
        )
        assert pause < GAP_S
        wait_until(lambda: {*sinks[0].got, *sinks[1].got} == set(range(sent)) and sent - 1 in sinks[2].got, MOVED_S)
        assert sorted({*sinks[2].got}) == list(range(sent))
        # Oxia 0.14 makes the owner load the topic again, which closes consumers; then the other broker may claim.
        assert [name for broker in pool.brokers for name in claims_of(broker, topic)] == ["shared"]

        moved = replace(cluster.endpoints, metadata_store=cluster.spec.oxia_url())
        late = BrokerProcess(moved, tmp_path / "late.log", [*options, "--pool", name])
        late.wait_ready()
        pool.wait_members(3)
        client.close()
    finally:
        for one in running:
            one.stop()
        if late is not None:
            late.stop()
        pool.close()
        owner.close()
