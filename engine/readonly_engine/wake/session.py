"""One client's connection to the waker: the handshake, and the first request that needs a broker. Pure.

A waker answers no request. It holds the client until brokers are ready, and then closes the connection. Stock clients send a
request again at once after a lost connection. After the error ServiceNotReady, Java and C++ clients wait twice as long with
each try, and Go clients give up (lookup_service.go: a failed response is no reason to try again).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from readonly_engine import __version__
from readonly_engine.wire.commands import NEWEST_PROTOCOL_VERSION, body_of, command_name, decode_command, encode_command
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.framing import HANDSHAKE_FRAME_BYTES, FrameSplitter
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandConnected, CommandPong

SERVER_VERSION: Final = f"pulsar-readonly-{__version__}"

_PONG: Final = encode_command(BaseCommand(type=BaseCommand.PONG, pong=CommandPong()))
_NEEDS_NO_BROKER: Final = frozenset(
    {
        BaseCommand.PONG,
        BaseCommand.AUTH_RESPONSE,
        BaseCommand.CLOSE_CONSUMER,
        BaseCommand.CLOSE_PRODUCER,
        BaseCommand.WATCH_TOPIC_LIST_CLOSE,
    }
)
"""Commands of a connected client that are ignored."""


class Reply(NamedTuple):
    """Effect of received bytes.

    Attributes:
        data: bytes to send; empty for none.
        connected: whether the client has sent its CONNECT by now.
        wakes: whether these bytes have a request that needs a broker.
    """

    data: bytes
    connected: bool
    wakes: bool


class WakeSession:
    """Interprets the bytes of one client. It checks no credentials, and answers nothing that would need them."""

    __slots__ = ("_connected", "_splitter")

    def __init__(self) -> None:
        self._splitter = FrameSplitter(HANDSHAKE_FRAME_BYTES)
        self._connected = False

    def receive_data(self, data: bytes) -> Reply:
        """Handle received bytes.

        Raises:
            WireError: the bytes violate the protocol; the caller must close the connection.
        """
        answer = pong = b""
        wakes = False
        for frame in self._splitter.receive_data(data):
            command, _ = decode_command(frame)
            if command.type == BaseCommand.PING:
                pong = _PONG  # one for all PINGs of a packet
            elif not self._connected:
                answer = self._connect(command)
            elif command.type == BaseCommand.CONNECT:
                raise MalformedFrameError("CONNECT again")
            elif command.type not in _NEEDS_NO_BROKER:
                body_of(command)  # raises for an unknown type
                wakes = True
        return Reply(answer + pong, self._connected, wakes)

    def _connect(self, command: BaseCommand) -> bytes:
        if command.type != BaseCommand.CONNECT:
            raise MalformedFrameError(f"{command_name(command)} before CONNECT")
        self._connected = True
        version = min(command.connect.protocol_version, NEWEST_PROTOCOL_VERSION)
        connected = CommandConnected(server_version=SERVER_VERSION, protocol_version=version)
        return encode_command(BaseCommand(type=BaseCommand.CONNECTED, connected=connected))
