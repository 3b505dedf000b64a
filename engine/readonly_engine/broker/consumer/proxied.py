"""A consumer that another broker of the pool serves: its client is redirected there, or its messages are relayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.broker.consumer.redirected import RedirectedConsumer
from readonly_engine.broker.cursors.local_requests import request_of
from readonly_engine.config.listeners import Urls
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandCloseConsumer

if TYPE_CHECKING:
    from readonly_engine.broker.consumer.client_link import ClientLink
    from readonly_engine.broker.consumer.route import Placement
    from readonly_engine.broker.pool.claim_store import ClaimHandle
    from readonly_engine.broker.pool.claims import ClaimKey
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe


class ProxiedConsumer(RedirectedConsumer):
    """Passes through to the broker of the pool that serves it, until its client is redirected there.

    Args:
        connection: the client's connection.
        placement: as in ClientConsumer.
        subscribe: the SUBSCRIBE for that broker.
        claim: as in ClientConsumer.
        peer: URL of that broker.
        peer_url: URL for connections to it.
    """

    __slots__ = ("_peer",)

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

    @property
    def served_by(self) -> str:
        """URL of the broker of the pool that serves it."""
        return self._peer

    def served_under(self, key: ClaimKey) -> bool:  # noqa: ARG002 - the claim is the other broker's
        """Return False: another broker serves it."""
        return False

    def misplaced(self, *, keeps_cursor: bool) -> str:  # noqa: ARG002
        """Return an empty text: the broker that serves it closes it when the keeper of its cursor changes."""
        return ""

    def urls(self) -> Urls:
        """Return that broker's URLs; none for a consumer that sends one more command, which could arrive before the client."""
        if request_of(self.subscribe_command) is not None:
            return Urls()
        member = self.connection.services.pool.members.get(self._peer)
        return Urls() if member is None else member.urls_for(self.connection.listener)

    def closing(self) -> BaseCommand:
        """Return a CLOSE_CONSUMER with the broker's URL, which tells it that the client comes again."""
        urls = self.urls()
        moved = CommandCloseConsumer(assigned_broker_service_url=urls.url or urls.tls_url or self._peer)
        return BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=moved)
