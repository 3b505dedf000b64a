"""A client that comes in: its credentials are shown to the owner, and the owner's questions to it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from readonly_engine.broker.session.client_link import ClientLink
from readonly_engine.broker.session.handshake import ConnectRequest, Handshake
from readonly_engine.owner.errors import OwnerRefusedError, RelayError

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.owner.identity import Identity
    from readonly_engine.wire.pulsar_pb2 import AuthData, BaseCommand

log = logging.getLogger(__name__)


class AuthenticatedLink(ClientLink, Protocol):
    """A client's connection that the owner admits or ends."""

    def on_authenticated(self, identity: Identity, max_message_size: int) -> None:
        """Take commands of the client from now on.

        Args:
            identity: identity that the owner has accepted.
            max_message_size: the owner's, in bytes; 0 if it names none.
        """

    def disconnect(self, error_frame: bytes) -> None:
        """End the connection; the client gets nothing more but this frame."""


class ClientAuthentication:
    """The Bearer of a client's identity: what runs between the Handshake and the owners."""

    __slots__ = ("_answers", "_client", "_handshake", "_identity")

    def __init__(self, client: AuthenticatedLink) -> None:
        self._client = client
        self._handshake = Handshake()
        self._answers: list[Callable[[bytes], None]] = []
        self._identity: Identity | None = None

    def on_command(self, command: BaseCommand) -> None:
        """Take a command that came before the client was let in, or an AUTH_RESPONSE.

        Raises:
            MalformedFrameError: the client does not keep to the protocol; the connection cannot go on.
        """
        event = self._handshake.receive(command)
        if isinstance(event, ConnectRequest):
            self._client.spawn(self._authenticate(event.identity))
        elif event is not None:
            self._answers.pop(0)(event.credentials)

    def on_connection_lost(self) -> None:
        """The client's connection is closed."""
        self._answers.clear()
        if self._identity is not None:
            self._client.services.owners.release(self._identity, self)

    async def _authenticate(self, identity: Identity) -> None:
        try:
            self._identity, owner = await self._client.services.owners.authenticate(identity, self)
        except RelayError as error:
            log.info("client %s is not let in: %s", self._client.peer, error)
            self._client.send(self._handshake.refuse(error.code, str(error)))
            self._client.close()
            return
        self._client.on_authenticated(self._identity, owner.max_message_size)
        self._client.send(self._handshake.accept(owner))

    # Bearer

    def challenge(self, challenge: AuthData, on_answer: Callable[[bytes], None]) -> bool:
        """Called for an owner that asks this client."""
        frame = self._handshake.challenge(challenge)
        if frame is None:
            return False
        self._answers.append(on_answer)
        self._client.send(frame)
        return True

    def probe(self) -> None:
        """Called when an owner asks whether its consumers are still there."""
        if any(consumer.exclusive for consumer in self._client.consumers):
            self._client.probe()

    def disconnect(self, error: RelayError) -> None:
        """Called when the owner does not accept the client's credentials any more."""
        log.info("client %s: %s; closing the connection", self._client.peer, error)
        refused = isinstance(error, OwnerRefusedError)
        self._client.disconnect(self._handshake.refuse(error.code, str(error)) if refused else b"")
