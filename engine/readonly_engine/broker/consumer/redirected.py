"""A consumer whose client is redirected to the broker that serves it; until then its messages are held back."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar

from readonly_engine.broker.consumer.passed_through import PassedThroughConsumer
from readonly_engine.broker.pool.client_versions import supports_assigned_broker
from readonly_engine.broker.pool.redirects import TO_POOL, PendingRedirect, close_consumer
from readonly_engine.owner.errors import RelayError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Hashable

    from readonly_engine.broker.consumer.client_link import ClientLink
    from readonly_engine.broker.consumer.route import Placement
    from readonly_engine.broker.pool.claim_store import ClaimHandle
    from readonly_engine.config.listeners import Urls
    from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandSubscribe

MAX_LATE_ACKS = 1000
"""Acks that are kept while the other broker closes the consumer. Messages of further ones come again, as after any close."""


class RedirectedConsumer(PassedThroughConsumer):
    """Passes through to another broker, until its client is redirected there; for good if the client cannot be.

    Args:
        connection: the client's connection.
        placement: as in ClientConsumer.
        subscribe: the SUBSCRIBE for that broker.
        claim: as in ClientConsumer.
        peer_url: URL for connections to that broker; empty for the owner.

    Attributes:
        to: whose broker that is, for the count of redirects.
    """

    to: ClassVar[str] = TO_POOL

    __slots__ = ("_closing_there", "_late_acks", "_pending_redirect", "_stays")

    def __init__(
        self,
        connection: ClientLink,
        placement: Placement,
        subscribe: CommandSubscribe,
        claim: ClaimHandle | None,
        peer_url: str = "",
    ) -> None:
        super().__init__(connection, placement, subscribe, claim, peer_url)
        self._pending_redirect: PendingRedirect | None = None  # None for none, or after the decision
        self._closing_there: asyncio.Future[None] | None = None  # while the other broker closes the consumer
        self._stays = False  # a command has come meanwhile
        self._late_acks: list[BaseCommand] = []

    def urls(self) -> Urls:
        """Return the URLs to redirect the client to."""
        raise NotImplementedError

    def closing(self) -> BaseCommand | None:
        """Return the CLOSE_CONSUMER for that broker, before the client goes there; None for a plain one."""
        return None

    @property
    def movable(self) -> bool:
        """Whether another broker of the pool can serve it as well: another broker does already."""
        return False

    async def begin(self, sent: float) -> None:
        """Do nothing: the other broker has the consumer."""

    def _leave(self) -> None:
        """Do nothing: the policy does not know it."""

    def flow(self, command: BaseCommand) -> None:
        """Add the permits of a FLOW. Its client sends the first one right after SUBSCRIBE."""
        if self._pending_redirect is not None:
            self._pending_redirect.permits += command.flow.message_permits
        super().flow(command)

    def ack(self, command: BaseCommand) -> None:
        """Relay an ACK."""
        if self._closing_there is None:
            super().ack(command)
            return
        self._stays = True
        if len(self._late_acks) < MAX_LATE_ACKS:
            self._late_acks.append(command)

    @property
    def _may_grant(self) -> bool:
        return self._pending_redirect is None and self.connection.writable

    # The redirect

    def on_answered(self) -> None:
        """Redirect the client if it supports that; otherwise keep relaying it.

        The consumer was subscribed through this broker before, so the owner has authorized it.
        """
        client, urls = self.connection, self.urls()
        if urls.serve(tls=client.tls) and supports_assigned_broker(client.client_version):
            self._pending_redirect = pending = PendingRedirect(time.monotonic())
            client.services.spawn(self._decide(pending, self.client_key, urls))

    @property
    def client_key(self) -> Hashable:
        """What identifies the consumer when it returns from a redirect that did not work."""
        return client_key(self.connection, self.subscribe_command)

    async def _decide(self, pending: PendingRedirect, key: Hashable, urls: Urls) -> None:
        """Redirect the client as soon as it may be, or relay its messages from then on."""
        redirects, version = self.connection.services.redirects, self.connection.client_version
        while not self.unregistered:
            now = time.monotonic()
            wait = pending.wait(now)
            if wait is not None and wait > 0:
                await asyncio.sleep(wait)
            elif wait is not None and redirects.allow(version, key, now, self.to):
                await self._redirect(urls, pending)
                return
            else:
                self._pending_redirect = None
                self._grant_permits()
                return

    async def _redirect(self, urls: Urls, pending: PendingRedirect) -> None:
        """Redirect the client, unless a command comes before it gets to know of that: no other connection would repeat it."""
        self.flow_window.close()
        self._closing_there = closing = asyncio.get_running_loop().create_future()
        try:
            await self.close(self.closing())
            if self._stays and not self.unregistered:
                await self._stay(pending)
                return
        finally:
            self._closing_there = None
            closing.set_result(None)
        self.connection.drop_consumer(self)
        self.connection.send(close_consumer(self.consumer_id, urls.url, urls.tls_url))

    async def _stay(self, pending: PendingRedirect) -> None:
        """Subscribe at the other broker again, and relay from then on. No message has come so far."""
        self._closing, self._closed = None, False
        self._open(self.subscribe_command)
        self.flow_window.add_permits(pending.permits)  # those of a later FLOW are added by `flow`
        try:
            await self.owner_consumer.subscribe()
        except RelayError as error:
            self.on_closed_by_owner(str(error))
            return
        self._pending_redirect = None
        late, self._late_acks = self._late_acks, []
        for command in late:
            super().ack(command)
        self._grant_permits()

    @asynccontextmanager
    async def requesting(self) -> AsyncIterator[None]:
        """Put the redirect off while a request of the client is unanswered: it would fail, because the consumer is gone here."""
        if self._closing_there is not None:
            self._stays = True
            await asyncio.shield(self._closing_there)
        pending = self._pending_redirect
        if pending is not None:
            pending.requested_at = math.inf
        try:
            yield
        finally:
            if pending is not None:
                pending.requested_at = time.monotonic()


def client_key(client: ClientLink, subscribe: CommandSubscribe) -> Hashable:
    """Return what identifies a consumer in RedirectHistory."""
    return client.address, subscribe.topic, subscribe.subscription, subscribe.consumer_name
