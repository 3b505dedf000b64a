"""Authentication handshake, server side: CONNECT, AUTH_CHALLENGE and AUTH_RESPONSE as a pure state machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from readonly_engine import __version__
from readonly_engine.owner.identity import Identity
from readonly_engine.wire.commands import NEWEST_PROTOCOL_VERSION, command_name, encode_command
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.pulsar_pb2 import (
    AuthData,
    BaseCommand,
    CommandAuthChallenge,
    CommandConnected,
    CommandError,
)

if TYPE_CHECKING:
    from readonly_engine.wire.pulsar_pb2 import CommandConnect, ServerError

SERVER_VERSION = f"pulsar-readonly-{__version__}"

NO_REQUEST_ID = -1

ENTRY_METADATA_VERSION = 18
"""The first protocol version whose clients can take the owner's own metadata of entries (PulsarCommandSenderImpl)."""


def takes_entry_metadata(connect: CommandConnect) -> bool:
    """Return whether a client takes the owner's own metadata of entries; a broker strips it for others."""
    flags = connect.feature_flags
    return bool(flags.supports_broker_entry_metadata) and connect.protocol_version >= ENTRY_METADATA_VERSION


class ConnectRequest(NamedTuple):
    """CONNECT of a client.

    Attributes:
        identity: the client's credentials, not checked.
    """

    identity: Identity


@dataclass(frozen=True, slots=True)
class AuthAnswer:
    """A client's answer to its oldest open challenge.

    Attributes:
        credentials: the answer; never printed.
    """

    credentials: bytes = field(repr=False)


class _State(Enum):
    START = auto()
    AUTHENTICATING = auto()
    CONNECTED = auto()
    REFUSED = auto()


class Handshake:
    """Handshake of one client: interprets its commands and makes the frames of the answers."""

    __slots__ = ("_challenges", "_method", "_state", "_supports_refresh", "_version")

    def __init__(self) -> None:
        self._state = _State.START
        self._version = 0
        self._method = ""
        self._supports_refresh = False
        self._challenges = 0

    @property
    def connected(self) -> bool:
        """Whether the client was accepted."""
        return self._state is _State.CONNECTED

    def receive(self, command: BaseCommand) -> ConnectRequest | AuthAnswer | None:
        """Handle a command before CONNECTED, or an AUTH_RESPONSE.

        Returns:
            The event; None for an AUTH_RESPONSE without an open challenge.

        Raises:
            MalformedFrameError: the command violates the protocol; the caller must close the connection.
        """
        if command.type == BaseCommand.CONNECT and self._state is _State.START:
            connect = command.connect
            self._state = _State.AUTHENTICATING
            self._version = min(connect.protocol_version, NEWEST_PROTOCOL_VERSION)
            self._method = connect.auth_method_name
            self._supports_refresh = connect.feature_flags.supports_auth_refresh
            return ConnectRequest(Identity.of(connect))
        if command.type == BaseCommand.AUTH_RESPONSE and self._state in {_State.AUTHENTICATING, _State.CONNECTED}:
            if not self._challenges:
                return None
            self._challenges -= 1
            return AuthAnswer(command.auth_response.response.auth_data)
        when = "again" if command.type == BaseCommand.CONNECT else "before it was connected"
        raise MalformedFrameError(f"{command_name(command)} {when}")

    def challenge(self, challenge: AuthData) -> bytes | None:
        """Return the frame of an owner's challenge; None if this client supports no challenge now.

        During authentication, methods with several rounds send challenges. Afterwards only clients with `supports_auth_refresh`
        get one; ServerCnx closes the connections of others.
        """
        if self._state is not _State.AUTHENTICATING and not (
            self._state is _State.CONNECTED and self._supports_refresh
        ):
            return None
        self._challenges += 1
        relayed = CommandAuthChallenge(
            server_version=SERVER_VERSION, protocol_version=self._version, challenge=AuthData()
        )
        relayed.challenge.CopyFrom(challenge)
        return encode_command(BaseCommand(type=BaseCommand.AUTH_CHALLENGE, auth_challenge=relayed))

    def accept(self, owner: CommandConnected) -> bytes:
        """Return the frame CONNECTED, with message size and known feature flags of the owner."""
        self._state = _State.CONNECTED
        connected = CommandConnected(
            server_version=SERVER_VERSION, protocol_version=self._version, max_message_size=owner.max_message_size
        )
        connected.feature_flags.CopyFrom(owner.feature_flags)
        connected.feature_flags.DiscardUnknownFields()  # features of newer brokers, which this one does not have
        return encode_command(BaseCommand(type=BaseCommand.CONNECTED, connected=connected))

    def refuse(self, code: ServerError, message: str) -> bytes:
        """Return the frame ERROR for a client that is not accepted, or not any more. The caller closes the connection."""
        self._state = _State.REFUSED
        error = CommandError(request_id=NO_REQUEST_ID, error=code, message=message)
        return encode_command(BaseCommand(type=BaseCommand.ERROR, error=error))
