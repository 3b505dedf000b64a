"""The work of a bench in rounds: no readers, the same readers on the owner, and on a read-only broker, in turns."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.client import LoadClient
from bench.figures import Sample, ratio
from devstack.console import say
from devstack.pulsar.counters import entries_read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.cluster import BenchCluster
    from bench.plan import Plan
    from devstack.pool import BrokerProcess

SETTLE_S: Final = 1.5
"""Time after the first message of readers, so that the effects of their connects are over."""

SETTLE_MESSAGES: Final = 2
"""Messages of each topic after that: the owner's caches and the read-only broker's pushes begin with a topic's first one."""

WARM_UP: Final = 3
"""Rounds of the first work before the measurement: the JIT compilers of a stock broker need a minute."""

FIRST_S: Final = 120.0
KEPT_UP: Final = 0.97
"""Share of the published messages below which a side does not keep up."""

BASELINE: Final = "baseline"
"""Side without readers."""
OWNER: Final = "owner"
POOL: Final = "pool"


@dataclass(frozen=True, slots=True)
class Workload:
    """Readers and publishing.

    Attributes:
        readers: consumers, each on a connection of its own.
        rate: messages per second.
        size: bytes of a message.
        batched: whether the producer batches as stock producers do.
        shared: whether all readers are consumers of one Shared subscription and ack; otherwise each has its own subscription.
        topics: number of topics; the readers are distributed evenly.
    """

    readers: int
    rate: float
    size: int = 1024
    batched: bool = False
    shared: bool = False
    topics: int = 1

    def __str__(self) -> str:
        if self.topics > 1:
            return f"{self.topics:,} topics, {self.rate:g}/s in total"
        size = f"{self.size // 1024} KB" if self.size >= 1024 else f"{self.size} B"
        return f"{self.readers:,} x {self.rate:,g}/s, {size}{', batched' if self.batched else ''}"

    @property
    def copies(self) -> float:
        """Number of consumers that get each message."""
        return 1 if self.shared else self.readers / self.topics


@dataclass(frozen=True, slots=True)
class Measured:
    """One side in one round.

    Attributes:
        side: `baseline`, `owner` or `pool`.
        seconds: duration of the measurement.
        published: published messages.
        entries: entries of these messages.
        delivered: messages delivered to all readers together.
        cpu: CPU seconds by process group, with `client` and `publisher`.
        latency_ms: time from publishing to delivery.
        bookie_reads: entries that the bookies read from storage.
    """

    side: str
    seconds: float
    published: int
    delivered: int
    cpu: dict[str, float]
    latency_ms: dict[str, float]
    entries: int = 0
    bookie_reads: int = 0


@dataclass(frozen=True, slots=True)
class Round:
    """All sides of a round. Figures of CPU need the baseline."""

    owner: Measured
    pool: Measured
    baseline: Measured | None = None

    def __str__(self) -> str:
        if self.baseline is None:
            return ", ".join(f"{one.side} p99 {one.latency_ms['p99']:.1f} ms" for one in (self.owner, self.pool))
        cost = ratio([self.pool_us], [self.owner_us]).text()
        return f"owner {self.owner_us:.2f} µs, read-only broker {self.pool_us:.2f} µs, ratio {cost}"

    @property
    def owner_us(self) -> float:
        """CPU that readers on the owner add there, in µs per delivered message."""
        return self._added(self.owner) / self.owner.delivered * 1e6

    @property
    def pool_us(self) -> float:
        """All CPU of the read-only broker, in µs per delivered message."""
        return self.pool.cpu["engine"] / self.pool.delivered * 1e6

    @property
    def left_us(self) -> float:
        """CPU that readers on the read-only broker add at the owner, in µs per delivered message."""
        return self._added(self.pool) / self.pool.delivered * 1e6

    @property
    def total_us(self) -> float:
        """CPU of readers on the read-only broker, there and at the owner, in µs per delivered message."""
        return self.pool_us + self.left_us

    @property
    def together(self) -> float:
        """All CPU of owner and read-only broker, publishing included, as a ratio to that of an owner with the readers."""
        alone = self.owner.cpu["owner"] / self.owner.published
        return (self.pool.cpu["owner"] + self.pool.cpu["engine"]) / self.pool.published / alone

    @property
    def saved(self) -> float:
        """Share of the readers' CPU at the owner that is saved when they are on the read-only broker."""
        added = self._added(self.owner) / self.owner.seconds
        return 1 - self._added(self.pool) / self.pool.seconds / added if added > 0 else 0.0

    def _added(self, side: Measured) -> float:
        """Return the CPU that readers add at the owner, in seconds: all but the cost of publishing, from the baseline."""
        assert self.baseline is not None
        return side.cpu["owner"] - self.baseline.cpu["owner"] / self.baseline.published * side.published


class Sides:
    """Measures one work.

    Args:
        cluster: the bench's Pulsar.
        work: the work.
        seconds: duration of each side in each round.
        cpu: whether figures of CPU are needed, and so a baseline.
    """

    def __init__(self, cluster: BenchCluster, work: Workload, seconds: float, *, cpu: bool = True) -> None:
        self._sides = (BASELINE, OWNER, POOL) if cpu else (OWNER, POOL)
        self._cluster = cluster
        self._work = work
        self._seconds = seconds
        self._base = cluster.topic_name("work")
        self._topic = self._base if work.topics == 1 else f"{self._base}-#"

    def run(self, plan: Plan, warm_up: int = 1) -> list[Round]:
        """Measure all rounds, and return them without the warm-up, in which the owner's code is compiled."""
        work, cluster = self._work, self._cluster
        publishing: dict[str, Any] = {
            "rate": work.rate,
            "size": work.size,
            "batched": work.batched,
            "topics": work.topics,
        }
        rounds = []
        topics = cluster.create_topics(self._topic, work.topics)
        with (
            cluster.engine(f"{self._base}.*" if work.topics > 1 else self._topic) as engine,
            LoadClient("produce", broker=cluster.owner, topic=self._topic, **publishing) as publisher,
        ):
            for number in range(-warm_up, plan.rounds):
                order = plan.turns(number, self._sides)
                round_ = Round(**{side: self._side(side, engine, publisher) for side in order})
                say(f"{work}: {round_}{' (warming up)' if number < 0 else ''}")
                rounds.append(round_)
        cluster.delete_topics(topics)
        return rounds[warm_up:]

    def _side(self, side: str, engine: BrokerProcess, publisher: LoadClient) -> Measured:
        broker = None if side == BASELINE else self._cluster.owner if side == OWNER else engine.address
        return measure_side(self._cluster, self._work, self._topic, side, broker, engine, publisher, self._seconds)


def measure_side(
    cluster: BenchCluster,
    work: Workload,
    topic: str,
    side: str,
    broker: str | None,
    engine: BrokerProcess,
    publisher: LoadClient,
    seconds: float,
) -> Measured:
    """Measure one side of one round.

    Args:
        cluster: the bench's Pulsar.
        work: number and kind of the readers.
        topic: name of the topic; `#` is the number of each of several.
        side: name of the side.
        broker: `host:port` that serves the readers; None without readers.
        engine: the read-only broker whose CPU is measured.
        publisher: publishes all the time.
        seconds: duration.
    """
    if broker is None:
        time.sleep(SETTLE_S)
        return _measure(cluster, side, engine, publisher, None, seconds)
    name = uuid.uuid4().hex[:8]  # the owner may still have the subscription of an earlier reader
    consumers: dict[str, Any] = {"consumers": work.readers, "subscription": f"{name}-#"}
    if work.shared:
        consumers.update(subscription=name, type="Shared", durable=True, ack=True)
    with LoadClient("consume", side, broker=broker, topic=topic, **consumers) as readers:
        readers.until_messages(1, FIRST_S)
        time.sleep(SETTLE_S + SETTLE_MESSAGES * work.topics / work.rate)
        measured = _measure(cluster, side, engine, publisher, readers, seconds)
    if work.shared:
        cluster.admin.delete_subscription(topic, name, force=True)
    return measured


def _measure(
    cluster: BenchCluster,
    side: str,
    engine: BrokerProcess,
    publisher: LoadClient,
    readers: LoadClient | None,
    seconds: float,
) -> Measured:
    reads = entries_read(cluster.endpoints)
    meter = cluster.meter(engine)
    published, read = publisher.counted(), readers.counted() if readers else None
    time.sleep(seconds)
    cpu = meter.used()
    read_after = readers.counted() if readers else None
    published_after = publisher.counted()
    cpu["publisher"] = published_after.cpu - published.cpu
    delivered, latency_ms = 0, dict[str, float]()
    if read is not None and read_after is not None:
        delivered, latency_ms = read_after.messages - read.messages, read_after.latency_ms
        cpu["client"] = read_after.cpu - read.cpu
    return Measured(
        side=side,
        seconds=published_after.seconds - published.seconds,
        published=published_after.messages - published.messages,
        delivered=delivered,
        cpu=cpu,
        latency_ms=latency_ms,
        entries=published_after.entries - published.entries,
        bookie_reads=entries_read(cluster.endpoints) - reads,
    )


def run_all(
    cluster: BenchCluster,
    plan: Plan,
    works: Sequence[Workload],
    seconds: float = 0.0,
    warm_up: int = WARM_UP,
    *,
    cpu: bool = True,
) -> list[tuple[Workload, list[Round]]]:
    """Run several works, the first of them with a longer warm-up.

    Args:
        cluster: the bench's Pulsar.
        plan: rounds and seconds.
        works: the works.
        seconds: least duration of each side.
        warm_up: rounds of the first work before the measurement.
        cpu: whether figures of CPU are needed.
    """
    seconds = max(seconds, plan.seconds)
    return [
        (work, Sides(cluster, work, seconds, cpu=cpu).run(plan, 1 if index else warm_up))
        for index, work in enumerate(works)
    ]


def sample(rounds: Sequence[Round], name: str) -> Sample:
    """Return a property of all rounds."""
    return Sample(tuple(getattr(round_, name) for round_ in rounds))


def busy(rounds: Sequence[Round], side: str, group: str) -> Sample:
    """Return the share of a core that a group of processes used."""
    sides: list[Measured] = [getattr(round_, side) for round_ in rounds]
    return Sample(tuple(measured.cpu[group] / measured.seconds for measured in sides))


def behind(work: Workload, rounds: Sequence[Round]) -> list[str]:
    """Return a note for each side that did not keep up with publishing."""
    notes = []
    for side in (OWNER, POOL):
        sides: list[Measured] = [getattr(round_, side) for round_ in rounds]
        part = Sample(tuple(measured.delivered / max(1, measured.published * work.copies) for measured in sides))
        if part.median < KEPT_UP:
            notes.append(f"{work}, {side}: {part.text('.0%')} of the published messages were delivered in time.")
    return notes
