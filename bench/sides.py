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
"""Readers are in, and what that took is over."""

WARM_UP: Final = 3
"""Rounds of the first work before anything is measured: a broker's compilers take a minute to be done."""

FIRST_S: Final = 120.0
KEPT_UP: Final = 0.97
"""Less than this part of what was published is not keeping up."""

NOBODY: Final = "nobody"
OWNER: Final = "owner"
POOL: Final = "pool"


@dataclass(frozen=True, slots=True)
class Work:
    """Who reads, and what is published.

    Attributes:
        readers: consumers, each on a connection of its own.
        rate: messages a second.
        size: bytes of a message.
        batched: whether by a producer with a stock producer's batching.
        shared: whether all are consumers of one Shared subscription and ack; else each has a reader's own.
        topics: so many, each read by as many of the readers.
    """

    readers: int
    rate: float
    size: int = 1024
    batched: bool = False
    shared: bool = False
    topics: int = 1

    def __str__(self) -> str:
        size = f"{self.size // 1024} KB" if self.size >= 1024 else f"{self.size} B"
        return f"{self.readers:,} x {self.rate:,g}/s, {size}{', batched' if self.batched else ''}"

    @property
    def copies(self) -> float:
        """How many consumers get each message."""
        return 1 if self.shared else self.readers / self.topics


@dataclass(frozen=True, slots=True)
class Measured:
    """One side in one round.

    Attributes:
        side: `nobody`, `owner` or `pool`: where the readers are.
        seconds: how long it was measured.
        published: messages.
        entries: what they were published as.
        delivered: messages, of all readers together.
        cpu: CPU seconds by process group; `client` and `publisher` among them.
        latency_ms: from publishing to delivery.
        bookie_reads: entries that the bookies have read from storage.
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
    """All sides of a round; without `nobody` it tells nothing of CPU."""

    owner: Measured
    pool: Measured
    nobody: Measured | None = None

    def __str__(self) -> str:
        if self.nobody is None:
            return ", ".join(f"{one.side} p99 {one.latency_ms['p99']:.1f} ms" for one in (self.owner, self.pool))
        cost = ratio([self.pool_us], [self.owner_us]).text()
        return f"owner {self.owner_us:.2f} µs, read-only broker {self.pool_us:.2f} µs, ratio {cost}"

    @property
    def owner_us(self) -> float:
        """What readers add to the owner's CPU when they are on it: µs for a message delivered."""
        return self._added(self.owner) / self.owner.delivered * 1e6

    @property
    def pool_us(self) -> float:
        """The CPU of the read-only broker, all of it: µs for a message delivered."""
        return self.pool.cpu["engine"] / self.pool.delivered * 1e6

    @property
    def left_us(self) -> float:
        """What readers on the read-only broker still add to the owner's CPU: µs for a message delivered."""
        return self._added(self.pool) / self.pool.delivered * 1e6

    @property
    def relief(self) -> float:
        """Which part of what the readers add to the owner's CPU is gone when they are on the pool."""
        added = self._added(self.owner) / self.owner.seconds
        return 1 - self._added(self.pool) / self.pool.seconds / added if added > 0 else 0.0

    def _added(self, side: Measured) -> float:
        """Publishing costs the owner the same with and without readers."""
        assert self.nobody is not None
        return side.cpu["owner"] - self.nobody.cpu["owner"] / self.nobody.published * side.published


class Sides:
    """Runs one work.

    Args:
        cluster: what it runs on.
        work: the work.
        seconds: how long each side is measured in each round.
        cpu: whether CPU matters; then it is measured without readers, too.
    """

    def __init__(self, cluster: BenchCluster, work: Work, seconds: float, *, cpu: bool = True) -> None:
        self._sides = (NOBODY, OWNER, POOL) if cpu else (OWNER, POOL)
        self._cluster = cluster
        self._work = work
        self._seconds = seconds
        self._base = cluster.topic_name("work")
        self._topic = self._base if work.topics == 1 else f"{self._base}-#"

    def run(self, plan: Plan, warm_up: int = 1) -> list[Round]:
        """The rounds, without the first ones, in which the owner's compilers learn the work."""
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
        broker = None if side == NOBODY else self._cluster.owner if side == OWNER else engine.address
        return measure_side(self._cluster, self._work, self._topic, side, broker, engine, publisher, self._seconds)


def measure_side(
    cluster: BenchCluster,
    work: Work,
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
    name = uuid.uuid4().hex[:8]  # a reader that has just gone may still be there for the owner
    consumers: dict[str, Any] = {"consumers": work.readers, "subscription": f"{name}-#"}
    if work.shared:
        consumers.update(subscription=name, type="Shared", durable=True, ack=True)
    with LoadClient("consume", side, broker=broker, topic=topic, **consumers) as readers:
        readers.until_messages(1, FIRST_S)
        time.sleep(SETTLE_S)
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
    works: Sequence[Work],
    seconds: float = 0.0,
    warm_up: int = WARM_UP,
    *,
    cpu: bool = True,
) -> list[tuple[Work, list[Round]]]:
    """Run several works, the first of them with a longer warm-up.

    Args:
        cluster: what they run on.
        plan: rounds, and seconds for each.
        works: the works.
        seconds: at least so long for each side.
        warm_up: rounds of the first work before any counts.
        cpu: whether CPU matters.
    """
    seconds = max(seconds, plan.seconds)
    return [
        (work, Sides(cluster, work, seconds, cpu=cpu).run(plan, 1 if index else warm_up))
        for index, work in enumerate(works)
    ]


def sample(rounds: Sequence[Round], name: str) -> Sample:
    """A property of the rounds."""
    return Sample(tuple(getattr(round_, name) for round_ in rounds))


def busy(rounds: Sequence[Round], side: str, who: str) -> Sample:
    """How much of a core a group of processes used."""
    sides: list[Measured] = [getattr(round_, side) for round_ in rounds]
    return Sample(tuple(measured.cpu[who] / measured.seconds for measured in sides))


def behind(work: Work, rounds: Sequence[Round]) -> list[str]:
    """Say where a side did not deliver all that was published."""
    told = []
    for side in (OWNER, POOL):
        sides: list[Measured] = [getattr(round_, side) for round_ in rounds]
        part = Sample(tuple(measured.delivered / max(1, measured.published * work.copies) for measured in sides))
        if part.median < KEPT_UP:
            told.append(f"{work}, {side}: {part.text('.0%')} of what was published was delivered in the time.")
    return told
