"""A broker of a pool: its listeners, the shared parts of its connections, and the effects of claims and bindings."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from readonly_engine.background import run_forever, sleep_to_tick
from readonly_engine.broker.consumer.exclusives import ExclusiveConsumers
from readonly_engine.broker.consumer.route import CLAIMED_TYPES
from readonly_engine.broker.consumer.split import connect_to_coordinator
from readonly_engine.broker.cursors.local_cursors import WHOLE_PARTITION
from readonly_engine.broker.pool.bindings import Bindings, BindingsError, Dispatch, load_bindings
from readonly_engine.broker.pool.cheaper import RecentRedirects
from readonly_engine.broker.pool.claims import ActionKind, ClaimKey
from readonly_engine.broker.pool.member_selector import MemberSelector
from readonly_engine.broker.pool.pending_redirects import PendingRedirects
from readonly_engine.broker.pool.redirects import RedirectHistory
from readonly_engine.broker.server.drain import drain
from readonly_engine.broker.server.owner_returns import OwnerReturns
from readonly_engine.broker.server.rebalance import Rebalancer
from readonly_engine.broker.session.bounds import MAX_BROKER_REQUEST_BYTES, MAX_BROKER_REQUESTS, WRITE_BUFFER_BYTES
from readonly_engine.broker.session.closing import ClosingConsumers
from readonly_engine.broker.session.connection import ClientConnection
from readonly_engine.broker.session.idle import IdleClock
from readonly_engine.broker.session.request_quota import RequestQuota
from readonly_engine.broker.session.subscribe_refusals import SubscribeRefusals
from readonly_engine.broker.split.keys import why_indivisible
from readonly_engine.broker.split.registry import SplitSubscriptions
from readonly_engine.broker.subscription.owner_leases import OwnerLeases
from readonly_engine.broker.subscription.pause import Pause
from readonly_engine.config.listeners import DEFAULT
from readonly_engine.config.settings import Cursors, Unbound
from readonly_engine.lease_guard import LeaseGuard
from readonly_engine.net import descriptors
from readonly_engine.net.half_open import MAX_HALF_OPEN, HalfOpenConnections
from readonly_engine.net.interfaces import local_hosts
from readonly_engine.net.keep_alive import KeepAlive
from readonly_engine.net.tls_listener import TlsListener
from readonly_engine.net.write_coalescer import WriteCoalescer
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

if TYPE_CHECKING:
    import ssl
    from collections.abc import Coroutine
    from pathlib import Path

    from readonly_engine.broker.consumer.client_consumer import ClientConsumer
    from readonly_engine.broker.consumer.limits import Limits
    from readonly_engine.broker.cursors.local_cursors import LocalCursors
    from readonly_engine.broker.cursors.local_names import LocalSubscriptionNames
    from readonly_engine.broker.passthrough.policy import PassThroughPolicy
    from readonly_engine.broker.pool.claim_store import ClaimStore
    from readonly_engine.broker.pool.claims import ClaimAction
    from readonly_engine.broker.pool.membership import Member, PoolMembership
    from readonly_engine.broker.replay.replay import Replay
    from readonly_engine.broker.subscription.subscription import Subscription
    from readonly_engine.broker.subscription.topics import TopicRegistry
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.net.tls import Reloaded
    from readonly_engine.owner.directory import OwnerDirectory

log = logging.getLogger(__name__)

T = TypeVar("T")

BINDINGS_POLL_S = 1.0
"""Interval of checks of the bindings file. A mounted ConfigMap changes by a swap of links, so polling is simpler than a watch."""


class Broker:
    """Serves clients.

    Args:
        owners: connections to the source cluster.
        topics: the open topics and their subscriptions.
        passthrough: decides which subscriptions the owner serves.
        pool: the membership in the pool.
        claim_store: the claims of this broker.
        local_cursors: the cursors that this broker keeps.
        local_names: looks for local cursors of subscriptions that owners keep.
        limits: limits of connections and consumers.
        patterns: bindings of the command line and the configuration.
        bindings_file: bindings of the operator, read again after a change; None without one.
        unbound: handling of topics without a binding.
        cursors: keeper of cursors where no binding names it.
        guard: checks leases before each delivery.
        replay: the replay of past messages that the pool is; None for a pool of present ones.
    """

    def __init__(
        self,
        owners: OwnerDirectory,
        topics: TopicRegistry,
        passthrough: PassThroughPolicy,
        pool: PoolMembership,
        claim_store: ClaimStore,
        local_cursors: LocalCursors,
        local_names: LocalSubscriptionNames,
        limits: Limits,
        patterns: Bindings,
        bindings_file: Path | None,
        unbound: Unbound = Unbound.REDIRECT,
        cursors: Cursors = Cursors.OWNER,
        guard: LeaseGuard | None = None,
        replay: Replay | None = None,
    ) -> None:
        self.unbound = unbound
        self.replay = replay
        self.owners = owners
        self.topics = topics
        self.passthrough = passthrough
        self.pool = pool
        self.claim_store = claim_store
        self.local_cursors = local_cursors
        self.local_names = local_names
        self._cursors = cursors
        self.limits = limits
        self.owner_leases = OwnerLeases(guard or LeaseGuard())
        self.redirects = RedirectHistory()
        self.recent_redirects = RecentRedirects()
        self.pending_redirects = PendingRedirects()
        self.splits = SplitSubscriptions(pool, claim_store, topics, partial(connect_to_coordinator, self))
        self.requests = RequestQuota(MAX_BROKER_REQUESTS, MAX_BROKER_REQUEST_BYTES)
        self.slow_clients = 0
        self.subscribing = 0
        self.subscribe_refusals = SubscribeRefusals()
        self.closing_consumers = ClosingConsumers(self.spawn)
        self.draining = False
        self.member_selector = MemberSelector(random.randrange(1 << 16))  # noqa: S311 - to spread clients, not to hide anything
        self._rebalancer = Rebalancer(self)
        self._returns = OwnerReturns(self)
        self.bindings = patterns
        self.bindings_error: str | None = None
        self.connections: set[ClientConnection] = set()
        self.keep_alive = KeepAlive()
        self.exclusives = ExclusiveConsumers()
        self.half_open: HalfOpenConnections[ClientConnection] = HalfOpenConnections(
            min(MAX_HALF_OPEN, descriptors.max_descriptors() // 2)
        )
        self.idle = IdleClock(time.monotonic())
        self.write_coalescer = WriteCoalescer()
        self._patterns = patterns
        self._bindings_file = bindings_file
        self._tasks: set[asyncio.Task[Any]] = set()
        self._servers: list[asyncio.Server] = []
        self._tls_listeners: list[TlsListener] = []
        self._watcher: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen and join the pool.

        Raises:
            OSError: the address is not available.
            MetadataUnavailableError: the pool cannot be joined.
        """
        self._load_bindings()
        await self.listen(DEFAULT, host, port)
        self.keep_alive.start()
        self.claim_store.start(self._claim_changed)
        await self.pool.join()
        self._rebalancer.start()
        self._returns.start()
        if self._bindings_file is not None:
            self._watcher = run_forever(self._watch_bindings, "following the bindings")

    async def listen(self, listener: str, host: str, port: int, *, shared: bool = False) -> None:
        """Listen for clients of a named listener.

        Args:
            listener: name of the listener.
            host: local address.
            port: port.
            shared: whether other processes listen on the same port, and each gets some connections (SO_REUSEPORT).

        Raises:
            OSError: the address is not available.
        """
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: ClientConnection(self, listener), local_hosts(host), port, reuse_port=shared or None
        )
        self._servers.append(server)

    async def listen_tls(
        self, listener: str, context: Reloaded[ssl.SSLContext], host: str, port: int, *, shared: bool = False
    ) -> None:
        """Listen for clients of a named listener with TLS.

        Args:
            listener: name of the listener.
            context: TLS context with the certificate.
            host: local address.
            port: port.
            shared: as in `listen`.

        Raises:
            OSError: the address is not available.
        """
        tls_listener = TlsListener(lambda: ClientConnection(self, listener), context)
        await tls_listener.start(host, port, shared=shared)
        self._tls_listeners.append(tls_listener)

    @property
    def listening(self) -> bool:
        """Whether clients can connect."""
        servers = bool(self._servers) and all(server.is_serving() for server in self._servers)
        return servers and all(listener.listening for listener in self._tls_listeners)

    @property
    def idle_seconds(self) -> float:
        """Seconds since a client last needed the broker; 0 while one has anything open."""
        in_use = any(connection.in_use for connection in self.connections)
        return self.idle.seconds(time.monotonic(), in_use=in_use)

    async def drain(self) -> None:
        """Leave the pool, wait for acks, send all clients to other brokers (see `drain`), and close the broker."""
        self.draining = True
        if self._watcher is not None:
            self._watcher.cancel()
        self._rebalancer.stop()
        self._returns.stop()
        await drain(self)
        for server in self._servers:
            server.close()
        for tls_listener in self._tls_listeners:
            tls_listener.close()
        for connection in list(self.connections):
            connection.close()
        self.keep_alive.stop()
        self.claim_store.close()
        self.pool.close()
        self.passthrough.close()
        self.topics.close()
        self.owners.close()

    async def wait_for_tasks(self, seconds: float) -> None:
        """Wait for the broker's tasks, and those that they start, for `seconds` at most."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self._tasks and (left := until - loop.time()) > 0:
            await asyncio.wait(set(self._tasks), timeout=left)

    @property
    def under_memory_pressure(self) -> bool:
        """Whether the buffers of slow clients may exceed the limit of buffered bytes."""
        return self.slow_clients * WRITE_BUFFER_BYTES > self.limits.config.max_buffered_bytes

    def keeps_cursors(self, topic: TopicName, subscription: str) -> bool:
        """Return whether the pool keeps the cursor of a subscription, instead of its owner."""
        if self.replay is not None:
            return True
        return (self.bindings.cursors_of(topic, subscription) or self._cursors) is Cursors.LOCAL

    def splits_dispatch(self, topic: TopicName, subscription: str) -> bool:
        """Return whether the bindings let several brokers of the pool serve a subscription."""
        return self.bindings.dispatch_of(topic, subscription) is Dispatch.SPLIT

    def choose_broker(self, *, tls: bool, listener: str, locality: str) -> Member | None:
        """Return the broker of the pool for the next consumer; None without one.

        Args:
            tls: whether the client needs a TLS address.
            listener: name of the client's listener.
            locality: locality that the client gives; empty for none: then it is that of this broker, which the client asked.
        """
        return self.member_selector.choose(
            self.pool.members.values(),
            tls=tls,
            listener=listener,
            locality=locality or self.pool.locality,
            now=time.monotonic(),
        )

    def note_refused(self, url: str) -> None:
        """Answer no lookups with a broker of the pool whose address has just refused a connection.

        Args:
            url: URL of the address, of a broker of the pool or of an owner.
        """
        self.member_selector.note_refused(url, self.pool.members.values(), time.monotonic())

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a task of the broker; an unexpected error is logged."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("task failed unexpectedly", exc_info=task.exception())

    @property
    def consumers(self) -> list[ClientConsumer]:
        """The consumers of all connections."""
        return [consumer for connection in self.connections for consumer in connection.consumers]

    def _evict(self, before: Bindings) -> None:
        """Close the consumers for which the new bindings name another place, unless the old binding's lifecycle is Detach.

        Args:
            before: the bindings before the change.
        """
        for consumer in self.consumers:
            topic, name = consumer.topic, consumer.info.name
            if self.bindings.serves(topic, name):
                if reason := self._misplaced(consumer):
                    consumer.close_for_resubscribe(reason)
                consumer.bound = True  # maybe it was detached before, and this pool still serves it
            elif not consumer.bound:
                continue
            elif before.detaches(topic, name):
                log.info(
                    "consumer detached from its binding: topic=%s subscription=%s consumer=%d",
                    topic,
                    name,
                    consumer.consumer_id,
                )
                consumer.bound = False
            else:
                consumer.close_for_resubscribe("the subscription is not bound to the pool any more")

    def _misplaced(self, consumer: ClientConsumer) -> str:
        """Return why a consumer must subscribe again by the bindings in force; empty to keep it."""
        topic, info = consumer.topic, consumer.info
        if reason := consumer.misplaced(keeps_cursor=self.keeps_cursors(topic, info.name)):
            return reason
        if info.kind in CLAIMED_TYPES and info.durable and consumer.subscription is not None:
            split = (
                self.splits_dispatch(topic, info.name)
                and (consumer.subscription.at_owner or info.kind == CommandSubscribe.Shared)
                and self.replay is None
                and self.splits.allows(ClaimKey(topic, info.name))
                and not why_indivisible(consumer.subscribe_command)
            )
            if consumer.split != split:
                return "the dispatch of the subscription has changed"
        return ""

    def _claim_changed(self, action: ClaimAction) -> None:
        """Apply a change of a claim: close its consumers, or suspend or resume its subscriptions."""
        kind, key = action.kind, action.key
        if self.splits.owns(key):  # its leases end with the claim, without SUSPEND
            if kind in {ActionKind.REVOKE, ActionKind.REFRESH}:
                self.splits.claim_lost(key)
            return
        if kind == ActionKind.REVOKE:
            for consumer in self.consumers:
                if consumer.served_under(key):
                    consumer.close_for_resubscribe("another broker has claimed the subscription")
            self.local_cursors.end(key, "another broker has claimed them")
            return
        if kind == ActionKind.REFRESH and key.subscription == WHOLE_PARTITION:
            self.local_cursors.end(key, "another broker may have had them")
            return
        if kind == ActionKind.SUSPEND:
            log.warning(
                "the metadata store does not confirm a claim, delivery suspended: topic=%s subscription=%s", *key
            )
        for subscription in self._claimed(key):
            if kind == ActionKind.SUSPEND:
                subscription.pause(Pause.LEASE)
            else:
                if kind == ActionKind.REFRESH:
                    subscription.refresh()
                subscription.resume(Pause.LEASE)

    def _claimed(self, key: ClaimKey) -> list[Subscription]:
        """Return the subscriptions of a claim on this broker. Admission checks the claims of new consumers."""
        names = [key] if key.subscription != WHOLE_PARTITION else self.local_cursors.subscriptions(key)
        found = [self.topics.subscription(topic, name) for topic, name in names]
        return [subscription for subscription in found if subscription is not None]

    # Bindings

    def _load_bindings(self) -> None:
        """Read the bindings file. If it is invalid, the last good bindings stay in force."""
        if self._bindings_file is None:
            return
        try:
            loaded = load_bindings(self._bindings_file)
        except BindingsError as error:
            if str(error) != self.bindings_error:
                log.warning("%s; the last good bindings stay in force", error)
            self.bindings_error = str(error)
            return
        self.bindings_error = None
        bindings = Bindings(self._patterns.bindings + loaded.bindings, loaded.revision)
        if bindings != self.bindings:
            names = ", ".join(binding.name for binding in bindings.bindings) or "none"
            log.info("bindings changed: revision=%s bindings=%s", bindings.revision, names)
            self.bindings = bindings

    async def _watch_bindings(self) -> None:
        while True:
            await sleep_to_tick(BINDINGS_POLL_S)
            before = self.bindings
            self._load_bindings()
            if self.bindings is not before:
                self._evict(before)
                self.topics.bindings_changed()
