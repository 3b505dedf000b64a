"""A client that shows every command as it is: what the stock libraries hide from their users, tests compare."""

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self
from urllib.parse import urlsplit

import google_crc32c
from readonly_engine.wire.commands import body_of, command_name, decode_command, encode_command, has_request_id
from readonly_engine.wire.framing import FrameSplitter
from readonly_engine.wire.message_pb2 import MessageMetadata
from readonly_engine.wire.pulsar_pb2 import (
    AuthData,
    BaseCommand,
    CommandAuthResponse,
    CommandConnect,
    CommandFlow,
    CommandLookupTopic,
    CommandPartitionedTopicMetadata,
    CommandPing,
    CommandPong,
    CommandProducer,
    CommandProducerSuccess,
    CommandSend,
    CommandSendReceipt,
    CommandSubscribe,
    FeatureFlags,
    ServerError,
)

TIMEOUT_S = 30.0
MAGIC_CRC32C = b"\x0e\x01"


class ClosedError(Exception):
    """The server closed the connection."""


class RefusedError(Exception):
    """The server answered with an error: the command it answered, the error's name and its words."""

    def __init__(self, command: str, code: int, message: str) -> None:
        super().__init__(command, ServerError.Name(code), message)


def message_frame(payload: bytes, sequence_id: int, producer_id: int = 0, **fields: Any) -> bytes:
    """A SEND with a checksum, as a frame."""
    metadata = MessageMetadata(**{"producer_name": "raw", "sequence_id": sequence_id, "publish_time": 1, **fields})
    send = CommandSend(producer_id=producer_id, sequence_id=sequence_id, num_messages=1)
    encoded = metadata.SerializeToString()
    body = len(encoded).to_bytes(4, "big") + encoded + payload
    checked = MAGIC_CRC32C + google_crc32c.value(body).to_bytes(4, "big") + body
    return encode_command(BaseCommand(type=BaseCommand.SEND, send=send), checked)


class RawClient:
    """One connection; PING is answered, and nothing else is done unasked."""

    def __init__(self, url: str, method: str = "", credentials: bytes = b"", **fields: Any) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=TIMEOUT_S)
        self._splitter = FrameSplitter()
        self._received: list[tuple[BaseCommand, bytes]] = []
        self._requests = 0
        self.seen: list[str] = []
        connect = CommandConnect(**{"client_version": "raw", "protocol_version": 21, **fields})
        connect.feature_flags.CopyFrom(FeatureFlags(supports_auth_refresh=True))
        if method:
            connect.auth_method_name, connect.auth_data = method, credentials
        self.send(BaseCommand(type=BaseCommand.CONNECT, connect=connect))
        try:
            answer, _ = self.wait(lambda command: command.type in {BaseCommand.CONNECTED, BaseCommand.ERROR})
        except BaseException:
            self.close()
            raise
        if answer.type == BaseCommand.ERROR:
            self.close()
            raise RefusedError("CONNECT", answer.error.error, answer.error.message)
        self.connected = answer.connected

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def socket(self) -> socket.socket:
        return self._socket

    def close(self) -> None:
        self._socket.close()

    def send(self, command: BaseCommand, more: bytes = b"") -> None:
        """Send a command, and more frames in the same call."""
        self._socket.sendall(encode_command(command) + more)

    def wait(self, wanted: Callable[[BaseCommand], bool], seconds: float = TIMEOUT_S) -> tuple[BaseCommand, bytes]:
        """The next command that is wanted, with what it carries; others are kept for later."""
        deadline = time.monotonic() + seconds
        while True:
            for index, (command, payload) in enumerate(self._received):
                if wanted(command):
                    del self._received[index]
                    return command, payload
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"nothing of what is wanted came in {seconds:g} s, but {self.seen}")
            self._socket.settimeout(left)
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                raise ClosedError
            for frame in self._splitter.receive_data(data):
                command, end = decode_command(frame)
                if command.type == BaseCommand.PING:
                    self.send(BaseCommand(type=BaseCommand.PONG, pong=CommandPong()))
                else:
                    self.seen.append(command_name(command))
                    self._received.append((command, frame[end:]))

    def pending(self, name: str) -> int:
        """How many commands of a name have come and were not waited for."""
        with suppress(TimeoutError):
            self.wait(lambda _: False, 0.05)
        return sum(command_name(command) == name for command, _ in self._received)

    def ping(self, seconds: float = TIMEOUT_S) -> float:
        """How long the server takes to answer PING, in seconds."""
        begin = time.monotonic()
        self.send(BaseCommand(type=BaseCommand.PING, ping=CommandPing()))
        self.wait(lambda command: command.type == BaseCommand.PONG, seconds)
        return time.monotonic() - begin

    def wait_closed(self, seconds: float = TIMEOUT_S) -> None:
        """Wait until the server closes the connection."""
        try:
            self.wait(lambda _: False, seconds)
        except ClosedError:
            return

    def request(self, command: BaseCommand) -> BaseCommand:
        """Send a request; its answer, if that is not an error."""
        self._requests += 1
        request_id = self._requests
        body_of(command).request_id = request_id
        self.send(command)

        def answers(answer: BaseCommand) -> bool:
            return has_request_id(answer) and body_of(answer).request_id == request_id

        answer, _ = self.wait(answers)
        body = body_of(answer)
        if answer.type == BaseCommand.ERROR:
            raise RefusedError(command_name(command), body.error, body.message)
        if "error" in body.DESCRIPTOR.fields_by_name and body.HasField("error"):
            raise RefusedError(command_name(command), body.error, body.message)
        return answer

    def answer_challenge(self, method: str, credentials: bytes, seconds: float = TIMEOUT_S) -> AuthData:
        """Wait until the server asks for credentials, and give these."""
        challenge, _ = self.wait(lambda command: command.type == BaseCommand.AUTH_CHALLENGE, seconds)
        response = AuthData(auth_method_name=method, auth_data=credentials)
        answer = CommandAuthResponse(client_version="raw", protocol_version=21, response=response)
        self.send(BaseCommand(type=BaseCommand.AUTH_RESPONSE, auth_response=answer))
        return challenge.auth_challenge.challenge

    # What libraries do in one go

    def partitions(self, topic: str) -> int:
        request = CommandPartitionedTopicMetadata(topic=topic)
        command = BaseCommand(type=BaseCommand.PARTITIONED_METADATA, partition_metadata=request)
        return self.request(command).partition_metadata_response.partitions

    def lookup(self, topic: str, listener: str | None = None, rack: str | None = None) -> str:
        lookup = CommandLookupTopic(topic=topic, advertised_listener_name=listener)
        if rack is not None:
            lookup.properties.add(key="rack", value=rack)
        answer = self.request(BaseCommand(type=BaseCommand.LOOKUP, lookup_topic=lookup)).lookup_topic_response
        if answer.response == answer.Failed:
            raise RefusedError("LOOKUP", answer.error, answer.message)
        return answer.broker_service_url

    def subscribe(self, topic: str, subscription: str, consumer_id: int = 0, **fields: Any) -> None:
        fields = {"sub_type": CommandSubscribe.Exclusive, **fields}
        request = CommandSubscribe(topic=topic, subscription=subscription, consumer_id=consumer_id, **fields)
        self.request(BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=request))

    def produce(self, topic: str, producer_id: int = 0, **fields: Any) -> CommandProducerSuccess:
        request = CommandProducer(topic=topic, producer_id=producer_id, **fields)
        return self.request(BaseCommand(type=BaseCommand.PRODUCER, producer=request)).producer_success

    def publish(self, payload: bytes, sequence_id: int, producer_id: int = 0, **fields: Any) -> None:
        """Send a message with more fields of its metadata, without waiting for its receipt."""
        self._socket.sendall(message_frame(payload, sequence_id, producer_id, **fields))

    def receipt(self, seconds: float = TIMEOUT_S) -> CommandSendReceipt:
        """The next receipt."""
        return self.wait(lambda command: command.type == BaseCommand.SEND_RECEIPT, seconds)[0].send_receipt

    def flow(self, permits: int, consumer_id: int = 0) -> None:
        flow = CommandFlow(consumer_id=consumer_id, message_permits=permits)
        self.send(BaseCommand(type=BaseCommand.FLOW, flow=flow))

    def receive(self, seconds: float = TIMEOUT_S) -> bytes:
        """The next message's bytes, metadata and all."""
        return self.wait(lambda command: command.type == BaseCommand.MESSAGE, seconds)[1]
