"""Fan-out: many readers at the tail of a topic that is written to, on its owner and on a read-only broker in turns."""

from __future__ import annotations

import time
import uuid
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.client import LoadClient
from bench.figures import Bar, Report, Sample, ratio
from devstack.console import say

if TYPE_CHECKING:
    from bench.cluster import BenchCluster
    from bench.plan import Plan
    from devstack.pool import BrokerProcess

TITLE: Final = "Fan-out: CPU of the serving broker for a delivered message"
SETTLE_S: Final = 1.5
"""Readers are in, and what that took is over."""

WARM_UP: Final = 3
"""Rounds of the first shape before anything is measured: a broker's compilers take a minute to be done."""

KEPT_UP: Final = 0.97
"""Less than this part of what was published is not keeping up."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Readers, and what is published.

    Attributes:
        readers: each on a connection of its own.
        rate: messages a second.
        size: bytes of a message.
        batched: whether by a producer with a stock producer's batching.
    """

    readers: int
    rate: int
    size: int = 1024
    batched: bool = False

    def __str__(self) -> str:
        size = f"{self.size // 1024} KB" if self.size >= 1024 else f"{self.size} B"
        return f"{self.readers:,} x {self.rate:,}/s, {size}{', batched' if self.batched else ''}"


# 16 KB: at such rates that 160 MB go out a second, which two cores still carry together with the clients.
SHAPES: Final = (
    *(Shape(readers, rate, size) for size in (1024, 100) for readers, rate in ((50, 1000), (200, 100), (1000, 10))),
    Shape(50, 200, 16384),
    Shape(200, 50, 16384),
    Shape(1000, 10, 16384),
    *(Shape(readers, rate, 1024, batched=True) for readers, rate in ((50, 1000), (200, 100), (1000, 10))),
)
SHORT: Final = SHAPES[:3]


@dataclass(frozen=True, slots=True)
class Measured:
    """One side in one round.

    Attributes:
        side: `nobody`, `owner` or `pool`: where the readers are.
        seconds: how long it was measured.
        published: messages.
        delivered: messages, of all readers together.
        cpu: CPU seconds by process group; `client` and `publisher` among them.
        latency_ms: from publishing to delivery.
    """

    side: str
    seconds: float
    published: int
    delivered: int
    cpu: dict[str, float]
    latency_ms: dict[str, float]


@dataclass(frozen=True, slots=True)
class Round:
    """All sides of a round."""

    nobody: Measured
    owner: Measured
    pool: Measured

    @property
    def owner_us(self) -> float:
        """What readers add to the owner's CPU when they are on it: µs for a message delivered."""
        return self._added(self.owner) / self.owner.delivered * 1e6

    @property
    def pool_us(self) -> float:
        """The CPU of the read-only broker, all of it."""
        return self.pool.cpu["engine"] / self.pool.delivered * 1e6

    @property
    def relief(self) -> float:
        """Which part of what the readers add to the owner's CPU is gone when they are on the pool."""
        added = self._added(self.owner) / self.owner.seconds
        return 1 - self._added(self.pool) / self.pool.seconds / added if added > 0 else 0.0

    def _added(self, side: Measured) -> float:
        """Publishing costs the owner the same with and without readers."""
        return side.cpu["owner"] - self.nobody.cpu["owner"] / self.nobody.published * side.published


class Bench:
    """Runs one shape.

    Args:
        cluster: what it runs on.
        shape: the shape.
        seconds: how long each side is measured in each round.
    """

    def __init__(self, cluster: BenchCluster, shape: Shape, seconds: float) -> None:
        self._cluster = cluster
        self._shape = shape
        self._seconds = seconds
        self._topic = cluster.topic("fan-out")

    def run(self, plan: Plan, warm_up: int = 1) -> list[Round]:
        """The rounds, without the first ones, in which the owner's compilers learn the work."""
        shape, cluster = self._shape, self._cluster
        publishing: dict[str, Any] = {"rate": shape.rate, "size": shape.size, "batched": shape.batched}
        rounds = []
        with (
            cluster.engine(self._topic) as engine,
            LoadClient("produce", broker=cluster.owner, topic=self._topic, **publishing) as publisher,
        ):
            for number in range(-warm_up, plan.rounds):
                order = plan.turns(number, ("nobody", "owner", "pool"))
                sides = {side: self._side(side, engine, publisher) for side in order}
                round_ = Round(**sides)
                say(
                    f"{shape}: owner {round_.owner_us:.2f} µs, read-only broker {round_.pool_us:.2f} µs, "
                    f"ratio {round_.pool_us / round_.owner_us:.2f}{' (warming up)' if number < 0 else ''}"
                )
                rounds.append(round_)
        cluster.admin.delete_topic(self._topic)
        return rounds[warm_up:]

    def _side(self, side: str, engine: BrokerProcess, publisher: LoadClient) -> Measured:
        if side == "nobody":
            time.sleep(SETTLE_S)
            return self._measure(side, engine, publisher, None)
        broker = self._cluster.owner if side == "owner" else f"127.0.0.1:{engine.port}"
        consumers: dict[str, Any] = {
            "consumers": self._shape.readers,
            "subscription": f"{uuid.uuid4().hex[:8]}-#",  # a reader that has just gone may still be there for the owner
        }
        with LoadClient("consume", side, broker=broker, topic=self._topic, **consumers) as readers:
            readers.until_messages(self._shape.readers, 60)
            time.sleep(SETTLE_S)
            return self._measure(side, engine, publisher, readers)

    def _measure(self, side: str, engine: BrokerProcess, publisher: LoadClient, readers: LoadClient | None) -> Measured:
        meter = self._cluster.meter(engine)
        published, read = publisher.counted(), readers.counted() if readers else None
        time.sleep(self._seconds)
        cpu = meter.used()
        read_after = readers.counted() if readers else None
        published_after = publisher.counted()
        cpu["publisher"] = published_after.cpu - published.cpu
        if read is None or read_after is None:
            delivered, latency_ms = 0, {}
        else:
            delivered, latency_ms = read_after.messages - read.messages, read_after.latency_ms
            cpu["client"] = read_after.cpu - read.cpu
        return Measured(
            side,
            published_after.seconds - published.seconds,
            published_after.messages - published.messages,
            delivered,
            cpu,
            latency_ms,
        )


def run(cluster: BenchCluster, plan: Plan) -> Report:
    """Measure all shapes."""
    rows, bars, raw, behind = [], [], [], []
    for index, shape in enumerate(plan.pick(SHAPES, SHORT)):
        rounds = Bench(cluster, shape, plan.seconds).run(plan, 1 if index else WARM_UP)
        owner = Sample(tuple(r.owner_us for r in rounds))
        pool = Sample(tuple(r.pool_us for r in rounds))
        over = ratio(pool.values, owner.values)
        busy = Sample(tuple(r.pool.cpu["client"] / r.pool.seconds for r in rounds))
        relief = Sample(tuple(r.relief for r in rounds))
        rows.append((str(shape), owner.text(), pool.text(), over.text(), relief.text(".0%"), busy.text(".0%")))
        bars += [Bar(str(shape), "owner", owner), Bar(str(shape), "read-only broker", pool)]
        raw.append({"shape": asdict(shape), "rounds": [asdict(r) for r in rounds]})
        behind += _behind(shape, rounds)
    columns = (
        "readers x messages",
        "owner, µs a message",
        "read-only broker, µs",
        "ratio",
        "owner relieved of",
        "client, of a core",
    )
    return Report(columns, tuple(rows), "µs of CPU a message", tuple(bars), tuple(behind), raw)


def _behind(shape: Shape, rounds: list[Round]) -> list[str]:
    """Say where a side did not deliver all that was published."""
    told = []
    for side in ("owner", "pool"):
        sides: list[Measured] = [getattr(r, side) for r in rounds]
        part = Sample(tuple(m.delivered / max(1, m.published * shape.readers) for m in sides))
        if part.low < KEPT_UP:
            told.append(f"{shape}: on the {side} {part.text('.0%')} of what was published was delivered in the time.")
    return told
