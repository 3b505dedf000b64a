"""A broker of a pool: what its connections share."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from readonly_engine.broker.bindings import Bindings, BindingsError, load_bindings
from readonly_engine.broker.connection import ClientConnection
from readonly_engine.broker.keep_alive import KeepAlive

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from readonly_engine.broker.consumer import Consumer
    from readonly_engine.broker.fleet import Fleet
    from readonly_engine.broker.topics import ServedTopics
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.relay.owners import Owners

log = logging.getLogger(__name__)

T = TypeVar("T")

BINDINGS_POLL_S = 1.0
"""A bindings file that is a mounted ConfigMap changes by a swap of links: looking is simpler than watching."""

ACK_TIMEOUT_S = 5.0
"""How long a broker that leaves waits for acks; a pod has 30 s in all (terminationGracePeriodSeconds)."""

CLOSE_TIMEOUT_S = 5.0


class Broker:
    """Serves clients.

    Args:
        owners: connections to the writable cluster.
        topics: the topics served here.
        fleet: the pool that this broker is a member of.
        patterns: what the command line and the configuration bind.
        bindings_file: what the operator binds, read again when it changes.
    """

    def __init__(
        self, owners: Owners, topics: ServedTopics, fleet: Fleet, patterns: Bindings, bindings_file: Path | None
    ) -> None:
        self.owners = owners
        self.topics = topics
        self.fleet = fleet
        self.bindings = patterns
        self.bindings_error: str | None = None
        self.connections: set[ClientConnection] = set()
        self.keep_alive = KeepAlive()
        self._patterns = patterns
        self._bindings_file = bindings_file
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._draining = False

    async def start(self, host: str, port: int) -> None:
        """Join the pool and listen.

        Raises:
            OSError: the address cannot be listened on.
            MetadataUnavailableError: the pool cannot be joined.
        """
        self._load_bindings()
        self._server = await asyncio.get_running_loop().create_server(lambda: ClientConnection(self), host, port)
        self.keep_alive.start()
        await self.fleet.join(self._evict)
        if self._bindings_file is not None:
            self._watcher = self.spawn(self._watch_bindings())

    @property
    def listening(self) -> bool:
        """Whether clients can connect."""
        return self._server is not None and self._server.is_serving()

    async def drain(self) -> None:
        """Leave the pool, let what was delivered be acked, send every client elsewhere; then close."""
        self._draining = True
        if self._watcher is not None:
            self._watcher.cancel()
        await self.fleet.leave()
        consumers = self._consumers()
        log.info("leaving: %d consumers are sent to other brokers", len(consumers))
        await self._await_acks(consumers)
        for consumer in consumers:
            consumer.dismiss("this broker leaves the pool")
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_TIMEOUT_S)
        if self._server is not None:
            self._server.close()
        self.keep_alive.stop()
        for connection in list(self.connections):
            connection.close()
        self.topics.close()
        self.owners.close()

    async def _await_acks(self, consumers: list[Consumer]) -> None:
        """Deliver nothing new, and wait for the acks of what was delivered: what is not acked is delivered again elsewhere."""
        subscriptions = {consumer.subscription for consumer in consumers if consumer.subscription is not None}
        durable = {c.subscription for c in consumers if c.subscription is not None and c.subscribe.durable}
        for subscription in subscriptions:
            subscription.pause()
        deadline = asyncio.get_running_loop().time() + ACK_TIMEOUT_S
        while any(subscription.outstanding for subscription in durable):
            if asyncio.get_running_loop().time() > deadline:
                log.info("some messages are not acked after %g s; they are delivered again elsewhere", ACK_TIMEOUT_S)
                break
            await asyncio.sleep(0.02)
        relayed = [asyncio.ensure_future(consumer.relayed.settled()) for consumer in consumers]
        if relayed:
            _, late = await asyncio.wait(relayed, timeout=ACK_TIMEOUT_S)
            for wait in late:
                wait.cancel()
            if late:
                log.warning("%d consumers have acks that the owner has not answered", len(late))

    def redirect_for(self, topic: TopicName) -> str | None:
        """The broker of the pool that serves a topic; None for a topic that is not bound to the pool."""
        return self.fleet.broker_of(topic) if self.bindings.covers(topic) else None

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run something beside; an error that nobody expected is logged."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a task failed", exc_info=task.exception())

    def _consumers(self) -> list[Consumer]:
        return [consumer for connection in self.connections for consumer in connection.consumers]

    def _evict(self) -> None:
        """Send away the consumers of topics that are not served here any more."""
        if self._draining:
            return
        for consumer in self._consumers():
            if self.redirect_for(consumer.topic) != self.fleet.url:
                consumer.dismiss("the topic is served elsewhere now")

    # Bindings

    def _load_bindings(self) -> None:
        """Take up the bindings file; one that cannot be used leaves the last good one in force."""
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
            log.info("bindings of revision %s are in force: %s", bindings.revision, names)
            self.bindings = bindings

    async def _watch_bindings(self) -> None:
        while True:
            await asyncio.sleep(BINDINGS_POLL_S)
            before = self.bindings
            self._load_bindings()
            if self.bindings is not before:
                self._evict()
