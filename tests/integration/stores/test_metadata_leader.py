"""The leader of an ensemble of three is killed under load: reads go on, and claims stay where they are."""

import asyncio
import os
import signal
import socket
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pulsar
import pytest
from readonly_engine.metadata.oxia.channels import Channels
from readonly_engine.metadata.oxia.router import Router
from readonly_engine.metadata.store import OWN_ROOT

from devstack.pool import Pool
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import HOST, OXIA, OXIA_NAMESPACE, ZOOKEEPER
from tests.integration.stores.number_reader import NumberReader, stored_numbers
from tests.support.pulsar.fleet import SHARED, TESTS, Feed, Sink, claims_of, quiet_client
from tests.support.pulsar.stacks import fresh_stack, kept_ledgers
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.own_stack]

BASE_PORT = 24750
LOST_S = 120
ASK_S = 5
GAP_S = 1.0
SEND_MS = 120_000
"""Longest time by which a message may come later from the pool than from the owner."""


@pytest.fixture(params=[ZOOKEEPER, OXIA])
def cluster(request: pytest.FixtureRequest) -> Iterator[PulsarCluster]:
    with fresh_stack(
        "ensemble", BASE_PORT, metadata=request.param, metadata_servers=3, settings=kept_ledgers()
    ) as stack:
        yield stack


def leader(cluster: PulsarCluster, ask: int = 0) -> str:
    """Name of the leader; with Oxia that of the shard with the pool's records, as one of the servers says."""
    if cluster.spec.metadata == OXIA:
        return leader_of_claims(cluster, ask)
    servers = [server for server in cluster.status().servers if server.name.startswith(ZOOKEEPER)]
    return next((server.name for server in servers if "Mode: leader" in asked(server.port)), "")


def asked(port: int) -> str:
    """The answer of a ZooKeeper to `srvr`; empty if it is down."""
    try:
        with socket.create_connection((HOST, port), ASK_S) as connection:
            connection.settimeout(ASK_S)
            connection.sendall(b"srvr")
            return connection.makefile("rb").read().decode()
    except OSError:
        return ""


def leader_of_claims(cluster: PulsarCluster, ask: int) -> str:
    async def found() -> str:
        router = Router(f"{HOST}:{cluster.spec.oxia_port(ask)}", OXIA_NAMESPACE, Channels())
        try:
            await router.start()
            shard = router.leader(OWN_ROOT)
            return "" if shard is None else shard[1]
        finally:
            await router.close()

    port = int(asyncio.run(found()).rpartition(":")[2] or 0)
    return next((server.name for server in cluster.status().servers if server.port == port), "")


def test_reads_go_on_and_claims_stay_while_the_leader_is_killed(
    cluster: PulsarCluster, tmp_path: Path, topic: str, record_testsuite_property: Callable[[str, object], None]
) -> None:
    pool = Pool(cluster.endpoints, tmp_path, uuid.uuid4().hex, ["--topics", TESTS])
    owner = quiet_client(cluster.endpoints.writer_url)
    running: list[NumberReader | Sink | Feed] = []
    try:
        pool.start(2)
        client = quiet_client(pool.url)
        shared = [Sink(client.subscribe(topic, "shared", consumer_type=SHARED)) for _ in range(2)]
        exclusive = Sink(client.subscribe(topic, "exclusive"))
        at_owner, at_pool = (
            NumberReader(one.create_reader(topic, pulsar.MessageId.earliest)) for one in (owner, client)
        )
        feed = Feed(owner, topic, pause=0.01, send_timeout_millis=SEND_MS)
        running += [*shared, exclusive, at_owner, at_pool, feed]
        at_pool.wait_for(100, LOST_S)
        held = [claims_of(broker, topic) for broker in pool.brokers]
        before = leader(cluster)
        pid = next(server.pid for server in cluster.status().servers if server.name == before)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        other = next(index for index in range(3) if before != f"oxia-{index}")
        wait_until(lambda: leader(cluster, other) not in {"", before}, LOST_S, what="another leader")
        # It comes back, as in Kubernetes: owners know their store by one address, which was that server's.
        cluster.start_metadata_server(before)
        at_pool.wait_for(feed.sent + 300, LOST_S)
        sent = feed.stop()
        for reader in (at_owner, at_pool):
            reader.wait_for(sent - 1, LOST_S)
            reader.stop()
        stored = stored_numbers(owner, topic)
        assert at_pool.order == stored
        assert sorted({*stored}) == list(range(sent))
        delay = at_pool.delay_behind(at_owner)
        what = f"kill -9 of the leader of {cluster.spec.metadata}, longest delay behind the owner"
        record_testsuite_property(what, f"{delay:.3f} s")
        assert delay < GAP_S
        wait_until(lambda: sum(len(sink.got) for sink in shared) >= len(stored) and sent - 1 in exclusive.got, LOST_S)
        assert sorted(shared[0].got + shared[1].got) == sorted(stored), "each message once"
        assert exclusive.got == stored
        assert [claims_of(broker, topic) for broker in pool.brokers] == held
        client.close()
    finally:
        for one in running:
            one.stop()
        pool.close()
        owner.close()
