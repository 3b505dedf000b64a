"""Catch-up: one consumer reads a long topic from its beginning, from the bookies and from the read-only broker's cache.

The owner, and the read-only broker that reads from bookies, run through all rounds. The cache of the latter is smaller than the
topic, so each read evicts the entries that the next one would need. Another read-only broker, with a cache for the whole topic,
is started in each round, and read three times: the first read fills its cache, that of large entries the second one.
"""

from __future__ import annotations

import uuid
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.client import LoadClient
from bench.figures import Bar, Report, Sample, ratio
from bench.sides import OWNER
from devstack.console import say

if TYPE_CHECKING:
    from bench.cluster import BenchCluster
    from bench.plan import Plan
    from devstack.pool import BrokerProcess

TITLE: Final = "Catch-up of one consumer: MB per CPU second of the serving broker"
WRITE_S: Final = 1800.0
READ_S: Final = 600.0
SMALL_CACHE: Final = "64MiB"
SMALL_CACHE_SHORT: Final = "8MiB"
CACHE: Final = "4GiB"
SHORT_PART: Final = 10

BOOKIES: Final = "bookies"
READS: Final = ("first", "second", "third")
WAYS: Final = {
    OWNER: "owner",
    BOOKIES: "from bookies",
    **{read: f"{read} read" for read in READS},
}


@dataclass(frozen=True, slots=True)
class Backlog:
    """A topic to read.

    Attributes:
        size: bytes of a message.
        count: number of messages.
        batched: whether the producer batches as stock producers do.
    """

    size: int
    count: int
    batched: bool = False

    def __str__(self) -> str:
        size = f"{self.size // 1024} KB" if self.size >= 1024 else f"{self.size} B"
        return f"{self.size * self.count / 1e6:,.0f} MB, {size}{', batched' if self.batched else ''}"


# 100 B: fewer bytes, because a million entries take minutes to write.
BACKLOGS: Final = (Backlog(1024, 1_000_000), Backlog(1024, 1_000_000, batched=True), Backlog(100, 1_000_000))


@dataclass(frozen=True, slots=True)
class Reading:
    """One way of reading, in one round.

    Attributes:
        way: one of WAYS.
        bytes: bytes of payloads.
        seconds: elapsed time.
        cpu: CPU seconds by process group, with `client`.
    """

    way: str
    bytes: int
    seconds: float
    cpu: dict[str, float]

    @property
    def per_cpu_second(self) -> float:
        """MB per CPU second of the serving broker."""
        return self.bytes / 1e6 / max(self.cpu["owner" if self.way == OWNER else "engine"], 0.01)


def _read(cluster: BenchCluster, topic: str, backlog: Backlog, way: str, engine: BrokerProcess | None) -> Reading:
    broker = cluster.owner if engine is None else f"127.0.0.1:{engine.port}"
    meter = cluster.meter(engine)
    options: dict[str, Any] = {"earliest": True, "subscription": uuid.uuid4().hex[:8]}
    with LoadClient("consume", way, broker=broker, topic=topic, **options) as reader:
        begin = reader.counted()
        end = reader.until_messages(backlog.count, READ_S)
        cpu = meter.used()
        cpu["client"] = end.cpu
        return Reading(way, end.bytes, end.last - begin.seconds + reader.ready_s, cpu)


def _round(
    cluster: BenchCluster, topic: str, backlog: Backlog, steady: BrokerProcess, sides: list[str]
) -> dict[str, Reading]:
    found: dict[str, Reading] = {}
    for side in sides:
        cluster.rest()
        if side == OWNER:
            found[OWNER] = _read(cluster, topic, backlog, OWNER, None)
            continue
        found[BOOKIES] = _read(cluster, topic, backlog, BOOKIES, steady)
        with cluster.engine(topic, options=("--cache-size", CACHE)) as engine:
            for read in READS:
                found[read] = _read(cluster, topic, backlog, read, engine)
    for way, name in WAYS.items():
        say(f"{backlog}, {name}: {found[way].per_cpu_second:.0f} MB per CPU second, {found[way].seconds:.1f} s")
    return found


def run(cluster: BenchCluster, plan: Plan) -> Report:
    """Measure all backlogs."""
    rows, bars, raw = [], [], []
    small = SMALL_CACHE_SHORT if plan.short else SMALL_CACHE
    short = tuple(Backlog(b.size, b.count // SHORT_PART, b.batched) for b in BACKLOGS)
    for backlog in plan.pick(BACKLOGS, short):
        topic = cluster.topic("catch-up")
        say(f"writing {backlog}")
        writing: dict[str, Any] = {"size": backlog.size, "count": backlog.count, "batched": backlog.batched}
        with LoadClient("produce", broker=cluster.owner, topic=topic, **writing) as publisher:
            publisher.until_done(WRITE_S)
        with cluster.engine(topic, options=("--cache-size", small)) as steady:
            turns = (plan.turns(number, (OWNER, BOOKIES)) for number in range(plan.rounds + 1))
            rounds = [_round(cluster, topic, backlog, steady, sides) for sides in turns][1:]
        cluster.delete_topics([topic])
        ways = {way: Sample(tuple(r[way].per_cpu_second for r in rounds)) for way in WAYS}
        clock = {way: Sample(tuple(r[way].bytes / 1e6 / r[way].seconds for r in rounds)) for way in WAYS}
        times = [ratio(one.values, ways[OWNER].values).text(".2f") for way, one in ways.items() if way != OWNER]
        rows.append(
            (
                str(backlog),
                *(one.text(".0f") for one in ways.values()),
                *times,
                *(one.text(".0f") for one in clock.values()),
            )
        )
        bars += [Bar(str(backlog), name, ways[way]) for way, name in WAYS.items()]
        raw.append(
            {
                "backlog": asdict(backlog),
                "rounds": [{way: asdict(reading) for way, reading in r.items()} for r in rounds],
            }
        )
    names = list(WAYS.values())
    columns = (
        "backlog",
        "owner, MB per CPU second",
        *names[1:],
        *(f"ratio, {name}" for name in names[1:]),
        *(f"{name}, MB/s" for name in names),
    )
    return Report(columns, tuple(rows), "MB per CPU second", tuple(bars), (), raw, how=f"{plan.rounds} rounds")
