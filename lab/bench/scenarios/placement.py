"""Placement: CPU of owner and read-only broker together, by the `placement` of the binding."""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.client import LoadClient
from bench.cpu import Meter
from bench.figures import Bar, Report, Sample, ratio
from bench.sides import FIRST_S, KEPT_UP, SETTLE_S, WARM_UP
from devstack.console import say

if TYPE_CHECKING:
    from bench.cluster import BenchCluster
    from bench.plan import Plan
    from devstack.pool import BrokerProcess

TITLE: Final = "Placement: CPU of owner and read-only broker together, by the placement of the binding"
OWNER: Final = "owner alone"
PLACEMENTS: Final = ("Always", "WhenCheaper")
SIDES: Final = (OWNER, *PLACEMENTS)


@dataclass(frozen=True, slots=True)
class PlacementWorkload:
    """Durable subscriptions with acks, each with one consumer on a connection of its own.

    Attributes:
        topics: number of topics.
        subscriptions: subscriptions of each topic; with several topics, one.
        rate: messages per second of all topics together.
    """

    topics: int
    subscriptions: int
    rate: float

    def __str__(self) -> str:
        if self.topics > 1:
            return f"{self.topics:,} topics, 1 subscription each, {self.rate:g}/s in total"
        return f"1 topic, {self.subscriptions} subscription{'s' * (self.subscriptions > 1)}, {self.rate:,g}/s"


WORKS: Final = (
    PlacementWorkload(1, 1, 1000),
    *(PlacementWorkload(1, subscriptions, 200) for subscriptions in (3, 10, 30)),
    *(PlacementWorkload(topics, 1, 200) for topics in (10, 100, 1000)),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """One side in one round.

    Attributes:
        owner_us: all CPU of the owner, with that of publishing, in µs per published message.
        pool_us: all CPU of the read-only broker, in the same unit.
        delivered: messages delivered to all consumers.
        published: messages published.
        by_pool: part of the delivered messages that the read-only broker delivered.
    """

    owner_us: float
    pool_us: float
    delivered: int
    published: int
    by_pool: float

    @property
    def total_us(self) -> float:
        """CPU of both."""
        return self.owner_us + self.pool_us


def run(cluster: BenchCluster, plan: Plan) -> Report:
    """Measure all works."""
    rows, bars, raw, notes = [], [], [], list[str]()
    for index, work in enumerate(plan.pick(WORKS, WORKS[:1])):
        rounds = _rounds(cluster, plan, work, 1 if index else WARM_UP)
        totals = {side: Sample(tuple(one.total_us for one in measured)) for side, measured in rounds.items()}
        row = [str(work), totals[OWNER].text(".1f")]
        for side in PLACEMENTS:
            row += [ratio(totals[side].values, totals[OWNER].values).text()]
            row += [Sample(tuple(one.by_pool for one in rounds[side])).text(".0%")]
        rows.append(tuple(row))
        bars += [Bar(str(work), side, totals[side]) for side in SIDES]
        raw.append(
            {"work": asdict(work), "rounds": {side: [asdict(one) for one in rounds[side]] for side in SIDES}},
        )
        for side, measured in rounds.items():
            part = min(one.delivered / max(1, one.published * work.subscriptions) for one in measured)
            if part < KEPT_UP:
                notes.append(f"{work}, {side}: {part:.0%} of the published messages were delivered in time.")
    columns = ["work", "owner alone, µs per published message"]
    for side in PLACEMENTS:
        columns += [f"{side}, all CPU of both to the owner's alone", f"{side}, messages of the pool"]
    return Report(tuple(columns), tuple(rows), "µs of CPU per message", tuple(bars), tuple(notes), raw)


def _rounds(cluster: BenchCluster, plan: Plan, work: PlacementWorkload, warm_up: int) -> dict[str, list[Measured]]:
    """Measure all sides in turns, with both read-only brokers running all the time."""
    found: dict[str, list[Measured]] = {side: [] for side in SIDES}
    base = cluster.topic_name("placement")
    topic = base if work.topics == 1 else f"{base}-#"
    topics = cluster.create_topics(topic, work.topics)
    with ExitStack() as stack:
        brokers = {side: _broker(stack, cluster, f"{base}.*", side) for side in PLACEMENTS}
        publisher = stack.enter_context(
            LoadClient("produce", broker=cluster.owner, topic=topic, rate=work.rate, topics=work.topics)
        )
        for number in range(-warm_up, plan.rounds):
            for side in plan.turns(number, SIDES):
                measured = _side(cluster, plan, work, topic, publisher, side, brokers.get(side))
                say(f"{work}: {side}: owner {measured.owner_us:.1f} µs, read-only broker {measured.pool_us:.1f} µs")
                if number >= 0:
                    found[side].append(measured)
    cluster.delete_topics(topics)
    return found


def _broker(stack: ExitStack, cluster: BenchCluster, pattern: str, placement: str) -> BrokerProcess:
    bindings = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "bindings.json"
    binding = {"name": f"bench/{placement.lower()}", "topics": [pattern], "placement": placement}
    bindings.write_text(json.dumps({"revision": "1", "bindings": [binding]}), encoding="utf-8")
    return stack.enter_context(cluster.engine(options=["--bindings", str(bindings)]))


def _side(
    cluster: BenchCluster,
    plan: Plan,
    work: PlacementWorkload,
    topic: str,
    publisher: LoadClient,
    side: str,
    broker: BrokerProcess | None,
) -> Measured:
    name = uuid.uuid4().hex[:8]
    with LoadClient(
        "consume",
        side,
        broker=broker.address if broker else cluster.owner,
        topic=topic,
        consumers=work.topics * work.subscriptions,
        subscription=f"{name}-#",
        durable=True,
        ack=True,
        redirects=True,
    ) as readers:
        readers.until_messages(1, FIRST_S)
        time.sleep(2 * SETTLE_S)
        groups = {"owner": [cluster.pid("broker-0")], "pool": [broker.process.pid] if broker else []}
        published, delivered = publisher.counted().messages, readers.counted().messages
        dispatched = broker.dispatched() if broker else 0
        meter = Meter(groups)
        time.sleep(plan.seconds)
        cpu = meter.used()
        delivered = readers.counted().messages - delivered
        published = publisher.counted().messages - published
        dispatched = broker.dispatched() - dispatched if broker else 0
    cluster.delete_subscriptions(
        (topic.replace("#", str(index)), f"{name}-{index}") for index in range(work.topics * work.subscriptions)
    )
    return Measured(
        cpu["owner"] / published * 1e6,
        cpu["pool"] / published * 1e6,
        delivered,
        published,
        dispatched / max(1, delivered),
    )
