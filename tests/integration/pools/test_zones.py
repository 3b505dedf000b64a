"""Two zones, 40 ms apart: what is delivered stays in its zone, and each entry crosses once."""

import os
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from readonly_engine.bookkeeper.tail_state import RETURN_S

from devstack.pool import BrokerProcess
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import PulsarSpec, Setting
from tests.integration.pools.two_zones import TwoZones
from tests.support.pulsar.fleet import TESTS, consumers_at, quiet_client, running_in
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]

DELAY_S: Final = 0.02
"""Of each direction: a round trip takes 40 ms."""

MESSAGES: Final = 6000
SIZE: Final = 1000
READERS: Final = 5
WARM_UP: Final = 1200
WARM_UP_S: Final = sum(RETURN_S) + 5
"""Cold bookies are late at first, and then entries come from the other zone for a while."""

PORTS: Final = (6650, 8080)
"""Ports of a read-only broker; each has a namespace of its own."""

NODES: Final = (
    ("zookeeper", "bookie-0", "broker-0", "pool-a", "client-a"),
    ("bookie-1", "pool-b", "client-b"),
)


class Zones:
    """A source cluster whose bookies are in both zones, and one read-only broker in each.

    Args:
        network: the network.
        stack: the source cluster.
        folder: where logs go.
    """

    def __init__(self, network: TwoZones, stack: PulsarCluster, folder: Path) -> None:
        self.network = network
        self.stack = stack
        self.topic = f"persistent://public/default/test-{uuid.uuid4().hex[:12]}"
        self.folder = folder
        self.pool: dict[str, BrokerProcess] = {}

    def start(self, zone: str) -> BrokerProcess:
        """Start the read-only broker of a zone."""
        options = ["--pool", "zones", "--topics", TESTS, "--locality", f"/{zone}"]
        site = self.network.site(f"pool-{zone}")
        made = BrokerProcess(self.stack.endpoints, self.folder / f"pool-{zone}.log", options, PORTS, site)
        self.pool[zone] = made
        made.wait_ready()
        return made

    def read(self, zone: str, listener: str, readers: int = READERS, messages: int = MESSAGES) -> subprocess.Popen[str]:
        """Start readers in a zone, and wait until they have subscribed."""
        url = "pulsar://" + ",".join(broker.address for broker in self.pool.values())
        words = ("-m", "tests.integration.pools.zone_reader", url, listener, self.topic, str(readers), str(messages))
        started = self.network.python(f"client-{zone}", *words)
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        return started

    def publish(self, numbers: range, seconds: float) -> None:
        """Publish numbers at an even rate, from the first zone."""
        client = quiet_client(self.stack.endpoints.writer_url)
        producer = client.create_producer(self.topic, block_if_queue_full=True)
        begin = time.monotonic()
        for index, number in enumerate(numbers):
            producer.send_async(b"%010d" % number + os.urandom(SIZE - 10), lambda *_: None)
            ahead = begin + index * seconds / len(numbers) - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
        producer.flush()
        client.close()

    def crossed(self, before: Mapping[tuple[str, str], int], *pairs: tuple[str, str]) -> int:
        """Return the bytes that crossed since then between pairs of nodes: sender, receiver."""
        now = self.network.crossed()
        return sum(now.get(pair, 0) - before.get(pair, 0) for pair in pairs)


@pytest.fixture
def zones(tmp_path: Path) -> Iterator[Zones]:
    network = TwoZones(*NODES, prefix=f"przones{os.getpid()}", delay_s=DELAY_S)
    servers = {node: network.site(node) for node in ("zookeeper", "bookie-0", "bookie-1", "broker-0")}
    spec = PulsarSpec(
        name="zones",
        base_port=32050,
        bookies=2,
        brokers=1,
        quick=True,
        settings=(
            Setting("broker", "defaultRetentionTimeInMinutes", "60"),
            Setting("broker", "defaultRetentionSizeInMB", "1024"),
        ),
    )
    stack = PulsarCluster(spec, sites=servers)
    made = Zones(network, stack, tmp_path)
    with running_in(network, stack, made.pool):
        yield made


def finish(*readers: subprocess.Popen[str]) -> int:
    """Return the payload bytes that readers received."""
    total = 0
    for one in readers:
        printed, _ = one.communicate(timeout=180)
        assert one.returncode == 0, "see the errors above"
        total += int(printed)
    return total


def test_deliveries_stay_in_their_zone_and_each_entry_crosses_once(zones: Zones) -> None:
    def scene() -> None:
        admin = zones.stack.admin()
        for zone, bookie in zip("ab", zones.stack.endpoints.bookies, strict=True):
            body = {"rack": f"/{zone}", "hostname": f"host-{zone}"}
            admin._request("POST", f"/admin/v2/bookies/racks-info/{bookie}", body=body, query={"group": "default"})
        for zone in "ab":
            zones.start(zone)
        wait_until(lambda: all(len(one.stats()["brokers"]) == 2 for one in zones.pool.values()))
        admin.create_topic(zones.topic)

        before = zones.network.crossed()
        total = WARM_UP + MESSAGES
        readers = [zones.read(zone, f"/{zone}", messages=total) for zone in "ab"]
        assert [consumers_at(zones.pool[zone], zones.topic) for zone in "ab"] == [READERS, READERS]
        zones.publish(range(WARM_UP), WARM_UP_S)
        warm = zones.network.crossed()
        zones.publish(range(WARM_UP, total), seconds=6)
        delivered = finish(*readers)
        log = MESSAGES * SIZE
        assert delivered == 2 * READERS * total * SIZE
        across = zones.crossed(before, ("pool-a", "client-b"), ("pool-b", "client-a"))
        into = zones.crossed(warm, *((node, "bookie-1") for node in NODES[0]))
        into_pool = zones.crossed(warm, *((node, "pool-b") for node in NODES[0]))
        figures = f"delivered {delivered}, across {across}; log {log}, to bookie-1 {into}, to pool-b {into_pool}"
        assert across <= 0.05 * delivered, figures
        assert into >= log, "the link counts"
        assert into + into_pool <= 1.3 * log, f"more than the copy in zone b crossed: {figures}"

        # A client that gives the other zone: what it gets crosses, and is counted.
        before = zones.network.crossed()
        assert finish(zones.read("b", "/a", readers=1, messages=total)) == total * SIZE
        assert zones.crossed(before, ("pool-a", "client-b")) >= total * SIZE

    zones.network.inside(scene)
