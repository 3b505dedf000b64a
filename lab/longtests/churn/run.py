"""One run: connects, disconnects and faults by the plan; then everything is acked, and the history is checked."""

from __future__ import annotations

import asyncio
import json
import random
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pulsar
from readonly_engine.broker.cursors.partitions import GUARD_PREFIX
from readonly_engine.broker.tail.budget import SUBSCRIPTION_PREFIX
from readonly_engine.owner.partial_batches import FIRST_PERMITS

from devstack.console import say
from devstack.pool import Pool
from devstack.pulsar.admin import AdminError
from longtests.churn.check import Stored, Verdict, Watched, check
from longtests.churn.consumer import Consumer
from longtests.churn.history import History, Id, Kind
from longtests.churn.stock import Producers, StockConsumer, place_of
from tests.support.service_url import service_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from devstack.pulsar.cluster import PulsarCluster
    from longtests.churn.plan import Plan, Step

BROKERS: Final = 3
LOCAL: Final = ("--cursors", "local", "--cursor-partitions", "8")
RATE: Final = 20.0

LOOK_EVERY_S: Final = 4.0
SETTLE_S: Final = 120.0
SEEK_S: Final = 240.0
"""Limit of the attempts to seek. At load 70 all deliveries once stood still for two minutes; a SUBSCRIBE waits up to 30 s."""

OPERATION_S: Final = 10
"""Timeout of a stock client's attempt to subscribe, which is then repeated."""

LARGEST_BATCH: Final = 20
"""Bound of the messages of a batch: those of half a second."""

PER_OPENING: Final = FIRST_PERMITS + LARGEST_BATCH
"""Messages that a broker may let the owner send when it begins to serve a subscription, to learn of partly acked batches."""

_READ_MS: Final = 10_000


class ChurnError(Exception):
    """The run failed, so it proves nothing."""


@dataclass(slots=True)
class Outcome:
    """Result of a run.

    Attributes:
        plan: its plan.
        direct: whether the clients connected to the owners.
        verdict: result of the check.
        messages: number of messages in the topics.
        done: number of actions of each kind.
        by_owner: messages that the owner itself sent, by subscription.
        excused: passthrough subscriptions, whose messages the owner may send, with the reasons.
        batch_acks: whether the owner counts acks of single messages of a batch, so that brokers ask it for them.
        backlogs: the owner's backlogs in the end, if not 0.
        faults: other errors.
        history: the file.
    """

    plan: Plan
    direct: bool
    verdict: Verdict
    messages: int = 0
    done: dict[str, int] = field(default_factory=dict)
    by_owner: dict[str, int] = field(default_factory=dict)
    excused: dict[str, str] = field(default_factory=dict)
    batch_acks: bool = False
    backlogs: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    history: Path | None = None

    @property
    def passed(self) -> bool:
        """Return whether there are no errors."""
        return not (self.verdict.violations or self.backlogs or self.faults or self.unexcused)

    @property
    def unexcused(self) -> dict[str, int]:
        """Return the messages that the owner sent although the pool should have, by subscription."""
        if self.direct:
            return {}
        return {
            name: count
            for name, count in self.by_owner.items()
            if name not in self.excused and count > (self._asked_at_most(name) if self.batch_acks else 0)
        }

    def _asked_at_most(self, name: str) -> int:
        """Return how many messages the openings of a subscription may cost; stock clients reconnect by themselves."""
        opened = self.verdict.counts.get(name, Counter())[Kind.OPENED]
        return PER_OPENING * (opened + self.done.get("kill", 0) + self.done.get("unload", 0))


class Run:
    """A run on one cluster, in its own namespace.

    Args:
        stack: the healthy source cluster.
        plan: the plan to follow.
        folder: folder of the history and the logs.
        direct: whether the clients connect to the owners, without read-only brokers.
        local: whether the pool keeps the cursors.
        split: whether all brokers serve each Shared and Key_Shared subscription.
        rate: messages per second in each topic.
    """

    def __init__(
        self,
        stack: PulsarCluster,
        plan: Plan,
        folder: Path,
        *,
        direct: bool,
        local: bool = False,
        split: bool = False,
        rate: float = RATE,
    ) -> None:
        self._stack = stack
        self._plan = plan
        self._folder = folder
        self._direct = direct
        self._local = local
        self._split = split
        self._rate = rate
        self._namespace = f"public/churn-{uuid.uuid4().hex[:8]}"
        self._topics = [f"persistent://{self._namespace}/topic-{number}" for number in range(plan.topics)]
        self._plans = {subscription.name: subscription for subscription in plan.subscriptions}
        self._consumers: dict[tuple[str, int], Consumer | StockConsumer] = {}
        self._locks: dict[str, asyncio.Lock] = {name: asyncio.Lock() for name in self._plans}
        self._producers: list[Producers] = []
        self._pool: Pool | None = None
        self._history: History
        self._client: pulsar.Client
        self._outcome = Outcome(plan, direct, Verdict())
        self._counted: dict[str, int] = {}

    async def run(self) -> Outcome:
        """Execute the run.

        Raises:
            ChurnError: the run failed.
        """
        try:
            await asyncio.to_thread(self._prepare)
            return await self._observe()
        finally:
            if self._pool is not None:
                self._pool.close()

    async def _observe(self) -> Outcome:
        path = self._outcome.history = self._folder / "history.jsonl"
        log = pulsar.FileLogger(pulsar.LoggerLevel.Info, str(self._folder / "client.log"))
        # One producer connects to the owner, one to the pool.
        direct, relayed = (pulsar.Client(service_url(urls), logger=log) for urls in (self._owners(), self._urls()))
        self._client = pulsar.Client(service_url(self._urls()), logger=log, operation_timeout_seconds=OPERATION_S)
        try:
            with History(path) as self._history:
                for number, topic in enumerate(self._topics):
                    rng = random.Random(f"{self._plan.seed} producers {number}")
                    made = Producers(self._history, (direct, relayed), topic, self._rate, rng)
                    self._producers.append(made)
                await self._churn()
                await self._settle()
                await self._judge()
        finally:
            for client in (direct, relayed, self._client):
                await asyncio.to_thread(client.close)
        return self._outcome

    # Preparation

    def _prepare(self) -> None:
        admin = self._stack.admin()
        self._outcome.batch_acks = admin.runtime_configuration()["acknowledgmentAtBatchIndexLevelEnabled"] == "true"
        admin.create_namespace(self._namespace)
        # The check at the end reads all messages again.
        admin.set_retention(self._namespace, minutes=-1, megabytes=-1)
        for topic in self._topics:
            admin.create_topic(topic)
        if not self._local:
            for subscription in self._plan.subscriptions:
                admin.create_subscription(self._topics[subscription.topic], subscription.name.rpartition("/")[2])
        if not self._direct:
            options = ["--topics", f"persistent://{self._namespace}/.*", *(LOCAL if self._local else ())]
            if self._split:
                bindings = self._folder / "bindings.json"
                binding = {"name": "churn/split", "topics": self._topics, "dispatch": "Split"}
                bindings.write_text(json.dumps({"revision": "1", "bindings": [binding]}), encoding="utf-8")
                options += ["--bindings", str(bindings)]
            self._pool = Pool(self._stack.endpoints, self._folder, uuid.uuid4().hex, options)
            self._pool.start(BROKERS)
        if self._local:
            self._create_subscriptions()

    def _create_subscriptions(self) -> None:
        """Create the subscriptions through the pool."""
        client = pulsar.Client(service_url(self._urls()), logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        try:
            for subscription in self._plan.subscriptions:
                topic, name = self._topics[subscription.topic], subscription.name.rpartition("/")[2]
                client.subscribe(topic, name, initial_position=pulsar.InitialPosition.Earliest).close()
        finally:
            client.close()

    def _owners(self) -> list[str]:
        return list(self._stack.endpoints.brokers)

    def _urls(self) -> list[str]:
        if self._pool is None:
            return self._owners()
        return [broker.url for broker in self._pool.brokers if broker.process.poll() is None]

    # Churn

    async def _churn(self) -> None:
        looking = asyncio.create_task(self._look())
        begin = asyncio.get_running_loop().time()
        doing: set[asyncio.Task[None]] = set()
        said = 0
        try:
            for step in self._plan.steps:
                await asyncio.sleep(max(0.0, begin + step.at - asyncio.get_running_loop().time()))
                if step.at // 60 > said:
                    said = int(step.at // 60)
                    say(f"{said} of {self._plan.seconds / 60:g} minutes")
                task = asyncio.create_task(self._step(step))
                doing.add(task)
                for ended in [task for task in doing if task.done()]:
                    doing.discard(ended)
                    ended.result()
            await asyncio.sleep(max(0.0, begin + self._plan.seconds - asyncio.get_running_loop().time()))
            await asyncio.gather(*doing)
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def _step(self, step: Step) -> None:
        done = self._outcome.done
        if step.action == "kill":
            await self._kill(step)
        elif step.action == "unload":
            await self._unload(self._topics[step.number])
        else:
            # Actions of one subscription keep the plan's order.
            async with self._locks[step.subscription]:
                if step.action == "seek" and not await self._seek(step):
                    return
                if step.action == "open":
                    self._open(step.subscription, step.number)
                elif step.action in {"close", "drop"}:
                    await self._end(self._consumers.pop((step.subscription, step.number)), drop=step.action == "drop")
        done[step.action] = done.get(step.action, 0) + 1

    def _open(self, name: str, number: int) -> None:
        plan = self._plans[name]
        rng = random.Random(f"{self._plan.seed} {name} {number}")
        topic = self._topics[plan.topic]
        self._consumers[name, number] = (
            StockConsumer(self._history, plan, number, topic, self._client, rng)
            if plan.stock
            else Consumer(self._history, plan, number, topic, self._urls, rng)
        )

    async def _end(self, consumer: Consumer | StockConsumer, *, drop: bool) -> None:
        if isinstance(consumer, StockConsumer):
            await asyncio.to_thread(consumer.close)
        elif drop:
            await consumer.drop()
        else:
            await consumer.close()

    async def _seek(self, step: Step) -> bool:
        """Seek with a single consumer: deliveries under way to others would belong neither before nor after the seek."""
        places = self._producers[self._plans[step.subscription].topic].places
        here = [(key, one) for key, one in self._consumers.items() if key[0] == step.subscription]
        if not places or not here:
            return False
        target = sorted(places)[-1 - int(step.amount * (len(places) - 1))]
        mover = self._consumers[step.subscription, step.number]
        assert isinstance(mover, Consumer)
        others = [(key, one) for key, one in here if one is not mover]
        for _, other in others:
            await self._end(other, drop=False)
        deadline = time.monotonic() + SEEK_S
        while not await mover.seek(Id(target.ledger, target.entry)):
            if time.monotonic() > deadline:
                raise ChurnError(f"no seek of {step.subscription} succeeded in {SEEK_S:g} s; see {self._history.path}")
            await asyncio.sleep(0.05)
        for (name, number), other in others:
            # A consumer that reconnects is a new one, with the rest of its random numbers.
            assert isinstance(other, Consumer)
            self._open(name, number)
        return True

    async def _kill(self, step: Step) -> None:
        assert self._pool is not None
        broker = self._pool.brokers[step.number]
        self._history.add(Kind.KILLED, text=broker.url)
        await asyncio.to_thread(broker.kill)
        await asyncio.sleep(step.amount)
        await asyncio.to_thread(self._pool.restart, step.number)
        self._history.add(Kind.STARTED, text=broker.url)

    async def _unload(self, topic: str) -> None:
        await asyncio.to_thread(self._count, topic)
        self._history.add(Kind.UNLOADED, text=topic)
        try:
            await asyncio.to_thread(self._stack.admin().unload, topic)
        except AdminError as error:
            self._outcome.faults.append(f"unload of {topic}: {error}")

    # Statistics of the servers

    async def _look(self) -> None:
        while True:
            for topic in self._topics:
                await asyncio.to_thread(self._count, topic)
            await asyncio.sleep(LOOK_EVERY_S)

    def _count(self, topic: str) -> None:
        """Sum the messages that the owner itself has sent. Its counters restart when a topic is loaded."""
        try:
            stats = self._stack.admin().stats(topic)
        except AdminError as error:
            self._history.add(Kind.NOTE, text=f"stats: {error}")
            return
        for name, subscription in stats["subscriptions"].items():
            if name.startswith((SUBSCRIPTION_PREFIX, GUARD_PREFIX)):
                continue  # what the owner pushes to read-only brokers, and what retention waits for
            full = f"{topic.rpartition('/')[2]}/{name}"
            count = int(subscription["msgOutCounter"])
            before = self._counted.get(full, 0)
            self._counted[full] = count
            by_owner = self._outcome.by_owner
            by_owner[full] = by_owner.get(full, 0) + (count - before if count >= before else count)
        if self._pool is not None:
            for broker in self._pool.brokers:
                self._excuse(broker.stats)

    def _excuse(self, stats: Callable[[], Any]) -> None:
        try:
            passed = stats().get("passedThrough", [])
        except (OSError, ValueError):
            return  # the broker is down now
        for one in passed:
            name = f"{one['topic'].rpartition('/')[2]}/{one['subscription']}"
            self._outcome.excused[name] = one["reason"]

    # End of the run

    async def _settle(self) -> None:
        """Stop publishing, ack everything at once, and wait until all is acked."""
        say("end of connects and disconnects: waiting for all acks")
        for producers in self._producers:
            await asyncio.to_thread(producers.stop)
            self._outcome.faults += producers.failures
        for name in self._plans:
            if not any(key[0] == name for key in self._consumers):
                self._open(name, 1_000)
        for consumer in self._consumers.values():
            consumer.settle()
        deadline = time.monotonic() + SETTLE_S
        while True:
            backlogs = await asyncio.to_thread(self._backlogs)
            if not any(backlogs.values()):
                break
            if time.monotonic() > deadline:
                self._outcome.backlogs = {name: count for name, count in backlogs.items() if count}
                await asyncio.to_thread(self._keep_stats)
                break
            await asyncio.sleep(0.5)
        # A receipt may still be under way to its client.
        await asyncio.sleep(1.0)
        for consumer in self._consumers.values():
            await self._end(consumer, drop=False)
        for topic in self._topics:
            await asyncio.to_thread(self._count, topic)

    def _keep_stats(self) -> None:
        """Write the servers' statistics beside the history, for the analysis of a stuck run."""
        kept: dict[str, Any] = {topic: self._stack.admin().stats(topic) for topic in self._topics}
        if self._pool is not None:
            kept |= {broker.url: broker.stats() for broker in self._pool.brokers}
        (self._folder / "stats.json").write_text(json.dumps(kept, indent=1), encoding="utf-8")

    def _local_backlogs(self) -> dict[str, int]:
        """Return the backlogs of all subscriptions; they have consumers on some broker."""
        assert self._pool is not None
        backlogs = dict.fromkeys(self._plans, 1)
        for broker in self._pool.brokers:
            for topic, stats in broker.stats()["topics"].items():
                for name, subscription in stats["subscriptions"].items():
                    if "msgBacklog" in subscription and subscription.get("split", {}).get("state") != "following":
                        backlogs[f"{topic.rpartition('/')[2]}/{name}"] = int(subscription["msgBacklog"])
        return backlogs

    def _backlogs(self) -> dict[str, int]:
        if self._local:
            return self._local_backlogs()
        backlogs = {}
        for topic in self._topics:
            try:
                stats = self._stack.admin().stats(topic)
            except AdminError:
                return {topic: 1}  # not created yet
            for name, subscription in stats["subscriptions"].items():
                full_name = f"{topic.rpartition('/')[2]}/{name}"
                if full_name in self._plans:  # a broker acks what the owner pushes to it minutes later
                    backlogs[full_name] = int(subscription["msgBacklog"])
        return backlogs

    async def _judge(self) -> None:
        stored = {}
        for number, topic in enumerate(self._topics):
            stored[f"topic-{number}"] = await asyncio.to_thread(self._read, topic)
        self._outcome.messages = sum(map(len, stored.values()))
        watched = {
            name: Watched(f"topic-{plan.topic}", plan.type, receipts=not plan.stock)
            for name, plan in self._plans.items()
        }
        self._outcome.verdict = check(self._history.events, watched, stored)

    def _read(self, topic: str) -> list[Stored]:
        """Return all messages of the owner's topic."""
        client = pulsar.Client(service_url(self._owners()), logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        try:
            reader = client.create_reader(topic, pulsar.MessageId.earliest)
            short, found = topic.rpartition("/")[2], []
            while reader.has_message_available():
                message = reader.read_next(_READ_MS)
                name = f"{short} {message.data().decode()}"
                found.append(Stored(place_of(message.message_id()), message.partition_key(), name))
            return found
        finally:
            client.close()
