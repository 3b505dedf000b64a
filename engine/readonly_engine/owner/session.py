"""One connection to a broker of the source cluster as a pure state machine: the client's side of Pulsar's protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from readonly_engine.wire.acks import encode_ack
from readonly_engine.wire.commands import (
    NEWEST_PROTOCOL_VERSION,
    body_of,
    decode_command,
    encode_command,
    has_request_id,
    request_id_in_head,
)
from readonly_engine.wire.errors import FrameTooLargeError
from readonly_engine.wire.framing import HANDSHAKE_FRAME_BYTES, FrameSplitter, frame_limit
from readonly_engine.wire.pulsar_pb2 import (
    AuthData,
    BaseCommand,
    CommandAuthResponse,
    CommandConnect,
    CommandError,
    CommandPing,
    CommandPong,
    FeatureFlags,
    ServerError,
)

if TYPE_CHECKING:
    from readonly_engine.owner.identity import Identity

CLIENT_VERSION = "pulsar-readonly"

_MESSAGE = BaseCommand.MESSAGE

_CONSUMER_REQUESTS = frozenset({BaseCommand.GET_LAST_MESSAGE_ID, BaseCommand.CONSUMER_STATS, BaseCommand.ACK})
"""Requests of a consumer that an owner may not answer after it has closed the consumer. Their handlers read the closed topic
(ServerCnx.getLargestBatchIndexWhenPossible), or find no consumer (ServerCnx.handleAck)."""


class ReceivedCommand(NamedTuple):
    """A command of the owner.

    Attributes:
        command: the command.
        payload: the bytes behind the command in a MESSAGE frame.
        request_id: the request that it answers; None for a command of the owner's own.
    """

    command: BaseCommand
    payload: bytes
    request_id: int | None


class OwnerSession:
    """Numbers requests and matches answers to them.

    It answers PING at once: an owner closes a connection that does not (5 s, connectionLivenessCheckTimeoutMillis).

    It skips an answer above the owner's own frame limit, and fails its request alone: the connection is shared.

    Attributes:
        pings: number of PINGs from the owner.
        pongs: number of PONGs from the owner.
        answers_pings: whether PINGs are answered here; otherwise they are received commands.
        splitter: splits the received bytes into frames.
    """

    def __init__(self) -> None:
        self.splitter = FrameSplitter(HANDSHAKE_FRAME_BYTES)
        self._last_request = 0
        self._waiting: dict[int, int | None] = {}  # each with the consumer whose close ends it
        self._of_consumer: dict[int, set[int]] = {}
        self._cancelled: list[int] = []
        self._out: list[bytes] = []
        self.pings = 0
        self.pongs = 0
        self.answers_pings = True

    def connect(self, identity: Identity, behind_proxy: str = "") -> bytes:
        """Return the first frame of the connection.

        It declares support for renewed credentials: otherwise the owner would close the connection when they expire. It also
        takes the owner's own metadata of entries, which the owner sends if it exposes it (PulsarCommandSenderImpl).

        Args:
            identity: the credentials.
            behind_proxy: HOST:PORT of the broker to which a proxy should connect; empty without a proxy.
        """
        connect = CommandConnect(
            client_version=CLIENT_VERSION,
            protocol_version=NEWEST_PROTOCOL_VERSION,
            feature_flags=FeatureFlags(supports_auth_refresh=True, supports_broker_entry_metadata=True),
        )
        identity.apply_to(connect)
        if behind_proxy:
            connect.proxy_to_broker_url = behind_proxy
        return encode_command(BaseCommand(type=BaseCommand.CONNECT, connect=connect))

    def auth_response(self, method: str, credentials: bytes) -> bytes:
        """Return the answer to a challenge of the owner, or newer credentials without a challenge."""
        response = CommandAuthResponse(
            client_version=CLIENT_VERSION,
            protocol_version=NEWEST_PROTOCOL_VERSION,
            response=AuthData(auth_method_name=method, auth_data=credentials),
        )
        return encode_command(BaseCommand(type=BaseCommand.AUTH_RESPONSE, auth_response=response))

    def ping(self) -> bytes:
        """Return a PING; `pongs` counts the answers."""
        return encode_command(BaseCommand(type=BaseCommand.PING, ping=CommandPing()))

    def pong(self) -> bytes:
        """Return a PONG; needed only where `answers_pings` is off."""
        return encode_command(BaseCommand(type=BaseCommand.PONG, pong=CommandPong()))

    def request(self, command: BaseCommand) -> tuple[int, bytes]:
        """Encode a request under a new request id of this connection, and expect its answer.

        Returns:
            The request id, and the frame to send.
        """
        self._last_request += 1
        body_of(command).request_id = self._last_request
        self._expect(body_of(command).consumer_id if command.type in _CONSUMER_REQUESTS else None)
        return self._last_request, encode_command(command)

    def ack(self, consumer_id: int, ids: bytes) -> tuple[int, bytes]:
        """Encode an ack, given as fields `message_id` of a CommandAck; otherwise as `request`."""
        self._last_request += 1
        self._expect(consumer_id)
        return self._last_request, encode_ack(consumer_id, ids, self._last_request)

    def forget(self, request_id: int) -> None:
        """Expect no answer to a request; a late one counts as the owner's own command."""
        consumer_id = self._waiting.pop(request_id, None)
        if consumer_id is not None:
            requests = self._of_consumer[consumer_id]
            requests.discard(request_id)
            if not requests:
                del self._of_consumer[consumer_id]

    def cancel_consumer_requests(self, consumer_id: int) -> list[int]:
        """Expect no answer to the requests that end with a closed consumer. Return these requests, in order."""
        requests = sorted(self._of_consumer.pop(consumer_id, ()))
        for request_id in requests:
            del self._waiting[request_id]
        return requests

    def take_cancelled(self) -> list[int]:
        """Return, once, the requests that get no answer because the owner has closed their consumer."""
        cancelled, self._cancelled = self._cancelled, []
        return cancelled

    @property
    def has_cancelled(self) -> bool:
        """Whether `take_cancelled` returns any request."""
        return bool(self._cancelled)

    def receive_data(self, data: bytes) -> list[ReceivedCommand]:
        """Decode received bytes into commands. Call `data_to_send` afterwards.

        Raises:
            WireError: the bytes violate Pulsar's protocol; the connection must be closed.
        """
        received = []
        splitter = self.splitter
        for frame in splitter.receive_data(data):
            command, end = decode_command(frame)
            if command.type == _MESSAGE:
                received.append(ReceivedCommand(command, frame[end:], None))
                continue
            if command.type == BaseCommand.CONNECTED:
                splitter.max_frame_bytes = frame_limit(command.connected.max_message_size)
                splitter.skip = True
            if command.type == BaseCommand.PING and self.answers_pings:
                self.pings += 1
                self._out.append(self.pong())
                continue
            if command.type == BaseCommand.PONG:
                self.pongs += 1
                continue
            received.append(ReceivedCommand(command, frame[end:], self._answered(command)))
            if command.type == BaseCommand.CLOSE_CONSUMER and self._of_consumer:
                self._cancelled += self.cancel_consumer_requests(command.close_consumer.consumer_id)
        while splitter.skipped:
            received.append(self._refuse_skipped(splitter.skipped.pop()))
        return received

    @property
    def max_frame_bytes(self) -> int:
        """Frame limit of the owner, for both directions."""
        return self.splitter.max_frame_bytes

    def data_to_send(self) -> bytes:
        """Return the answers to received commands, once."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def _answered(self, command: BaseCommand) -> int | None:
        if not has_request_id(command):
            return None
        request_id = int(body_of(command).request_id)
        if request_id not in self._waiting:
            return None
        # A producer that waits for exclusive access gets a first answer, and another when it is ready.
        if command.type != BaseCommand.PRODUCER_SUCCESS or command.producer_success.producer_ready:
            self.forget(request_id)
        return request_id

    def _refuse_skipped(self, head: bytes) -> ReceivedCommand:
        request_id = request_id_in_head(head)
        if request_id is None or request_id not in self._waiting:
            raise FrameTooLargeError(f"a frame of more than {self.max_frame_bytes} bytes that answers no request")
        self.forget(request_id)
        message = f"the answer is longer than {self.max_frame_bytes} bytes, the frame limit of the owner"
        error = CommandError(request_id=request_id, error=ServerError.UnknownError, message=message)
        return ReceivedCommand(BaseCommand(type=BaseCommand.ERROR, error=error), b"", request_id)

    def _expect(self, consumer_id: int | None) -> None:
        """Expect an answer to the last request, until its consumer is closed."""
        self._waiting[self._last_request] = consumer_id
        if consumer_id is not None:
            self._of_consumer.setdefault(consumer_id, set()).add(self._last_request)
