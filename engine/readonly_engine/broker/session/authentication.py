"""Authentication of a client: brokers of the source cluster check its credentials, and their challenges go to the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from readonly_engine.broker.consumer.client_link import ClientLink
from readonly_engine.broker.session.handshake import ConnectRequest, Handshake
from readonly_engine.log_bounds import bounded_logger
from readonly_engine.owner.errors import OwnerRefusedError, RelayError

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.owner.identity import Identity
    from readonly_engine.wire.pulsar_pb2 import AuthData, BaseCommand

log = bounded_logger(__name__)


class AuthenticatedLink(ClientLink, Protocol):
    """A client's connection during and after authentication."""

    def on_authenticated(self, identity: Identity, max_message_size: int) -> None:
        """Accept the client's commands from now on.

        Args:
            identity: identity that the owner has accepted.
            max_message_size: limit of the owner, in bytes; 0 if it names none.
        """

    def disconnect(self, error_frame: bytes) -> None:
        """Close the connection. The client gets no more than this frame; it may be empty."""


class ClientAuthentication:
    """The IdentityClient of one client: connects its Handshake with the IdentitySession of its credentials.

    Args:
        client: the client's connection.
    """

    __slots__ = ("_answers", "_client", "_handshake", "_identity")

    def __init__(self, client: AuthenticatedLink) -> None:
        self._client = client
        self._handshake = Handshake()
        self._answers: list[Callable[[bytes], None]] = []
        self._identity: Identity | None = None

    def on_command(self, command: BaseCommand) -> None:
        """Handle a command before CONNECTED, or an AUTH_RESPONSE.

        Raises:
            MalformedFrameError: the command violates the protocol; the caller must close the connection.
        """
        event = self._handshake.receive(command)
        if isinstance(event, ConnectRequest):
            self._client.spawn(self._authenticate(event.identity))
        elif event is not None:
            self._answers.pop(0)(event.credentials)

    def on_connection_lost(self) -> None:
        """Handle the end of the client's connection."""
        self._answers.clear()
        if self._identity is not None:
            self._client.services.owners.release(self._identity, self)

    async def _authenticate(self, identity: Identity) -> None:
        try:
            self._identity, owner = await self._client.services.owners.authenticate(identity, self)
        except RelayError as error:
            log.info("authentication failed, closing the connection: client=%s error=%s", self._client.peer, error)
            self._client.send(self._handshake.refuse(error.code, str(error)))
            self._client.close()
            return
        self._client.on_authenticated(self._identity, owner.max_message_size)
        self._client.send(self._handshake.accept(owner))

    # IdentityClient

    def challenge(self, challenge: AuthData, on_answer: Callable[[bytes], None]) -> bool:
        """Send an owner's challenge to the client; return False if the client supports no challenges."""
        frame = self._handshake.challenge(challenge)
        if frame is None:
            return False
        self._answers.append(on_answer)
        self._client.send(frame)
        return True

    def probe(self) -> None:
        """Ping a client with an exclusive consumer, after a PING of its owner."""
        if any(consumer.exclusive for consumer in self._client.consumers):
            self._client.probe()

    def disconnect(self, error: RelayError) -> None:
        """Close the connection, because the owner does not accept the credentials any more."""
        log.info("credentials not accepted, closing the connection: client=%s error=%s", self._client.peer, error)
        refused = isinstance(error, OwnerRefusedError)
        self._client.disconnect(self._handshake.refuse(error.code, str(error)) if refused else b"")
