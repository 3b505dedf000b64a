"""Very many durable subscriptions of one topic: time until all are connected, and latency of a message to all of them."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.client import LoadClient
from bench.cpu import cpu_seconds, resident_bytes
from bench.figures import Bar, Report, Sample
from devstack.console import say

if TYPE_CHECKING:
    from bench.cluster import BenchCluster
    from bench.plan import Plan
    from devstack.pool import BrokerProcess

TITLE: Final = "Subscriptions of one topic: mean end-to-end latency at 1 message per second"
COUNTS: Final = (1_000, 10_000, 40_000)
CONNECTIONS: Final = 40
MEASURE_S: Final = 30.0
FIRST_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Crowd:
    """One side with one number of subscriptions.

    Attributes:
        side: `owner` or `pool`.
        count: number of subscriptions.
        connected_s: seconds from the first connection to the last SUBSCRIBE's answer.
        latency_ms: time from publishing to delivery, of all messages.
        empty: resident bytes of the serving broker before the subscriptions.
        full: resident bytes after the measurement.
        engine_cpu: CPU seconds of the read-only broker in total.
        owner_cpu: CPU seconds of the owner in total.
        delivered: measured messages of all subscriptions together.
    """

    side: str
    count: int
    connected_s: float
    latency_ms: dict[str, float]
    empty: int
    full: int
    engine_cpu: float
    owner_cpu: float
    delivered: int


def _crowd(cluster: BenchCluster, side: str, count: int) -> Crowd:
    """Measure one side with a new topic and a restarted owner."""
    cluster.restart_owner()
    cluster.rest()
    topic = cluster.topic("crowd")
    try:
        if side == "owner":
            return _measure(cluster, side, count, topic, None)
        with cluster.engine(topic) as engine:
            return _measure(cluster, side, count, topic, engine)
    finally:
        cluster.delete_topics([topic])


def _measure(cluster: BenchCluster, side: str, count: int, topic: str, engine: BrokerProcess | None) -> Crowd:
    owner = cluster.pid("broker-0")
    serving = [owner if engine is None else engine.process.pid]
    broker = cluster.owner if engine is None else f"127.0.0.1:{engine.port}"
    empty, before = resident_bytes(serving), (cpu_seconds(serving), cpu_seconds([owner]))
    crowd: dict[str, Any] = {"consumers": count, "connections": CONNECTIONS, "durable": True}
    with LoadClient("consume", side, broker=broker, topic=topic, **crowd) as readers:
        with LoadClient("produce", broker=cluster.owner, topic=topic, rate=1) as publisher:
            begin = readers.until_messages(2 * count, FIRST_S)  # the first messages are not measured
            time.sleep(MEASURE_S)
            publisher.counted()
            end = readers.counted()
        found = Crowd(
            side=side,
            count=count,
            connected_s=readers.ready_s,
            latency_ms=end.latency_ms,
            empty=empty,
            full=resident_bytes(serving),
            engine_cpu=0.0 if engine is None else cpu_seconds(serving) - before[0],
            owner_cpu=cpu_seconds([owner]) - before[1],
            delivered=end.messages - begin.messages,
        )
    say(
        f"{count:,} subscriptions on the {side}: connected after {found.connected_s:.1f} s, "
        f"mean {found.latency_ms['mean']:.0f} ms, p99 {found.latency_ms['p99']:.0f} ms"
    )
    return found


def run(cluster: BenchCluster, plan: Plan) -> Report:
    """Measure all counts, each side once, as each takes minutes."""
    rows, bars, raw = [], [], []
    for number, count in enumerate(plan.pick(COUNTS, COUNTS[:1])):
        sides = {side: _crowd(cluster, side, count) for side in plan.turns(number, ("owner", "pool"))}
        owner, pool = sides["owner"], sides["pool"]
        row = (
            f"{count:,}",
            f"{owner.connected_s:.1f} s",
            f"{pool.connected_s:.1f} s",
            f"{owner.latency_ms['mean']:.0f} / {owner.latency_ms['p99']:.0f}",
            f"{pool.latency_ms['mean']:.0f} / {pool.latency_ms['p99']:.0f}",
            f"{pool.latency_ms['mean'] / owner.latency_ms['mean']:.2f}",
            f"{pool.full / 1e6:.0f} MB",
            f"{(pool.full - pool.empty) / count / 1000:.1f} KB",
            f"{pool.engine_cpu:.1f} s",
        )
        rows.append(row)
        for side, series in ((owner, "owner"), (pool, "read-only broker")):
            bars.append(Bar(f"{count:,}", series, Sample((side.latency_ms["mean"],))))
        raw += [asdict(side) for side in sides.values()]
    columns = (
        "subscriptions",
        "connected after, owner",
        "connected after, read-only broker",
        "owner, mean / p99 ms",
        "read-only broker, mean / p99 ms",
        "ratio of means",
        "memory",
        "memory per subscription",
        "CPU in total",
    )
    how = f"once per side, {MEASURE_S:g} s of messages"
    return Report(columns, tuple(rows), "ms", tuple(bars), (), raw, how)
