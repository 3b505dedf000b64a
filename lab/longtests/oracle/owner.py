"""A reader at the stock owner that uses the raw protocol and keeps every MESSAGE frame unchanged.

A client library would hide the data to compare: it splits batches, decompresses, and drops ids. This reader has only the
project's codec for frames and a blocking socket.
"""

from __future__ import annotations

import socket
import time
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.wire.commands import NEWEST_PROTOCOL_VERSION, decode_command, encode_command
from readonly_engine.wire.framing import LENGTH_BYTES, FrameSplitter
from readonly_engine.wire.message import decode_metadata
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandConnect,
    CommandFlow,
    CommandGetLastMessageId,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPong,
    CommandSubscribe,
    MessageIdData,
    ServerError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

PERMITS: Final = 1_000_000
"""Permits of the reader; the socket limits the owner long before."""

QUIET_S: Final = 0.3
"""Silence of the owner after its last message that counts as the end, in seconds."""

TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.5
_RECEIVE_BYTES: Final = 1 << 20
_NOT_READY: Final = frozenset({ServerError.ServiceNotReady, ServerError.MetadataError})


class OwnerError(Exception):
    """The owner refused, or did not answer in time."""


class OwnerFrame(NamedTuple):
    """A MESSAGE frame of the owner.

    Attributes:
        position: position of its entry.
        frame: all its bytes, with the length prefix.
    """

    position: Position
    frame: bytes


class _Connection:
    """Commands in both directions on one blocking socket."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname, parts.port), TIMEOUT_S)
        self._splitter = FrameSplitter()
        self._frames: list[bytes] = []
        self.send(
            BaseCommand(
                type=BaseCommand.CONNECT,
                connect=CommandConnect(client_version="oracle", protocol_version=NEWEST_PROTOCOL_VERSION),
            )
        )
        self.receive(BaseCommand.CONNECTED)

    def send(self, command: BaseCommand) -> None:
        self._socket.sendall(encode_command(command))

    def frames(self, timeout: float) -> Iterator[tuple[BaseCommand, int, bytes]]:
        """Yield the commands that arrive before the timeout: each with its end in its frame, and the frame.

        PING is answered, not yielded.
        """
        deadline = time.monotonic() + timeout
        while not self._frames:
            rest = deadline - time.monotonic()
            if rest <= 0:
                return
            self._socket.settimeout(rest)
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
            except TimeoutError:
                return
            if not data:
                raise OwnerError("the owner closed the connection")
            self._frames = self._splitter.receive_data(data)
        frames, self._frames = self._frames, []
        for frame in frames:
            command, body = decode_command(frame)
            if command.type == BaseCommand.PING:
                self.send(BaseCommand(type=BaseCommand.PONG, pong=CommandPong()))
            else:
                yield command, body, frame

    def receive(self, *wanted: int) -> BaseCommand:
        """Return the next command, which must be of one of these types."""
        deadline = time.monotonic() + TIMEOUT_S
        while (rest := deadline - time.monotonic()) > 0:
            for command, _, _ in self.frames(rest):
                if command.type in wanted:
                    return command
                raise OwnerError(f"the owner answered {command}")
        raise OwnerError(f"the owner did not answer within {TIMEOUT_S:g} s")

    def close(self) -> None:
        self._socket.close()


class _NotReadyError(OwnerError):
    """A broker cannot look topics up at the moment."""


def _owner_of(url: str, topic: str) -> str:
    """Return the owner's URL, as a stock client: it asks again while the broker has no session with the metadata store."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return _look_up(url, topic)
        except _NotReadyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)


def _look_up(url: str, topic: str) -> str:
    """Return the owner's URL; follow redirects."""
    for authoritative in (False, True, True, True):
        with closing(_Connection(url)) as connection:
            connection.send(
                BaseCommand(
                    type=BaseCommand.LOOKUP,
                    lookup_topic=CommandLookupTopic(topic=topic, request_id=1, authoritative=authoritative),
                )
            )
            answer = connection.receive(BaseCommand.LOOKUP_RESPONSE).lookup_topic_response
        if answer.response == CommandLookupTopicResponse.Failed:
            kind = _NotReadyError if answer.error in _NOT_READY else OwnerError
            raise kind(f"{topic} cannot be looked up: {answer.message}")
        if answer.response == CommandLookupTopicResponse.Connect:
            return str(answer.broker_service_url)
        url = str(answer.broker_service_url)
    raise OwnerError(f"{topic}: more redirects than a cluster can need")


def read_all(url: str, topic: str, consumer_id: int = 0) -> Iterator[OwnerFrame]:
    """Yield all frames for a non-durable reader that starts at the earliest message, up to the owner's last message.

    Args:
        url: any broker of the cluster.
        topic: full name of a topic or a partition.
        consumer_id: the id in the frames.

    Raises:
        OwnerError: the owner refused, or stopped before its last message.
    """
    with closing(_Connection(_owner_of(url, topic))) as connection:
        requests = count(1)
        connection.send(
            BaseCommand(
                type=BaseCommand.SUBSCRIBE,
                subscribe=CommandSubscribe(
                    topic=topic,
                    subscription=f"oracle-{time.monotonic_ns()}",
                    sub_type=CommandSubscribe.Exclusive,
                    consumer_id=consumer_id,
                    request_id=next(requests),
                    durable=False,
                    start_message_id=MessageIdData(ledger_id=-1, entry_id=-1),
                    initial_position=CommandSubscribe.Earliest,
                    force_topic_creation=False,
                ),
            )
        )
        connection.receive(BaseCommand.SUCCESS)
        last = _last_message(connection, consumer_id, next(requests))
        permits = PERMITS
        connection.send(_flow(consumer_id, permits))
        reached, deadline = EARLIEST, time.monotonic() + TIMEOUT_S
        while True:
            behind = reached < last
            got = False
            for command, body, frame in connection.frames(1.0 if behind else QUIET_S):
                if command.type != BaseCommand.MESSAGE:
                    if command.type in {BaseCommand.CLOSE_CONSUMER, BaseCommand.ERROR}:
                        raise OwnerError(f"{topic}: the owner sent {command}")
                    continue
                got = True
                message_id = command.message.message_id
                reached = Position(message_id.ledger_id, message_id.entry_id)
                yield OwnerFrame(reached, len(frame).to_bytes(LENGTH_BYTES, "big") + frame)
                permits -= decode_metadata(frame[body:]).num_messages_in_batch
            if got:
                deadline = time.monotonic() + TIMEOUT_S
            elif not behind:
                return
            elif time.monotonic() > deadline:
                raise OwnerError(f"{topic}: the owner stopped at {reached}, its last message is {last}")
            if permits < PERMITS // 2:
                connection.send(_flow(consumer_id, PERMITS - permits))
                permits = PERMITS


def _flow(consumer_id: int, permits: int) -> BaseCommand:
    return BaseCommand(type=BaseCommand.FLOW, flow=CommandFlow(consumer_id=consumer_id, message_permits=permits))


def _last_message(connection: _Connection, consumer_id: int, request_id: int) -> Position:
    connection.send(
        BaseCommand(
            type=BaseCommand.GET_LAST_MESSAGE_ID,
            get_last_message_id=CommandGetLastMessageId(consumer_id=consumer_id, request_id=request_id),
        )
    )
    answer = connection.receive(BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE)
    last = answer.get_last_message_id_response.last_message_id
    return Position(last.ledger_id, last.entry_id)
