"""Idle topics: CPU, memory and requests of a read-only broker with thousands of bound topics, of which many have a reader.

Nothing is published. The measurement begins a minute after the last reader has subscribed and its topic is pushed.
"""

from __future__ import annotations

import re
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from bench.client import LoadClient
from bench.cpu import resident_bytes
from bench.figures import Report
from bench.traffic import sent_bytes
from devstack.console import say
from devstack.errors import DevstackError

if TYPE_CHECKING:
    from bench.cluster import BenchCluster
    from bench.plan import Plan
    from devstack.pool import BrokerProcess

TITLE: Final = "Idle topics: CPU, memory and requests of a read-only broker"
SETTLE_S: Final = 60.0
MEASURE_S: Final = 60.0
PUSHED_S: Final = 600.0
_PUSHED: Final = re.compile(r'^pulsar_readonly_tail_topics\{source="owner"\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Shape:
    """Numbers of topics.

    Attributes:
        bound: bound topics.
        read: those with one reader each.
        connections: the readers' connections.
    """

    bound: int
    read: int
    connections: int

    def __str__(self) -> str:
        return f"{self.bound:,} topics, {self.read:,} with a reader, {self.connections:,} connections"


SHAPES: Final = (Shape(20_000, 5_000, 50), Shape(20_000, 5_000, 5_000))
SHORT: Final = (Shape(200, 100, 10), Shape(200, 100, 100))


@dataclass(frozen=True, slots=True)
class IdleTopics:
    """Result of one shape.

    Attributes:
        connected_s: seconds until all readers had subscribed.
        pushed_s: seconds from then until the owner pushed all their topics; 0 with `--tail bookies`.
        empty: resident bytes of the broker before the readers.
        full: resident bytes after the measurement.
        seconds: duration of the measurement.
        cpu: CPU seconds by process group.
        sent: bytes that the broker has sent meanwhile, by peer: `owner`, `bookies`, `zookeeper`.
    """

    connected_s: float
    pushed_s: float
    empty: int
    full: int
    seconds: float
    cpu: dict[str, float]
    sent: dict[str, int]


def _wait_pushed(engine: BrokerProcess, count: int) -> float:
    """Wait until the owner pushes as many topics; return the seconds."""
    begin = time.monotonic()
    while time.monotonic() - begin < PUSHED_S:
        found = _PUSHED.search(engine.get("/metrics"))
        if found is not None and float(found[1]) >= count:
            return time.monotonic() - begin
        time.sleep(1)
    raise DevstackError(f"the owner does not push {count:,} topics after {PUSHED_S:g} s")


def _measure(cluster: BenchCluster, base: str, shape: Shape, *, pushed: bool) -> IdleTopics:
    with cluster.engine(f"{base}-.*") as engine:
        pid = engine.process.pid
        empty = resident_bytes([pid])
        with LoadClient(
            "consume",
            broker=engine.address,
            topic=f"{base}-#",
            consumers=shape.read,
            connections=shape.connections,
            subscription="idle-#",
        ) as readers:
            pushed_s = _wait_pushed(engine, shape.read) if pushed else 0.0
            say(f"{shape}: subscribed after {readers.ready_s:.0f} s, pushed {pushed_s:.0f} s later; waiting")
            time.sleep(SETTLE_S)
            ports: dict[str, list[int | None]] = {
                "owner": [urlsplit(url).port for url in (f"//{cluster.owner}", cluster.endpoints.admin_url)],
                "bookies": [int(address.rpartition(":")[2]) for address in cluster.endpoints.bookies],
                "zookeeper": [int(cluster.endpoints.metadata_store.rpartition(":")[2])],
            }
            before, meter, begin = sent_bytes(pid), cluster.meter(engine), time.monotonic()
            time.sleep(MEASURE_S)
            seconds, cpu, after = time.monotonic() - begin, meter.used(), sent_bytes(pid)
            return IdleTopics(
                connected_s=readers.ready_s,
                pushed_s=pushed_s,
                empty=empty,
                full=resident_bytes([pid]),
                seconds=seconds,
                cpu=cpu,
                sent={name: sum(after[one] - before[one] for one in of if one) for name, of in ports.items()},
            )


def run(cluster: BenchCluster, plan: Plan) -> Report:
    """Measure all shapes, each once."""
    rows, raw = [], []
    shapes = plan.pick(SHAPES, SHORT)
    base, bound = cluster.topic_name("idle"), max(shape.bound for shape in shapes)
    say(f"{bound:,} topics are created")
    topics = cluster.create_topics(f"{base}-#", bound)
    for shape in shapes:
        found = _measure(cluster, base, shape, pushed=plan.tail != "bookies")
        say(f"{shape}: {found.cpu['engine'] / found.seconds:.2%} of a core")
        sent = {name: f"{count / found.seconds:.0f}" for name, count in found.sent.items()}
        rows.append(
            (
                str(shape),
                f"{found.connected_s:.0f} s",
                f"{found.pushed_s:.0f} s",
                f"{found.cpu['engine'] / found.seconds:.2%}",
                f"{(found.full - found.empty) / shape.read / 1000:.1f} KB",
                f"{found.cpu['owner'] / found.seconds:.1%}",
                sent["owner"],
                sent["bookies"],
                sent["zookeeper"],
            )
        )
        raw.append({"shape": asdict(shape), **asdict(found)})
    cluster.delete_topics(topics)
    columns = (
        "bound topics",
        "subscribed after",
        "pushed after",
        "CPU of the read-only broker",
        "memory per topic and reader",
        "CPU of the owner",
        "bytes per second to the owner",
        "to bookies",
        "to ZooKeeper",
    )
    return Report(columns, tuple(rows), "", (), (), raw, f"once, {MEASURE_S:g} s, a minute after the last SUBSCRIBE")
