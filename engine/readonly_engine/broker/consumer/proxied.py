"""A consumer that another broker of the pool serves: its client is redirected there, or its messages are relayed."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from readonly_engine.broker.consumer.passed_through import PassedThroughConsumer
from readonly_engine.broker.cursors.local_requests import request_of
from readonly_engine.broker.pool.client_versions import supports_assigned_broker
from readonly_engine.broker.pool.redirects import PendingRedirect, close_consumer
from readonly_engine.config.listeners import Urls
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandCloseConsumer

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from readonly_engine.broker.consumer.client_link import ClientLink
    from readonly_engine.broker.consumer.route import Placement
    from readonly_engine.broker.pool.claim_store import ClaimHandle
    from readonly_engine.broker.pool.claims import ClaimKey
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe


class ProxiedConsumer(PassedThroughConsumer):
    """Passes through to the broker of the pool that serves it, until its client is redirected there.

    Args:
        connection: the client's connection.
        placement: as in ClientConsumer.
        subscribe: the SUBSCRIBE for that broker.
        claim: as in ClientConsumer.
        peer: URL of that broker.
        peer_url: URL for connections to it.
    """

    __slots__ = ("_peer", "_pending_redirect")

    def __init__(
        self,
        connection: ClientLink,
        placement: Placement,
        subscribe: CommandSubscribe,
        claim: ClaimHandle | None,
        peer: str,
        peer_url: str,
    ) -> None:
        super().__init__(connection, placement, subscribe, claim, peer_url)
        self._peer = peer
        self._pending_redirect: PendingRedirect | None = None  # None for none, or after the decision

    @property
    def served_by(self) -> str:
        """URL of the broker of the pool that serves it."""
        return self._peer

    @property
    def movable(self) -> bool:
        """Whether another broker of the pool can serve it as well: one does already."""
        return False

    def served_under(self, key: ClaimKey) -> bool:  # noqa: ARG002 - the claim is the other broker's
        """Return False: another broker serves it."""
        return False

    def misplaced(self, *, keeps_cursor: bool) -> str:  # noqa: ARG002
        """Return an empty text: the broker that serves it closes it when the keeper of its cursor changes."""
        return ""

    async def begin(self, sent: float) -> None:
        """Do nothing: the other broker has the consumer."""

    def _leave(self) -> None:
        """Do nothing: the policy does not know it."""

    def flow(self, command: BaseCommand) -> None:
        """Add the permits of a FLOW. Its client sends the first one right after SUBSCRIBE."""
        if self._pending_redirect is not None:
            self._pending_redirect.permits += command.flow.message_permits
        super().flow(command)

    @property
    def _may_grant(self) -> bool:
        return self._pending_redirect is None and self.connection.writable

    # The redirect

    def on_answered(self) -> None:
        """Redirect the client to the broker of the pool that serves it, if it supports that; otherwise keep relaying it.

        The consumer was subscribed through this broker before, so the owner has authorized it.
        """
        if request_of(self.subscribe_command) is not None:
            return  # it sends one more command, which could arrive before the client has followed
        client, services = self.connection, self.connection.services
        member = services.pool.members.get(self._peer)
        urls = Urls() if member is None else member.urls_for(client.listener)
        if urls.serve(tls=client.tls) and supports_assigned_broker(client.client_version):
            self._pending_redirect = pending = PendingRedirect(time.monotonic())
            client_key = (client.address, str(self.topic), self.info.name, self.consumer_name)
            services.spawn(self._decide(pending, client_key, urls))

    async def _decide(self, pending: PendingRedirect, client_key: Hashable, urls: Urls) -> None:
        """Redirect the client as soon as it may be, or relay its messages from then on."""
        redirects, version = self.connection.services.redirects, self.connection.client_version
        while not self.unregistered:
            now = time.monotonic()
            wait = pending.wait(now)
            if wait is not None and wait > 0:
                await asyncio.sleep(wait)
            elif wait is not None and redirects.allow(version, client_key, now):
                await self._redirect(urls.url, urls.tls_url)
                return
            else:
                self._pending_redirect = None
                self._grant_permits()
                return

    async def _redirect(self, url: str, url_tls: str) -> None:
        self.flow_window.close()
        # The URL tells the other broker that the client comes again.
        moved = CommandCloseConsumer(assigned_broker_service_url=url or url_tls)
        await self.close(BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=moved))
        self.connection.drop_consumer(self)
        self.connection.send(close_consumer(self.consumer_id, url, url_tls))

    @contextmanager
    def requesting(self) -> Iterator[None]:
        """Put the redirect off while a request of the client is unanswered: it would fail, because the consumer is gone here."""
        pending = self._pending_redirect
        if pending is not None:
            pending.requested_at = math.inf
        try:
            yield
        finally:
            if pending is not None:
                pending.requested_at = time.monotonic()
