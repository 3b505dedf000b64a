"""One run: start the stack in namespaces, inject the faults, wait for all acks, and check the events."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pulsar

from devstack.console import say, step
from devstack.errors import DevstackError
from devstack.pulsar.admin import AdminError, PulsarAdmin
from longtests.chaos import samples, traces
from longtests.chaos.bindings import BindingFiles
from longtests.chaos.check import check
from longtests.chaos.health import Health
from longtests.chaos.histories import read_events
from longtests.chaos.inject import Injector
from longtests.chaos.keepers import LOCAL_OPTIONS, POOL, LocalKeeper, OwnerKeeper
from longtests.chaos.net import Network
from longtests.chaos.observed import Stored, Topic, Watched
from longtests.chaos.plan import CLIENT, NODES, OWNING, READ_ONLY
from longtests.chaos.processes import ClientProcess
from longtests.chaos.producers import parse
from longtests.chaos.readers import read_place
from longtests.chaos.stack import ChaosStack
from longtests.chaos.verdict import Limits, Verdict
from longtests.chaos.workload import BUNDLES, READER, SUBSCRIPTIONS, TOPICS
from longtests.churn.history import History
from longtests.churn.plan import Keys
from longtests.churn.stock import place_of
from tests.support.service_url import service_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from longtests.chaos.plan import Plan
    from longtests.chaos.samples import Sample
    from longtests.chaos.traces import Traces

RATE: Final = 5.0
STEADY_S: Final = 90.0
HEALTHY_S: Final = 150.0
SETTLE_S: Final = 150.0
COORDINATOR_S: Final = 420.0
"""Limit while an owner has open transactions without a client: the recovery of its coordinator may take so long."""

POLICIES_S: Final = 40.0
"""Time after which the namespaces are unloaded while policies can not be removed. A stock 4.0.8 broker keeps its producer of
a namespace's policies (__change_events) although that hangs, until the namespace's bundles have left it."""

RELOADED_S: Final = 90.0
"""Time after which the coordinators are loaded again while transactions are open. A stock 4.0.8 coordinator whose request to
end a transaction failed for good (the owner was closing the topic) has the transaction open until it is loaded again."""

THREADS: Final = 64
"""More than the faults, requests and checks at a time."""

TRACES_S: Final = 150.0
"""Limit until nothing is left. A connection to another broker closes at the second check after its use, 30 s apart each. It is a
client there, whose connections to owners close after 30 s more."""

COMMAND_S: Final = 150.0
ANSWER_S: Final = 20.0
FIRST_ANSWER_S: Final = 90.0
"""Limit before the first fault: an owner's first answers may take long on a busy machine, and the run would have no result."""

SAMPLE_S: Final = 5.0
EXPIRATION_MINUTES: Final = 1
_READ_MS: Final = 15_000
_OPTIONS: Final = ("--pool", POOL, "--topics", "persistent://public/chaos-.*", "--cache-size", "16MiB")


class ChaosError(Exception):
    """The run failed, so it proves nothing."""


@dataclass(slots=True)
class Outcome:
    """Result of a run.

    Attributes:
        plan: its plan.
        verdict: result of the check.
        messages: number of messages in the topics at the end.
        seconds: duration of the faults.
        injector: the injected and skipped faults.
        mended: repairs of the source cluster.
        backlogs: the owners' backlogs at the end.
        traces: resources before the run and after it.
        samples: samples of the read-only brokers.
        wrong: descriptions of other errors.
        folder: folder of histories and logs.
    """

    plan: Plan
    folder: Path
    verdict: Verdict = field(default_factory=Verdict)
    messages: int = 0
    seconds: float = 0.0
    injector: Injector | None = None
    mended: list[str] = field(default_factory=list)
    traces: tuple[Traces, Traces] | None = None
    samples: list[Sample] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Return whether there are no errors."""
        return not (self.verdict.found or self.wrong)


class Run:
    """A run in its own network namespaces.

    Args:
        plan: the plan to follow.
        folder: folder of histories and logs.
        limits: limits of allowed effects.
        rate: messages per second of each producer.
        local: whether the pool keeps the cursors.
        split: whether all brokers serve each Shared and Key_Shared subscription.
        flat: whether memory, files, tasks and latency must be flat.
        name: name of the stack and prefix of its namespaces.
    """

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        limits: Limits,
        *,
        rate: float = RATE,
        local: bool = False,
        split: bool = False,
        flat: bool = False,
        name: str = "chaos",
    ) -> None:
        self._plan = plan
        self._folder = folder
        self._limits = limits
        self._flat = flat
        self._local = local
        self._network = Network(NODES, f"pr{name}")
        self._bindings = BindingFiles(folder, local=local, split=split)
        options = (*_OPTIONS, *(LOCAL_OPTIONS if local else ()))
        self._stack = ChaosStack(self._network, folder, options, self._bindings, name)
        urls = self._stack.pool_urls
        self._clients = {node: ClientProcess(node, self._network, urls, folder, rate) for node in CLIENT}
        self._history = History(folder / "harness.jsonl", keep=False)
        self._keeper = LocalKeeper(self._admin, self._stack) if local else OwnerKeeper(self._admin)
        self._injector = Injector(
            self._stack, self._network, self._clients, self._history, self._admin, self._keeper, self._bindings
        )
        self._health = Health(self._stack, self._injector)
        self._outcome = Outcome(plan, folder, injector=self._injector, mended=self._health.mended)
        self._begin = 0.0

    def run(self, *, keep: bool = False) -> Outcome:
        """Execute the run.

        Args:
            keep: whether to keep servers and namespaces.

        Raises:
            ChaosError: the run failed.
            DevstackError: a server does not start.
        """
        try:
            self._prepare()
            asyncio.run(self._observe())
            return self._outcome
        finally:
            if not keep:
                for client in self._clients.values():
                    client.kill()
                self._stack.keep_logs()
                self._stack.close(purge=True)
                self._network.remove()

    # Preparation

    def _prepare(self) -> None:
        self._stack.close(purge=True)
        with step("creating namespaces"):
            self._network.make()
        self._network.enter()
        self._stack.make_disks()
        self._stack.up()
        admin = self._admin()
        for namespace in sorted({topic.namespace for topic in TOPICS}):
            admin.create_namespace(namespace, bundles=BUNDLES)
            # The check at the end reads all messages again.
            admin.set_retention(namespace, minutes=-1, megabytes=-1)
            if self._local:
                # Guards, which are subscriptions without consumers, must outlive it.
                admin.set_namespace_policy(namespace, "subscriptionExpirationTime", EXPIRATION_MINUTES)
            if any(topic.deduplicated for topic in TOPICS if topic.namespace == namespace):
                admin.set_deduplication(namespace, enabled=True)
        for topic in TOPICS:
            admin.create_topic(topic.full)
        self._bindings.write_all()
        with step("starting the read-only brokers"):
            for name in READ_ONLY:
                self._stack.start_node(name)
        self._keeper.create()
        before = _patiently(lambda: traces.look(self._stack, self._network), 30, OSError)
        self._outcome.traces = (before, before)
        with step("starting the clients"):
            for client in self._clients.values():
                client.start()

    def _admin(self) -> PulsarAdmin:
        """Return the admin API of an owner without a present fault."""
        names = [name for name in OWNING if name not in self._injector.busy] or list(OWNING)
        timeout = ANSWER_S if self._begin else FIRST_ANSWER_S
        return PulsarAdmin(self._stack.endpoints.admin_urls[OWNING.index(names[0])], timeout=timeout)

    # Faults

    async def _observe(self) -> None:
        # Threads that wait for an owner's answer must not keep other faults from their beginning or end.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
        await self._steady()
        self._begin = time.monotonic()
        watching = [
            asyncio.create_task(self._health.watch()),
            asyncio.create_task(self._sample()),
            asyncio.create_task(self._keeper.watch(self._history)),
        ]
        try:
            await self._disturb()
            self._outcome.seconds = time.monotonic() - self._begin
            await self._settle()
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
        await asyncio.to_thread(self._judge)
        await self._look_back()

    async def _steady(self) -> None:
        """Wait until every subscription has a consumer."""
        with step("waiting for the clients"):
            deadline = time.monotonic() + STEADY_S
            while missing := await asyncio.to_thread(self._missing):
                if time.monotonic() > deadline:
                    raise ChaosError(f"no consumers after {STEADY_S:g} s: {', '.join(missing)}")
                await asyncio.sleep(0.5)

    def _missing(self) -> list[str]:
        connected = self._keeper.connected()
        return [one.name for one in SUBSCRIPTIONS if one.type != READER and one.name not in connected]

    async def _disturb(self) -> None:
        say(f"seed {self._plan.seed}: {len(self._plan.faults)} faults in {self._plan.seconds / 60:g} minutes")
        begin = asyncio.get_running_loop().time()
        doing: set[asyncio.Task[None]] = set()
        said = 0
        for fault in self._plan.faults:
            await asyncio.sleep(max(0.0, begin + fault.at - asyncio.get_running_loop().time()))
            if fault.at // 60 > said:
                said = int(fault.at // 60)
                say(f"{said} of {self._plan.seconds / 60:g} minutes, {len(self._injector.done)} faults")
            task = asyncio.create_task(self._injector.do(fault))
            doing.add(task)
            for ended in [task for task in doing if task.done()]:
                doing.discard(ended)
                ended.result()
        await asyncio.sleep(max(0.0, begin + self._plan.seconds - asyncio.get_running_loop().time()))
        await asyncio.gather(*doing)

    async def _sample(self) -> None:
        while True:
            for node, broker in list(self._stack.read_only.items()):
                at = time.monotonic() - self._begin
                if (sample := await asyncio.to_thread(samples.take, at, node, broker)) is not None:
                    self._outcome.samples.append(sample)
            await asyncio.sleep(SAMPLE_S)

    # End of the run

    async def _settle(self) -> None:
        """Repair everything, stop publishing, and wait until all is delivered and acked."""
        say("end of faults: repairing everything, and waiting for all deliveries and acks")
        await asyncio.to_thread(self._network.mend)
        for client in self._clients.values():
            client.signal(signal.SIGCONT)
        deadline = time.monotonic() + HEALTHY_S
        while self._injector.busy or (unwell := await self._health.look()):
            if time.monotonic() > deadline:
                raise ChaosError(f"the cluster does not recover: {unwell or self._injector.busy}")
            await asyncio.sleep(1.0)
        await self._remove_policies(deadline)
        try:
            await asyncio.to_thread(self._clients[CLIENT[0]].tell, "quiet", COMMAND_S)
        except DevstackError as error:
            self._outcome.wrong.append(f"producers: {error}")
        for node in CLIENT[1:]:
            await asyncio.to_thread(self._clients[node].tell, "settle", COMMAND_S)
        begin = time.monotonic()
        deadline, reload_at = begin + SETTLE_S, begin + RELOADED_S
        while True:
            opened = await asyncio.to_thread(self._open_transactions)
            behind = await asyncio.to_thread(self._behind)
            # Of open transactions, local cursors count no backlog: their broker does not know the messages.
            if not behind and not opened:
                break
            if opened:
                deadline = min(time.monotonic() + SETTLE_S, begin + COORDINATOR_S)
                if time.monotonic() > reload_at:
                    reload_at = time.monotonic() + RELOADED_S
                    await asyncio.to_thread(self._reload_coordinators, sum(opened.values()))
            if time.monotonic() > deadline:
                waited = time.monotonic() - begin
                behind = await asyncio.to_thread(self._behind, readable=True)
                self._outcome.wrong += [f"not settled after {waited:.0f} s: {text}" for text in behind]
                if behind:
                    await asyncio.to_thread(self._keep_stats)
                break
            await asyncio.sleep(1.0)
        # A receipt may still be under way to its client.
        await asyncio.sleep(1.0)
        for client in self._clients.values():
            try:
                await asyncio.to_thread(client.finish, COMMAND_S)
            except DevstackError as error:
                self._outcome.wrong.append(str(error))

    async def _remove_policies(self, deadline: float) -> None:
        """Remove the policies that faults have set. Unload their namespaces once if the owner's writer of policies hangs."""
        unload_at = time.monotonic() + POLICIES_S
        while True:
            try:
                return await asyncio.to_thread(self._injector.policies.remove_all)
            except AdminError as error:
                now = time.monotonic()
                if now > deadline:
                    raise ChaosError(f"policies of faults stay: {error}") from error
                if now > unload_at:
                    unload_at = deadline
                    self._repaired(f"namespaces: {error}"[:200])
                    for namespace in sorted({topic.namespace for topic in TOPICS}):
                        with contextlib.suppress(AdminError):
                            await asyncio.to_thread(self._admin().unload_namespace, namespace)
                await asyncio.sleep(1.0)

    def _repaired(self, text: str) -> None:
        say(f"repairing {text}")
        self._outcome.mended.append(text)

    def _behind(self, *, readable: bool = False) -> list[str]:
        """Return the subscriptions with a backlog, and the Readers that are not at the end.

        Args:
            readable: whether to count only messages that the owner lets consumers read (Keeper.behind).
        """
        return self._keeper.behind(readable=readable) + self._readers_behind()

    def _readers_behind(self) -> list[str]:
        """Return the Readers without the last message for which a producer has a receipt."""
        behind = []
        for one in SUBSCRIPTIONS:
            if one.type == READER:
                full = next(topic.full for topic in TOPICS if topic.short == one.topic)
                try:
                    last = self._admin().last_message_id(full)
                except AdminError as error:
                    behind.append(f"{one.name}: {error}")
                    continue
                place = read_place(self._folder / f"{one.name.replace('/', '-')}.place")
                if place is None or (place.ledger_id(), place.entry_id()) < (last.ledger, last.entry):
                    behind.append(f"{one.name}: at {place}, the last message is {last}")
        return behind

    def _open_transactions(self) -> dict[str, int]:
        """Return the number of open transactions at the owner by topic, for topics that have some."""
        found = {}
        for topic in TOPICS:
            with contextlib.suppress(AdminError):
                if topic.transactions:
                    stats = self._admin().transaction_buffer_stats(topic.full)
                    found[topic.short] = int(stats.get("ongoingTxnSize", 0))
        return {topic: number for topic, number in found.items() if number}

    def _reload_coordinators(self, opened: int) -> None:
        """Have the owners load the transaction coordinators again: they end what they were ending."""
        self._repaired(f"transaction coordinators: {opened} transactions stay open")
        with contextlib.suppress(AdminError):
            self._admin().unload_namespace("pulsar/system")

    def _keep_stats(self) -> None:
        """Write the servers' statistics beside the histories, for the analysis of a stuck run."""
        kept: dict[str, Any] = {}
        for topic in TOPICS:
            with contextlib.suppress(AdminError):
                kept[topic.short] = self._admin().stats(topic.full)
                kept[f"{topic.short} internal"] = self._admin().internal_stats(topic.full)
        for name, broker in self._stack.read_only.items():
            with contextlib.suppress(OSError):
                kept[name] = broker.stats()
        (self._folder / "stats.json").write_text(json.dumps(kept, indent=1), encoding="utf-8")

    def _judge(self) -> None:
        with step("reading the topics"):
            opened = self._open_transactions()
            held = {topic.short: self._read(topic.full) for topic in TOPICS}
            sizes = {topic.short: self._ledger_sizes(topic.full) for topic in TOPICS}
        self._outcome.messages = sum(map(len, held.values()))
        self._outcome.wrong += [
            f"{topic}: the owner holds messages back, behind {number} open transactions"
            for topic, number in opened.items()
        ]
        self._keep(held)
        held_topics = {
            topic.short: Topic(
                held[topic.short],
                deduplicated=topic.deduplicated,
                deletions=self._injector.deletions if topic.deleted else (),
                sizes=sizes[topic.short],
                held_back=topic.short in opened,
            )
            for topic in TOPICS
        }
        watched = {
            one.name: Watched(
                # Delivery in any order has the rules of Shared.
                one.topic,
                "Shared" if one.keys is Keys.ANY_ORDER else one.type,
                stock=one.stock,
                resets=one.resets,
                latest=one.latest,
                stored=self._local,
            )
            for one in SUBSCRIPTIONS
        }
        with step("checking the clients' events"):
            events = heapq.merge(*map(read_events, self._histories()), key=lambda event: event.at)
            done = self._injector.done
            self._outcome.verdict = check(events, watched, held_topics, done, self._limits, self._begin)
        self._outcome.wrong += self._injector.wrong
        if self._flat:
            latencies = {m: v for m, v in self._outcome.verdict.latencies.items() if m >= 0 and v}
            self._outcome.wrong += samples.trends(self._outcome.samples, latencies)

    def _keep(self, held: dict[str, list[Stored]]) -> None:
        """Write the input of the check beside the histories: the faults by time, and the topics' messages."""
        faults = (f"{one.begin:.3f} to {one.end:.3f}: {one.text}\n" for one in sorted(self._injector.done))
        (self._folder / "faults.txt").write_text("".join(faults), encoding="utf-8")
        with (self._folder / "held.jsonl").open("w", encoding="utf-8") as file:
            for topic, messages in held.items():
                file.writelines(json.dumps([topic, *message]) + "\n" for message in messages)

    def _histories(self) -> list[Path]:
        return [self._history.path, *itertools.chain.from_iterable(one.histories for one in self._clients.values())]

    def _read(self, topic: str) -> list[Stored]:
        """Return all messages of a topic at its owner."""
        service = service_url(self._stack.endpoints.brokers)
        client = pulsar.Client(service, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        try:
            reader = client.create_reader(topic, pulsar.MessageId.earliest)
            found = []
            while reader.has_message_available():
                message = reader.read_next(_READ_MS)
                name, sent = parse(message.data().decode())
                found.append(Stored(place_of(message.message_id()), message.partition_key(), name, sent))
            return found
        finally:
            client.close()

    def _ledger_sizes(self, topic: str) -> dict[int, int]:
        """Return the entries of a topic's ledgers but the last, as its list counts them."""
        ledgers = self._admin().internal_stats(topic)["ledgers"]
        return {ledger["ledgerId"]: ledger["entries"] for ledger in ledgers[:-1]}

    async def _look_back(self) -> None:
        """Wait until nothing is left of the clients, and record resources that stay."""
        assert self._outcome.traces is not None
        before = self._outcome.traces[0]
        deadline = time.monotonic() + TRACES_S
        wrong = ["the servers do not answer"]
        with step("looking for resources that the run has left behind"):
            while time.monotonic() < deadline:
                try:
                    after = await asyncio.to_thread(traces.look, self._stack, self._network)
                except OSError as error:
                    wrong = [f"the resources are unknown: {error}"]
                else:
                    self._outcome.traces = (before, after)
                    wrong = traces.compare(before, after, local=self._local)
                    if not wrong:
                        break
                await asyncio.sleep(2.0)
        self._outcome.wrong += wrong


def _patiently(action: Callable[[], Traces], seconds: float, error: type[Exception]) -> Traces:
    deadline = time.monotonic() + seconds
    while True:
        try:
            return action()
        except error:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
