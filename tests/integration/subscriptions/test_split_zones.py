"""Split subscriptions over three zones: what crosses zones for the consumers of a zone, as a part of what they get."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pulsar
import pytest

from devstack.pool import BrokerProcess
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import PulsarSpec
from longtests.chaos.net import Network
from tests.support.pulsar.fleet import Sink, backlog, consumers_at, quiet_client, running_in
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.own_stack,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]

ZONES: Final = {
    "b": ("bookie-1", "pool-b"),
    "c": ("bookie-2", "pool-c"),
    "a": ("zookeeper", "bookie-0", "broker-0", "pool-a"),
}
"""Nodes of each zone, in the order in which their clients subscribe. So the coordinator and the owner are in different zones."""

PORTS: Final = (6650, 8080)
NAMESPACE: Final = "public/zones"
SUBSCRIPTION: Final = "work"
CONSUMERS: Final = 2
WARM_UP: Final = 600
COUNT: Final = 10000
KEYS: Final = 300


class Case(NamedTuple):
    """A subscription, the number of zones that have a copy of an entry, and the size of a message in bytes.

    Each broker of a Key_Shared one reads all entries. With copies in two of three zones, a third of all entries crosses to
    each zone, so the sum over all zones is what the consumers get, and the headers of packets and entries come on top.
    """

    kind: pulsar.ConsumerType
    copies: int
    size: int = 1000

    @property
    def namespace(self) -> str:
        return f"{NAMESPACE}-{self.copies}"

    @property
    def topic(self) -> str:
        return f"persistent://{self.namespace}/{self.kind.name.lower()}"


CASES: Final = (
    Case(pulsar.ConsumerType.Shared, 3),
    Case(pulsar.ConsumerType.Shared, 2),
    Case(pulsar.ConsumerType.KeyShared, 3),
    Case(pulsar.ConsumerType.KeyShared, 2, 4000),
)
LIMIT: Final = 1.1
"""Of the bytes that cross, by those that the zone's consumers get."""


class Zones:
    """A source cluster over three zones, and a broker of the pool in each.

    Args:
        network: the network.
        stack: the source cluster.
        folder: folder of the logs.
    """

    def __init__(self, network: Network, stack: PulsarCluster, folder: Path) -> None:
        self.network, self.stack, self._folder = network, stack, folder
        self.pool: dict[str, BrokerProcess] = {}

    def start(self) -> None:
        """Place the bookies, create the namespaces, and start the brokers."""
        admin = self.stack.admin()
        for zone, bookie in zip(sorted(ZONES), self.stack.endpoints.bookies, strict=True):
            body = {"rack": f"/{zone}", "hostname": f"host-{zone}"}
            admin._request("POST", f"/admin/v2/bookies/racks-info/{bookie}", body=body, query={"group": "default"})
        for namespace, copies in {(case.namespace, case.copies) for case in CASES}:
            admin.create_namespace(namespace)
            admin.set_persistence(namespace, ensemble=3, write_quorum=copies, ack_quorum=copies)
        bindings = self._folder / "bindings.json"
        binding = {"name": "zones/split", "topics": [case.topic for case in CASES], "dispatch": "Split"}
        bindings.write_text(json.dumps({"revision": "1", "bindings": [binding]}))
        for zone in ZONES:
            options = ["--pool", "zones", "--bindings", str(bindings), "--locality", f"/{zone}"]
            site = self.network.site(f"pool-{zone}")
            self.pool[zone] = BrokerProcess(self.stack.endpoints, self._folder / f"{zone}.log", options, PORTS, site)
        for broker in self.pool.values():
            broker.wait_ready()
        wait_until(lambda: all(len(one.stats()["brokers"]) == len(ZONES) for one in self.pool.values()))

    def crossed(self) -> dict[str, int]:
        """Return the bytes so far between each zone's broker and the nodes of the other zones, in both directions."""
        arrived = {node: self.network.received(node) for nodes in ZONES.values() for node in nodes}
        return {
            zone: sum(
                arrived[f"pool-{zone}"].get(node, 0) + arrived[node].get(f"pool-{zone}", 0)
                for node in arrived
                if node not in near
            )
            for zone, near in ZONES.items()
        }

    def sent(self, topic: str) -> dict[str, int]:
        """Return the bytes so far that each zone's broker has sent to its consumers."""
        every: dict[str, Any] = {zone: broker.stats()["topics"][topic] for zone, broker in self.pool.items()}
        return {zone: int(one["subscriptions"][SUBSCRIPTION]["bytesOutCounter"]) for zone, one in every.items()}

    def role(self, zone: str, topic: str) -> str:
        """Return the part of a zone's broker in the subscription; empty for none."""
        stats: Any = self.pool[zone].stats()["topics"].get(topic, {"subscriptions": {}})
        return str(stats["subscriptions"].get(SUBSCRIPTION, {}).get("split", {}).get("state", ""))


@pytest.fixture
def zones(tmp_path: Path) -> Iterator[Zones]:
    nodes = [node for near in ZONES.values() for node in near]
    network = Network(nodes, prefix=f"prsplit{os.getpid()}")
    spec = PulsarSpec(name="split-zones", base_port=32100, bookies=len(ZONES), brokers=1, quick=True)
    stack = PulsarCluster(spec, sites={node: network.site(node) for node in nodes if not node.startswith("pool")})
    made = Zones(network, stack, tmp_path)
    with running_in(network, stack, made.pool):
        yield made


def publish(client: pulsar.Client, topic: str, size: int, numbers: range) -> None:
    """Publish numbers, each in an entry of its own."""
    producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
    for number in numbers:
        producer.send_async(b"%d" % number + b" " * size, lambda *_: None, partition_key=str(number % KEYS))
    producer.flush()
    producer.close()


def crossed_parts(zones: Zones, case: Case) -> dict[str, float]:
    """Consume in all zones; return the bytes across zones by those that the consumers got, for each zone and for all."""
    admin = zones.stack.admin()
    admin.create_topic(case.topic)
    url = "pulsar://" + ",".join(broker.address for broker in zones.pool.values())
    writer = quiet_client(zones.stack.endpoints.writer_url)
    clients = {zone: quiet_client(url, listener_name=f"/{zone}") for zone in ZONES}
    sinks: dict[str, list[Sink]] = {}

    def got() -> dict[str, int]:
        return {zone: sum(len(sink.got) for sink in own) for zone, own in sinks.items()}

    def consume(numbers: range) -> None:
        publish(writer, case.topic, case.size, numbers)
        wait_until(lambda: backlog(admin, case.topic, SUBSCRIPTION) == 0, 120, what=f"all are acked: {got()}")

    try:
        for zone, client in clients.items():
            role = "following" if sinks else "coordinating"
            sinks[zone] = [
                Sink(client.subscribe(case.topic, SUBSCRIPTION, case.kind, receiver_queue_size=100))
                for _ in range(CONSUMERS)
            ]
            wait_until(lambda zone=zone, role=role: zones.role(zone, case.topic) == role, what=f"{zone} is {role}")
        assert [consumers_at(broker, case.topic) for broker in zones.pool.values()] == [CONSUMERS] * len(ZONES)
        consume(range(WARM_UP))
        before, first, began = zones.crossed(), zones.sent(case.topic), time.monotonic()
        consume(range(WARM_UP, WARM_UP + COUNT))
        after, last, rate = zones.crossed(), zones.sent(case.topic), COUNT / (time.monotonic() - began)
    finally:
        for sink in [one for own in sinks.values() for one in own]:
            sink.stop()
        for client in (writer, *clients.values()):
            client.close()
    received = {number for own in sinks.values() for sink in own for number in sink.got}
    assert received == set(range(WARM_UP + COUNT))
    assert all(last[zone] - first[zone] > COUNT * case.size / 10 for zone in ZONES), (first, last)
    parts = {zone: round((after[zone] - before[zone]) / (last[zone] - first[zone]), 3) for zone in ZONES}
    parts["all"] = round(sum(after[z] - before[z] for z in ZONES) / sum(last[z] - first[z] for z in ZONES), 3)
    sys.stdout.write(f"{case.kind.name}, {case.copies} copies, {case.size} bytes, {rate:.0f} messages/s: {parts}\n")
    return parts


def test_what_crosses_zones_is_a_part_of_what_the_zone_consumes(zones: Zones) -> None:
    def scene() -> None:
        zones.start()
        found = {case: crossed_parts(zones, case) for case in CASES}
        assert all(parts["all"] <= LIMIT for parts in found.values()), found

    zones.network.inside(scene)
