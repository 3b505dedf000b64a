"""Split subscriptions: CPU of each broker for one subscription with acks, by one broker (Single), and by 1, 2 and 4 (Split).

At a tail, each side gets the same rate. A backlog shows the limit: each side delivers it as fast as it can, and each read-only
broker may use a part of a core. So the machine has CPU left for the clients, as if each broker had a machine of its own.
"""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.client import LoadClient
from bench.cpu import Meter
from bench.figures import Bar, Report, Sample, ratio
from bench.quota import limited
from bench.sides import FIRST_S, KEPT_UP, SETTLE_S
from devstack.console import say
from devstack.errors import DevstackError

if TYPE_CHECKING:
    from bench.cluster import BenchCluster
    from bench.plan import Plan

LIMIT_TITLE: Final = "One Shared or Key_Shared subscription at its limit: brokers that may use 15 % of a core each"
TITLE: Final = "One Shared or Key_Shared subscription with acks: CPU of one broker, and of several that split it"
CONSUMERS: Final = 40
SIDES: Final = (("owner", 0), ("Single", 1), ("Split", 1), ("Split", 2), ("Split", 4))
"""Servers of the consumers: the owner, or the dispatch of the binding and the number of brokers."""


@dataclass(frozen=True, slots=True)
class SplitWorkload:
    """A subscription. Messages have no key, so each has a place of its own on the ring of Key_Shared.

    Attributes:
        kind: type of the subscription.
        rate: messages per second; of a backlog, while it is published, and 0 for as many as possible.
        batched: whether they are published in batches.
        backlog: messages of the backlog.
    """

    kind: str
    rate: float = 0.0
    batched: bool = False
    backlog: int = 0

    def __str__(self) -> str:
        what = f"backlog of {self.backlog:,}" if self.backlog else f"{self.rate:,g}/s"
        return f"{self.kind}, {what} of 1 KB{', batched' if self.batched else ''}"


WORKS: Final = (
    SplitWorkload("Shared", 2_000),
    SplitWorkload("Shared", 5_000, batched=True),
    SplitWorkload("Key_Shared", 2_000),
    SplitWorkload("Key_Shared", 5_000, batched=True),
)
LIMITS: Final = (
    SplitWorkload("Shared", backlog=300_000),
    SplitWorkload("Shared", 10_000, batched=True, backlog=500_000),
    SplitWorkload("Key_Shared", backlog=150_000),
)
BEGUN: Final = 0.15
DRAINED: Final = 0.85
"""Parts of a backlog at which its measurement begins and ends. Before, consumers connect; the last messages wait for permits."""

SHARE: Final = 0.15
"""Part of a core that each read-only broker may use for a backlog: four of them leave most of two cores to the clients."""

DRAIN_S: Final = 120.0
WRITE_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One side in one round.

    Attributes:
        dispatch: `owner`, `Single` or `Split`.
        brokers_us: CPU of each read-only broker, in µs per delivered message.
        owner_us: all CPU of the owner, in µs: with that of publishing, per published message, or of a backlog, per delivered one.
        delivered: messages delivered.
        published: messages published.
        seconds: elapsed time.
        shares: messages of each broker, as parts of all.
    """

    dispatch: str
    brokers_us: tuple[float, ...]
    owner_us: float
    delivered: int
    published: int
    seconds: float
    shares: tuple[float, ...]

    @property
    def total_us(self) -> float:
        """CPU of all read-only brokers together."""
        return sum(self.brokers_us)


def run(cluster: BenchCluster, plan: Plan) -> Report:
    """Measure the tails."""
    return _report(cluster, plan, WORKS)


def run_limit(cluster: BenchCluster, plan: Plan) -> Report:
    """Measure the backlogs."""
    return _report(cluster, plan, LIMITS)


def _report(cluster: BenchCluster, plan: Plan, works: tuple[SplitWorkload, ...]) -> Report:
    rows, bars, raw, notes = [], [], [], list[str]()
    for work in plan.pick(works, works[:1]):
        rounds = _rounds(cluster, plan, work)
        single = [one.total_us for one in rounds["Single", 1]]
        alone = [one.delivered / one.seconds for one in rounds["Single", 1]]
        for (dispatch, brokers), measured in rounds.items():
            rate = Sample(tuple(one.delivered / one.seconds for one in measured))
            total = Sample(tuple(one.total_us for one in measured))
            most = Sample(tuple(max(one.brokers_us, default=0.0) for one in measured))
            left = Sample(tuple(one.owner_us for one in measured))
            label = dispatch if dispatch != "Split" else f"Split, {brokers}"
            rows.append(
                (
                    str(work),
                    label,
                    rate.text(",.0f"),
                    ratio(rate.values, alone).text() if work.backlog else "",
                    total.text(".1f") if brokers else "",
                    ratio(total.values, single).text() if brokers else "",
                    most.text(".1f") if brokers else "",
                    left.text(".1f"),
                )
            )
            if brokers:
                bars.append(Bar(str(work), label, total))
            part = min(one.delivered / max(1, one.published) for one in measured)
            if part < KEPT_UP:
                notes.append(f"{work}, {label}: {part:.0%} of the published messages were delivered in time.")
            raw.append(
                {
                    "work": asdict(work),
                    "dispatch": dispatch,
                    "brokers": brokers,
                    "rounds": [asdict(one) for one in measured],
                }
            )
    columns = (
        "subscription",
        "brokers",
        "messages/s",
        "rate to Single",
        "all brokers, µs per message",
        "ratio to Single",
        "most loaded broker, µs",
        "owner, µs",
    )
    return Report(columns, tuple(rows), "µs of CPU per message", tuple(bars), tuple(notes), raw)


def _rounds(cluster: BenchCluster, plan: Plan, work: SplitWorkload) -> dict[tuple[str, int], list[Measured]]:
    """Measure all sides in turns."""
    found: dict[tuple[str, int], list[Measured]] = {side: [] for side in SIDES}
    topic = cluster.topic("split")
    amount: dict[str, Any] = {name: value for name, value in (("count", work.backlog), ("rate", work.rate)) if value}
    with LoadClient("produce", broker=cluster.owner, topic=topic, batched=work.batched, **amount) as publisher:
        if work.backlog:
            publisher.until_done(WRITE_S)
        for number in range(-1, plan.rounds):
            for side in plan.turns(number, SIDES):
                measured = _side(cluster, plan, work, topic, publisher, *side)
                each = ", ".join(f"{one:.1f}" for one in measured.brokers_us)
                say(f"{work}: {side[0]} {side[1]}: {each} µs, owner {measured.owner_us:.1f} µs")
                if number >= 0:
                    found[side].append(measured)
    cluster.delete_topics([topic])
    return found


def _side(
    cluster: BenchCluster,
    plan: Plan,
    work: SplitWorkload,
    topic: str,
    publisher: LoadClient,
    dispatch: str,
    brokers: int,
) -> Measured:
    name = uuid.uuid4().hex[:8]
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        engines = []
        if brokers:
            bindings = Path(folder) / "bindings.json"
            binding = {"name": "bench/split", "topics": [topic], "dispatch": dispatch}
            bindings.write_text(json.dumps({"revision": "1", "bindings": [binding]}), encoding="utf-8")
            pool = stack.enter_context(cluster.pool(brokers, topic, options=["--bindings", str(bindings)]))
            engines = pool.brokers
            for one in engines if work.backlog else ():
                stack.enter_context(limited(one.process.pid, SHARE))
        addresses = [one.address for one in engines] or [cluster.owner]
        readers = [
            stack.enter_context(
                LoadClient(
                    "consume",
                    dispatch,
                    broker=address,
                    topic=topic,
                    consumers=CONSUMERS // len(addresses),
                    subscription=name,
                    type=work.kind,
                    durable=True,
                    ack=True,
                    earliest=bool(work.backlog),
                )
            )
            for address in addresses
        ]
        if work.backlog:
            _wait(readers, BEGUN * work.backlog)
        else:
            for reader in readers:
                reader.until_messages(1, FIRST_S)
            time.sleep(2 * SETTLE_S)
        meter = Meter({"owner": [cluster.pid("broker-0")]} | {one.url: [one.process.pid] for one in engines})
        begin = time.monotonic()
        published, before = publisher.counted().messages, [one.dispatched(topic) for one in engines]
        delivered = _count(readers)
        if work.backlog:
            _wait(readers, DRAINED * work.backlog)
        else:
            time.sleep(plan.seconds)
        cpu, seconds = meter.used(), time.monotonic() - begin
        delivered = _count(readers) - delivered
        published = delivered if work.backlog else publisher.counted().messages - published
        by_each = [one.dispatched(topic) - old for one, old in zip(engines, before, strict=True)]
    cluster.admin.delete_subscription(topic, name, force=True)
    return Measured(
        dispatch,
        tuple(cpu[one.url] / delivered * 1e6 for one in engines),
        cpu["owner"] / published * 1e6,
        delivered,
        published,
        seconds,
        tuple(one / max(1, sum(by_each)) for one in by_each),
    )


def _wait(readers: list[LoadClient], messages: float) -> None:
    """Wait until all clients together have so many messages.

    Raises:
        DevstackError: they have not within DRAIN_S.
    """
    deadline = time.monotonic() + DRAIN_S
    while (count := _count(readers)) < messages:
        if time.monotonic() > deadline:
            raise DevstackError("a backlog was not delivered in time", f"{count:,} of {messages:,.0f} messages")
        time.sleep(0.02)


def _count(readers: list[LoadClient]) -> int:
    return sum(one.counted().messages for one in readers)
