"""Injects the faults of a plan into nodes, links and topics, and records them with times."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from devstack.console import say
from devstack.errors import DevstackError
from devstack.pulsar.admin import AdminError, MessageId
from longtests.chaos.observed import Done
from longtests.chaos.plan import LINK_FAULTS, METADATA, Fault, Kind, role
from longtests.chaos.policies import Policies
from longtests.chaos.workload import TOPICS
from longtests.churn.history import Id
from longtests.churn.history import Kind as Event

if TYPE_CHECKING:
    from collections.abc import Callable

    from devstack.pulsar.admin import PulsarAdmin
    from longtests.chaos.bindings import BindingFiles
    from longtests.chaos.keepers import Keeper
    from longtests.chaos.net import Network
    from longtests.chaos.processes import ClientProcess
    from longtests.chaos.stack import ChaosStack
    from longtests.churn.history import History

COMMAND_S: Final = 100.0
MAX_BUNDLES: Final = 24
RESET_ENTRIES: Final = 300
"""Maximum number of entries by which a reset moves a cursor back."""

_WRITABLE: Final = frozenset({"broker", "bookie", METADATA})
_SIGNALS: Final = {Kind.KILL: signal.SIGKILL, Kind.TERMINATE: signal.SIGTERM}


class NotDoneError(Exception):
    """A fault could not be injected now, because its target is unhealthy."""


class Injector:
    """Injects faults.

    Args:
        stack: the servers.
        network: the links.
        clients: the client processes by node.
        history: receives the resets.
        admin: returns a client of the admin API of a healthy owner.
        keeper: resets cursors.
        bindings: name the keepers of cursors.
    """

    def __init__(
        self,
        stack: ChaosStack,
        network: Network,
        clients: dict[str, ClientProcess],
        history: History,
        admin: Callable[[], PulsarAdmin],
        keeper: Keeper,
        bindings: BindingFiles,
    ) -> None:
        self._stack = stack
        self._network = network
        self._clients = clients
        self._history = history
        self._admin = admin
        self._keeper = keeper
        self._bindings = bindings
        self.policies = Policies(admin)
        self._links: Counter[tuple[str, str, str]] = Counter()
        self.done: list[Done] = []
        self.skipped: Counter[str] = Counter()
        self.busy: set[str] = set()
        """Nodes under a fault or a repair: without health checks and other process faults."""
        self.deletions: list[tuple[float, float]] = []
        self.wrong: list[str] = []

    async def do(self, fault: Fault) -> None:
        """Inject one fault, and undo it after its duration."""
        begin = time.monotonic()
        try:
            await self._do(fault)
        except NotDoneError as error:
            self.skipped[fault.title] += 1
            say(f"skipped: {fault}: {error}")
            return
        except (AdminError, DevstackError) as error:
            # It was started; the health check repairs the rest.
            say(f"{fault}: {error}"[:300])
        writable = bool({role(fault.node), role(fault.peer)} & _WRITABLE) or not fault.node
        self.done.append(Done(begin, time.monotonic(), fault.title, str(fault), writable))

    async def _do(self, fault: Fault) -> None:
        if fault.kind in LINK_FAULTS:
            await self._link(fault)
        elif fault.kind is Kind.SLOW:
            await self._slow(fault)
        elif fault.kind in {Kind.LEAVE, Kind.DROP}:
            verb = "leave" if fault.kind is Kind.LEAVE else "drop"
            command = f"{verb} {fault.seconds} {fault.number}"
            with _Busy(self.busy, fault.node):
                await asyncio.to_thread(self._clients[fault.node].tell, command, COMMAND_S)
        elif fault.node:
            with _Busy(self.busy, fault.node):
                await self._process(fault)
        elif fault.kind is Kind.POLICY:
            await asyncio.to_thread(self.policies.set, fault.number)
            await asyncio.sleep(fault.seconds)
            await asyncio.to_thread(self.policies.remove, fault.number)
        elif fault.kind is Kind.KEEPER:
            if not self._bindings.local:
                raise NotDoneError("a pool without local cursors would keep partitions of them from then on")
            await self._bindings.change_for(fault.number, fault.seconds)
        else:
            await asyncio.to_thread(self._topic, fault)

    # Links

    async def _link(self, fault: Fault) -> None:
        kind = "lossy" if fault.kind is Kind.LOSSY else "cut"
        ways = [(fault.node, fault.peer)]
        if fault.kind is not Kind.CUT_ONE_WAY:
            ways.append((fault.peer, fault.node))
        for node, peer in ways:
            self._links[kind, node, peer] += 1
            if self._links[kind, node, peer] == 1:
                await asyncio.to_thread(self._network.drop, node, peer, kind=kind)
        await asyncio.sleep(fault.seconds)
        for node, peer in ways:
            self._links[kind, node, peer] -= 1
            if not self._links[kind, node, peer]:
                await asyncio.to_thread(self._network.drop, node, peer, kind=kind, undo=True)

    async def _slow(self, fault: Fault) -> None:
        self._links["slow", fault.node, ""] += 1
        await asyncio.to_thread(self._network.slow, fault.node)
        await asyncio.sleep(fault.seconds)
        self._links["slow", fault.node, ""] -= 1
        if not self._links["slow", fault.node, ""]:
            await asyncio.to_thread(self._network.slow, fault.node, undo=True)

    # Processes

    async def _process(self, fault: Fault) -> None:
        if role(fault.node) == "clients":
            await self._client(fault)
            return
        if not self._stack.alive(fault.node):
            raise NotDoneError(f"{fault.node} does not run")
        if fault.kind is Kind.STOP:
            self._stack.signal(fault.node, signal.SIGSTOP)
            await asyncio.sleep(fault.seconds)
            self._stack.signal(fault.node, signal.SIGCONT)
        elif fault.kind is Kind.DISK_FULL:
            await asyncio.to_thread(self._stack.fill_disk, fault.node)
            await asyncio.sleep(fault.seconds)
            await asyncio.to_thread(self._stack.free_disk, fault.node)
        else:
            status = await asyncio.to_thread(self._stack.end, fault.node, _SIGNALS[fault.kind])
            if fault.kind is Kind.TERMINATE and status:
                self.wrong.append(f"{fault}: ended with status {status}")
            await asyncio.sleep(fault.seconds)
            await asyncio.to_thread(self._stack.start_node, fault.node)

    async def _client(self, fault: Fault) -> None:
        client = self._clients[fault.node]
        if fault.kind is Kind.STOP:
            client.signal(signal.SIGSTOP)
            await asyncio.sleep(fault.seconds)
            client.signal(signal.SIGCONT)
        else:
            await asyncio.to_thread(client.kill)
            await asyncio.sleep(fault.seconds)
            await asyncio.to_thread(client.start)

    # Topics

    def _topic(self, fault: Fault) -> None:
        admin = self._admin()
        if fault.kind is Kind.UNLOAD:
            admin.unload(TOPICS[fault.number % len(TOPICS)].full)
        elif fault.kind is Kind.SPLIT:
            namespaces = sorted({topic.namespace for topic in TOPICS})
            namespace = namespaces[fault.number % len(namespaces)]
            bundles = self._ask(admin.bundles, namespace)
            if len(bundles) >= MAX_BUNDLES:
                raise NotDoneError(f"{namespace} has {len(bundles)} bundles")
            admin.split_bundle(namespace, bundles[fault.number % len(bundles)])
        elif fault.kind is Kind.RESET:
            self._reset(admin, fault.number)
        else:
            begin = time.monotonic()
            topic = next(topic for topic in TOPICS if topic.deleted)
            try:
                admin.delete_topic(topic.full)
            finally:
                self.deletions.append((begin, time.monotonic()))

    def _reset(self, admin: PulsarAdmin, number: int) -> None:
        moved = self._keeper.resettable()
        subscription = moved[number % len(moved)]
        topic = next(topic for topic in TOPICS if topic.short == subscription.topic)
        stats = self._ask(admin.internal_stats, topic.full)
        counts = {int(one["ledgerId"]): int(one["entries"]) for one in stats["ledgers"]}
        if counts:
            counts[max(counts)] = int(stats["currentLedgerEntries"])
        places = [(ledger, entry) for ledger in sorted(counts) for entry in range(counts[ledger])]
        if not places:
            raise NotDoneError(f"{topic.short} has no message")
        ledger, entry = places[-1 - number % min(len(places), RESET_ENTRIES)]
        place = [Id(ledger, entry)]
        self._history.add(Event.SEEKING, subscription.name, ids=place)
        unknown = 1
        try:
            self._keeper.reset(topic.full, subscription.short, MessageId(ledger, entry))
            unknown = 0
        finally:
            self._history.add(Event.SOUGHT, subscription.name, ids=place, number=unknown)

    def _ask(self, question: Callable[..., Any], *args: str) -> Any:
        """Call an owner; without an answer the fault is skipped."""
        try:
            return question(*args)
        except AdminError as error:
            raise NotDoneError(str(error)) from error


class _Busy:
    """Lock of a node: one process fault or repair at a time."""

    def __init__(self, busy: set[str], node: str) -> None:
        self._busy = busy
        self._node = node

    def __enter__(self) -> None:
        if self._node in self._busy:
            raise NotDoneError(f"{self._node} is under repair")
        self._busy.add(self._node)

    def __exit__(self, *_: object) -> None:
        self._busy.discard(self._node)
