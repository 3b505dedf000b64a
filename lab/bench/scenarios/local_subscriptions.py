"""Very many durable subscriptions of one topic, whose cursors the pool keeps itself: two read-only brokers beside the owner."""

from __future__ import annotations

import re
import time
import urllib.request
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from bench.client import LoadClient
from bench.cpu import cpu_seconds, resident_bytes
from bench.figures import Bar, Report, Sample
from devstack.console import say

if TYPE_CHECKING:
    from bench.cluster import BenchCluster
    from bench.plan import Plan
    from devstack.pool import BrokerProcess, Pool

TITLE: Final = "Local subscriptions of one topic: mean end-to-end latency at 1 message per second"
COUNTS: Final = (10_000, 40_000, 100_000)
OWNER_COUNTS: Final = (10_000, 40_000)
"""With 100,000 a stock owner needs far more than ten minutes until all have subscribed."""

BROKERS: Final = 2
CONNECTIONS: Final = 40
FEW: Final = 200
"""Enough subscriptions for every partition to have some."""

MEASURE_S: Final = 30.0
FIRST_S: Final = 300.0
SETTLE_S: Final = 15.0
"""Time after the first messages: their delivery is slower, and overlaps the end of the SUBSCRIBEs."""
STORED_S: Final = 30.0
OPTIONS: Final = ("--cursors", "local", "--cursor-partitions", "16")
_BUCKET: Final = re.compile(r'pulsar_readonly_local_cursor_commit_duration_seconds_bucket\{le="([^"]+)"\} ([0-9.e+]+)')


@dataclass(frozen=True, slots=True)
class Crowd:
    """One side with one number of subscriptions.

    Attributes:
        side: `owner` or `pool`.
        count: number of subscriptions.
        connected_s: seconds from the first connection to the last SUBSCRIBE's answer, redirects included.
        latency_ms: time from publishing to delivery, of all messages.
        empty: resident bytes of the serving brokers before the subscriptions.
        full: resident bytes after the measurement.
        pool_cpu: share of a core of the read-only brokers during the measurement.
        owner_cpu: share of a core of the owner during the measurement.
        owner_bytes: resident bytes of the owner after the measurement.
        cold_start_s: seconds until one new broker has all cursors after the death of all; 0 for the owner.
        stored_late: commits of the measurement that took more than a second; 0 for the owner.
    """

    side: str
    count: int
    connected_s: float
    latency_ms: dict[str, float]
    empty: int
    full: int
    pool_cpu: float
    owner_cpu: float
    owner_bytes: int
    stored_late: int = 0
    cold_start_s: float = 0.0


def _commits(brokers: list[BrokerProcess]) -> dict[str, float]:
    """Return the commits of all brokers by the upper bound of their latency, cumulated."""
    found: dict[str, float] = {}
    for broker in brokers:
        with urllib.request.urlopen(f"{broker.http_url}/metrics", timeout=30) as answer:  # noqa: S310 - our own broker
            for bound, value in _BUCKET.findall(answer.read().decode()):
                found[bound] = found.get(bound, 0.0) + float(value)
    return found


def _late(before: dict[str, float], after: dict[str, float]) -> int:
    """Return the number of commits between two counts that took more than a second."""
    return int((after["+Inf"] - before["+Inf"]) - (after["1"] - before["1"]))


def _measure(cluster: BenchCluster, side: str, count: int, topic: str, brokers: list[BrokerProcess]) -> Crowd:
    owner = cluster.pid("broker-0")
    serving = [broker.process.pid for broker in brokers] or [owner]
    empty = resident_bytes(serving)
    crowd: dict[str, Any] = {"consumers": count, "connections": CONNECTIONS, "durable": True, "ack": True}
    if brokers:
        # Every connection gets one more to the other broker.
        crowd |= {"redirects": True, "connections": CONNECTIONS // 2}
    address = brokers[0].address if brokers else cluster.owner
    with LoadClient("consume", side, broker=address, topic=topic, **crowd) as readers:
        with LoadClient("produce", broker=cluster.owner, topic=topic, rate=1) as publisher:
            readers.until_messages(2 * count, FIRST_S)
            time.sleep(SETTLE_S)
            commits = _commits(brokers) if brokers else {}
            cpu = cpu_seconds(serving), cpu_seconds([owner]), time.monotonic()
            readers.counted()
            time.sleep(MEASURE_S)
            publisher.counted()
            end = readers.counted()
            seconds = time.monotonic() - cpu[2]
            used = cpu_seconds(serving) - cpu[0], cpu_seconds([owner]) - cpu[1]
        found = Crowd(
            side=side,
            count=count,
            connected_s=readers.ready_s,
            latency_ms=end.latency_ms,
            empty=empty,
            full=resident_bytes(serving),
            pool_cpu=used[0] / seconds if brokers else 0.0,
            owner_cpu=used[1] / seconds,
            owner_bytes=resident_bytes([owner]),
            stored_late=_late(commits, _commits(brokers)) if brokers else 0,
        )
    say(
        f"{count:,} subscriptions, kept by the {side}: connected after {found.connected_s:.1f} s, "
        f"mean {found.latency_ms['mean']:.0f} ms, p99 {found.latency_ms['p99']:.0f} ms, "
        f"{(found.full - found.empty) / count / 1000:.1f} KB each, owner {found.owner_cpu:.0%} of a core, "
        f"pool {found.pool_cpu:.0%}, commits above 1 s: {found.stored_late}"
    )
    return found


def _cold_start(pool: Pool, topic: str) -> float:
    """Kill all brokers, start one, and return the seconds until it serves some subscriptions of every partition.

    The time includes the end of the dead brokers' sessions.
    """
    for broker in pool.brokers:
        broker.kill()
    begin = time.monotonic()
    pool.restart(0)
    some: dict[str, Any] = {"consumers": FEW, "connections": 1, "durable": True, "redirects": True}
    with LoadClient("consume", "cold", broker=pool.brokers[0].address, topic=topic, **some):
        return time.monotonic() - begin


def _crowd(cluster: BenchCluster, side: str, count: int) -> Crowd:
    """Measure one side with a new topic and a restarted owner."""
    cluster.restart_owner()
    cluster.rest()
    topic = cluster.topic("local")
    try:
        if side == "owner":
            return _measure(cluster, side, count, topic, [])
        with cluster.pool(BROKERS, topic, options=OPTIONS) as pool:
            found = _measure(cluster, side, count, topic, pool.brokers)
            cold = _cold_start(pool, topic)
        say(f"{count:,} subscriptions: a single new broker has them all after {cold:.1f} s")
        return replace(found, cold_start_s=cold)
    finally:
        cluster.delete_topics([topic])


def run(cluster: BenchCluster, plan: Plan) -> Report:
    """Measure all counts, each side once, as each takes minutes."""
    rows, bars, raw = [], [], []
    for number, count in enumerate(plan.pick(COUNTS, COUNTS[:1])):
        sides = ("owner", "pool") if count in OWNER_COUNTS else ("pool",)
        found = {side: _crowd(cluster, side, count) for side in plan.turns(number, sides)}
        owner, pool = found.get("owner"), found["pool"]
        rows.append(
            (
                f"{count:,}",
                "-" if owner is None else f"{owner.connected_s:.1f} s",
                f"{pool.connected_s:.1f} s",
                "-" if owner is None else f"{owner.latency_ms['mean']:.0f} / {owner.latency_ms['p99']:.0f}",
                f"{pool.latency_ms['mean']:.0f} / {pool.latency_ms['p99']:.0f}",
                f"{(pool.full - pool.empty) / count / 1000:.1f} KB",
                "-" if owner is None else f"{owner.owner_cpu:.0%}, {owner.owner_bytes / 1e6:,.0f} MB",
                f"{pool.owner_cpu:.0%}, {pool.owner_bytes / 1e6:,.0f} MB",
                f"{pool.pool_cpu:.0%}",
                f"{pool.stored_late}",
                f"{pool.cold_start_s:.1f} s",
            )
        )
        for side, series in ((owner, "owner"), (pool, "read-only brokers")):
            if side is not None:
                bars.append(Bar(f"{count:,}", series, Sample((side.latency_ms["mean"],))))
        raw += [asdict(one) for one in found.values()]
    columns = (
        "subscriptions",
        "connected after, owner",
        "connected after, read-only brokers",
        "owner, mean / p99 ms",
        "read-only brokers, mean / p99 ms",
        "memory per subscription",
        "owner's CPU and memory, alone",
        "owner's CPU and memory, with the pool",
        "CPU of the read-only brokers",
        "commits above 1 s",
        "cold start",
    )
    how = f"once per side, {MEASURE_S:g} s of messages, {BROKERS} read-only brokers"
    return Report(columns, tuple(rows), "ms", tuple(bars), (), raw, how)
