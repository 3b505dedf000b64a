"""Idle topics: CPU, memory and requests of one read-only broker, from a thousand to a hundred thousand topics with a reader each.

Nothing is published. Each measurement begins a minute after the last reader has subscribed and its topic is pushed. The owner
has explicit LAC off and evicts its cache once a second: its work for both grows with its topics, not with their messages.
"""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from statistics import linear_regression
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from bench.client import LoadClient
from bench.cpu import resident_bytes
from bench.figures import Bar, Report, Sample
from bench.traffic import sent_bytes
from devstack.console import say
from devstack.errors import DevstackError
from devstack.pulsar.spec import Setting

if TYPE_CHECKING:
    from bench.cluster import BenchCluster
    from bench.plan import Plan
    from devstack.pool import BrokerProcess

TITLE: Final = "Idle topics: memory of a read-only broker with a reader for each topic"
SETTLE_S: Final = 60.0
MEASURE_S: Final = 60.0
PUSHED_S: Final = 900.0
COUNTS: Final = (1_000, 3_000, 10_000, 30_000, 100_000)
SHORT: Final = (100, 200)
CONNECTIONS: Final = 50
OWNER: Final = (
    Setting("broker", "bookkeeperExplicitLacIntervalInMills", "0"),
    Setting("broker", "managedLedgerCacheEvictionIntervalMs", "1000"),
    Setting("broker-env", "PULSAR_MEM", "-Xms512m -Xmx10g -XX:MaxDirectMemorySize=1g"),
    Setting("zookeeper-env", "PULSAR_MEM", "-Xms128m -Xmx2g"),
)
"""Settings of its Pulsar, which loads all topics."""

_PUSHED: Final = re.compile(r'^pulsar_readonly_tail_topics\{source="owner"\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class IdleTopics:
    """Result with one number of topics.

    Attributes:
        count: topics, each with one reader.
        added: those of them that this step added.
        subscribed_s: seconds until the readers of the added topics had subscribed.
        pushed_s: seconds from then until the owner pushed all topics; 0 with `--tail bookies`.
        memory: resident bytes of the broker after the measurement.
        seconds: duration of the measurement.
        cpu: CPU seconds by process group.
        sent: bytes that the broker has sent meanwhile, by peer: `owner`, `bookies`, `zookeeper`.
    """

    count: int
    added: int
    subscribed_s: float
    pushed_s: float
    memory: int
    seconds: float
    cpu: dict[str, float]
    sent: dict[str, int]

    def share(self, group: str) -> float:
        """CPU of a group as a share of a core."""
        return self.cpu[group] / self.seconds


def pushed_topics(engine: BrokerProcess) -> int:
    """Return the number of topics that the owner pushes."""
    found = _PUSHED.search(engine.get("/metrics"))
    return 0 if found is None else int(float(found[1]))


def _wait_pushed(engine: BrokerProcess, count: int) -> float:
    """Wait until the owner pushes as many topics; return the seconds."""
    begin = time.monotonic()
    while time.monotonic() - begin < PUSHED_S:
        if pushed_topics(engine) >= count:
            return time.monotonic() - begin
        time.sleep(1)
    raise DevstackError(f"the owner does not push {count:,} topics after {PUSHED_S:g} s")


def _readers(engine: BrokerProcess, topics: str, count: int) -> LoadClient:
    """Return a client with a reader for each topic, after they have subscribed."""
    return LoadClient(
        "consume",
        broker=engine.address,
        topic=topics,
        consumers=count,
        connections=CONNECTIONS,
        subscription="idle-#",
    )


def _measure(
    cluster: BenchCluster, engine: BrokerProcess, count: int, added: int, readers: LoadClient, *, pushed: bool
) -> IdleTopics:
    """Measure the broker at rest, with `added` topics more than before."""
    pid = engine.process.pid
    pushed_s = _wait_pushed(engine, count) if pushed else 0.0
    say(f"{count:,} topics: {added:,} subscribed after {readers.ready_s:.0f} s, pushed {pushed_s:.0f} s later; waiting")
    time.sleep(SETTLE_S)
    ports: dict[str, list[int | None]] = {
        "owner": [urlsplit(url).port for url in (f"//{cluster.owner}", cluster.endpoints.admin_url)],
        "bookies": [int(address.rpartition(":")[2]) for address in cluster.endpoints.bookies],
        "zookeeper": [int(cluster.endpoints.metadata_store.rpartition(":")[2])],
    }
    before, meter, begin = sent_bytes(pid), cluster.meter(engine), time.monotonic()
    time.sleep(MEASURE_S)
    seconds, cpu, after = time.monotonic() - begin, meter.used(), sent_bytes(pid)
    sent = {name: sum(after[one] - before[one] for one in of if one) for name, of in ports.items()}
    return IdleTopics(count, added, readers.ready_s, pushed_s, resident_bytes([pid]), seconds, cpu, sent)


def run(cluster: BenchCluster, plan: Plan) -> Report:
    """Measure all numbers of topics, each once: the same broker gets more and more readers."""
    counts = plan.pick(COUNTS, SHORT)
    base = cluster.topic_name("idle")
    results: list[IdleTopics] = []
    with ExitStack() as stack:
        engine = stack.enter_context(cluster.engine(f"{base}-.*"))
        empty = resident_bytes([engine.process.pid])
        for step, count in enumerate(counts):
            added = count - (results[-1].count if results else 0)
            say(f"{added:,} topics are created")
            cluster.create_topics(f"{base}-{step}-#", added)
            readers = stack.enter_context(_readers(engine, f"{base}-{step}-#", added))
            results.append(_measure(cluster, engine, count, added, readers, pushed=plan.tail != "bookies"))
            say(f"{count:,} topics: {results[-1].share('engine'):.2%} of a core, {results[-1].memory / 1e6:.0f} MB")
    rows = [
        (
            f"{found.count:,}",
            f"{found.subscribed_s:.0f} s ({found.added / found.subscribed_s:,.0f} per second)",
            f"{found.pushed_s:.0f} s",
            f"{found.memory / 1e6:.0f} MB",
            f"{(found.memory - empty) / found.count / 1000:.1f} KB",
            f"{found.share('engine'):.2%}",
            f"{found.share('owner'):.1%}",
            *(f"{found.sent[peer] / found.seconds:.0f}" for peer in ("owner", "bookies", "zookeeper")),
        )
        for found in results
    ]
    columns = (
        "topics with a reader",
        "the added ones subscribed after",
        "pushed after",
        "memory",
        "memory per topic and reader",
        "CPU of the read-only broker",
        "CPU of the owner",
        "bytes per second to the owner",
        "to bookies",
        "to ZooKeeper",
    )
    bars = tuple(Bar(f"{found.count:,}", "read-only broker", Sample((found.memory / 1e6,))) for found in results)
    points = [(found.count, found.memory) for found in results]
    slope = linear_regression(*zip(*points, strict=True)).slope if len(points) > 1 else 0.0
    notes = (f"Slope: {slope / 1000:.1f} KB for each topic with its reader.",) if slope else ()
    how = f"once, {MEASURE_S:g} s, a minute after the last SUBSCRIBE, explicit LAC off"
    return Report(columns, tuple(rows), "MB", bars, notes, [asdict(found) for found in results], how)
