"""gRPC channels to the servers of Oxia."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import grpc

from readonly_engine.wire import oxia_pb2 as wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from google.protobuf.message import Message

_SERVICE: Final = "/io.streamnative.oxia.proto.OxiaClient"
"""Name of the service on the wire; servers of 0.16 serve it beside a newer name."""

MAX_MESSAGE_BYTES: Final = 64 << 20
"""Largest answer. Lists and scans come in many smaller ones."""

PING_INTERVAL_S: Final = 6.0
"""Interval of pings on an idle connection; servers accept one each 5 s (grpc_server.go)."""

PING_TIMEOUT_S: Final = 4.0
"""Time for the answer to a ping, after which the connection is dropped."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", int(PING_INTERVAL_S * 1000)),
    ("grpc.keepalive_timeout_ms", int(PING_TIMEOUT_S * 1000)),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.enable_http_proxy", 0),
)


class Method(NamedTuple):
    """A method of the service.

    Attributes:
        name: its name.
        answer: type of its answers.
        streams: whether it answers with a stream.
    """

    name: str
    answer: type[Message]
    streams: bool = False


ASSIGNMENTS: Final = Method("GetShardAssignments", wire.ShardAssignments, streams=True)
WRITE: Final = Method("Write", wire.WriteResponse)
READ: Final = Method("Read", wire.ReadResponse, streams=True)
LIST: Final = Method("List", wire.ListResponse, streams=True)
NOTIFICATIONS: Final = Method("GetNotifications", wire.NotificationBatch, streams=True)
CREATE_SESSION: Final = Method("CreateSession", wire.CreateSessionResponse)
KEEP_ALIVE: Final = Method("KeepAlive", wire.KeepAliveResponse)
CLOSE_SESSION: Final = Method("CloseSession", wire.CloseSessionResponse)


class Channels:
    """One channel to each server, opened when it is needed.

    Args:
        credentials: for TLS; None for connections without it.
    """

    def __init__(self, credentials: grpc.ChannelCredentials | None = None) -> None:
        self._credentials = credentials
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._calls: dict[tuple[str, str], Any] = {}

    async def call(self, address: str, method: Method, request: Message, seconds: float) -> list[Any]:
        """Call a method, and return all its answers.

        Raises:
            grpc.aio.AioRpcError: the call failed, or took longer.
        """
        call = self._call(address, method)(request, timeout=seconds)
        try:
            return [answer async for answer in call] if method.streams else [await call]
        except asyncio.CancelledError:
            _check_cancelled()
            raise

    async def stream(self, address: str, method: Method, request: Message) -> AsyncIterator[Any]:
        """Call a method that answers for ever.

        Raises:
            grpc.aio.AioRpcError: the stream has broken.
        """
        try:
            async for answer in self._call(address, method)(request):
                yield answer
        except asyncio.CancelledError:
            _check_cancelled()
            raise

    async def drop(self, address: str) -> None:
        """Close the channel to a server that is silent. Its calls fail, and the next one opens another channel."""
        channel = self._channels.pop(address, None)
        self._calls = {key: call for key, call in self._calls.items() if key[0] != address}
        if channel is not None:
            await channel.close()

    async def close(self) -> None:
        """Close all channels."""
        for address in list(self._channels):
            await self.drop(address)

    def _call(self, address: str, method: Method) -> Any:
        call = self._calls.get((address, method.name))
        if call is None:
            channel = self._channels.get(address)
            if channel is None:
                channel = self._channels[address] = (
                    grpc.aio.insecure_channel(address, _OPTIONS)
                    if self._credentials is None
                    else grpc.aio.secure_channel(address, self._credentials, _OPTIONS)
                )
            kind = channel.unary_stream if method.streams else channel.unary_unary
            call = kind(
                f"{_SERVICE}/{method.name}",
                request_serializer=_serialized,
                response_deserializer=method.answer.FromString,
            )
            self._calls[address, method.name] = call
        return call


def _check_cancelled() -> None:
    """Return if the task itself is cancelled.

    gRPC ends the calls of a closed channel by CancelledError, which would end a task that nobody has cancelled.

    Raises:
        grpc.aio.AioRpcError: it is not: the channel was closed.
    """
    task = asyncio.current_task()
    if task is None or not task.cancelling():
        nothing = grpc.aio.Metadata()
        raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing, details="the connection was closed")


def _serialized(request: Message) -> bytes:
    return request.SerializeToString()
