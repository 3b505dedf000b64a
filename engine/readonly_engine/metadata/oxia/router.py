"""Calls to the leaders of an Oxia namespace's shards."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Final

import grpc

from readonly_engine.background import run_forever
from readonly_engine.metadata.errors import MetadataError, MetadataUnavailableError
from readonly_engine.metadata.oxia.channels import ASSIGNMENTS, Channels
from readonly_engine.metadata.oxia.errors import Failure, describe, kind_of
from readonly_engine.metadata.oxia.shards import ShardMap
from readonly_engine.wire.oxia_pb2 import ShardAssignmentsRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message

    from readonly_engine.metadata.oxia.channels import Method
    from readonly_engine.wire.oxia_pb2 import ShardAssignments

log = logging.getLogger(__name__)

REQUEST_TIMEOUT_S: Final = 10.0
"""Deadline of a request, with all its attempts."""

ATTEMPT_S: Final = 3.0
"""Deadline of one attempt, after which the server counts as silent."""

MAX_SERVERS: Final = 64
"""Servers to remember, those that led shards last."""

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0


class SessionEndedError(Exception):
    """The session of a request does not exist any more."""


class Router:
    """Follows the shards of a namespace, and sends requests to their leaders.

    Args:
        address: HOST:PORT of any server, or of a service in front of all.
        namespace: the namespace.
        channels: the channels.
    """

    def __init__(self, address: str, namespace: str, channels: Channels) -> None:
        self.address = address
        self.namespace = namespace
        self._channels = channels
        self._map = ShardMap({})
        self._servers: list[str] = []
        self._changed = asyncio.Condition()
        self._listeners: list[Callable[[ShardMap], None]] = []
        self._following: asyncio.Task[None] | None = None
        self._reason = ""
        self._refusal: MetadataError | None = None
        self.connected = False

    @property
    def shards(self) -> ShardMap:
        """Return the shards as last seen."""
        return self._map

    def on_shards(self, changed: Callable[[ShardMap], None]) -> None:
        """Call back with the shards after every change."""
        self._listeners.append(changed)

    async def start(self) -> None:
        """Read the shards, and follow them.

        Raises:
            MetadataUnavailableError: no server answers in time.
            MetadataError: a server answers, but has no such namespace.
        """
        self._following = run_forever(self._follow, "following the shards of Oxia")
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S), self._changed:
                await self._changed.wait_for(lambda: self._map.shards or self._refusal)
        except TimeoutError as error:
            raise self._unavailable(f"no Oxia answers within {REQUEST_TIMEOUT_S:g} s") from error
        if not self._map.shards and self._refusal is not None:
            raise self._refusal

    async def close(self) -> None:
        """End all requests and close all channels."""
        if self._following is not None:
            self._following.cancel()
        await self._channels.close()

    async def call(self, key: str, method: Method, request: Any) -> list[Any]:
        """Send a request to the shard of a key; its field `shard` is set here. It is sent again while the leader moves.

        Raises:
            MetadataUnavailableError: no leader answered in time.
            SessionEndedError: the request's session does not exist.
        """
        return await self._until_answered(lambda: self._shard_of(key), method, request)

    async def call_shard(self, number: int, method: Method, request: Any) -> list[Any]:
        """Send a request to one shard, as `call` does."""
        return await self._until_answered(lambda: number if number in self._map.shards else None, method, request)

    async def call_leader(self, address: str, method: Method, request: Message, seconds: float) -> list[Any]:
        """Send a request once, to one server.

        Raises:
            MetadataUnavailableError: the server did not answer in time.
            SessionEndedError: the request's session does not exist.
        """
        try:
            return await self._channels.call(address, method, request, seconds)
        except grpc.aio.AioRpcError as error:
            if kind_of(error) is Failure.SESSION_ENDED:
                raise SessionEndedError from error
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                await self._channels.drop(address)
            raise self._unavailable(describe(error)) from error

    def leader(self, key: str) -> tuple[int, str] | None:
        """Return number and leader of the shard of a key; None while it has no leader."""
        shard = self._map.of(key)
        return None if shard is None or not shard.leader else (shard.number, shard.leader)

    def stream(self, address: str, method: Method, request: Message) -> Any:
        """Call a method that answers for ever; see Channels.stream."""
        return self._channels.stream(address, method, request)

    def _shard_of(self, key: str) -> int | None:
        shard = self._map.of(key)
        return None if shard is None else shard.number

    async def _until_answered(self, find: Callable[[], int | None], method: Method, request: Any) -> list[Any]:
        deadline, pause, reason = time.monotonic() + REQUEST_TIMEOUT_S, _FIRST_PAUSE_S, "the shard has no leader"
        while (left := deadline - time.monotonic()) > 0:
            number = find()
            leader = "" if number is None else self._map.shards[number].leader
            if number is not None and leader:
                request.shard = number
                try:
                    return await self._channels.call(leader, method, request, min(left, ATTEMPT_S))
                except grpc.aio.AioRpcError as error:
                    kind, reason = kind_of(error), describe(error)
                    if kind is Failure.SESSION_ENDED:
                        raise SessionEndedError from error
                    if kind is Failure.REFUSED:
                        raise self._unavailable(reason) from error
                    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                        await self._channels.drop(leader)
            await self._wait_for_change(min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        raise self._unavailable(f"no answer in {REQUEST_TIMEOUT_S:g} s, {reason}")

    async def _wait_for_change(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait()
        except TimeoutError:
            return

    async def _follow(self) -> None:
        """Follow the shards by a stream of one server; when it breaks, try all others before that one again."""
        pause, broken = _FIRST_PAUSE_S, ""
        while True:
            known = dict.fromkeys((self.address, *self._servers))
            for address in sorted(filter(None, known), key=broken.__eq__):
                if await self._follow_at(address):
                    pause, broken = _FIRST_PAUSE_S, address
                    break
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def _follow_at(self, address: str) -> bool:
        """Follow until the stream breaks; return whether it gave anything."""
        answered = False
        request = ShardAssignmentsRequest(namespace=self.namespace)
        answers = self._channels.stream(address, ASSIGNMENTS, request)
        try:
            async with asyncio.timeout(ATTEMPT_S):
                found = await anext(answers)
            while True:
                self._remember(found)
                await self._set(ShardMap.decode(found, self.namespace), None)
                answered = self.connected = True
                self._reason = ""
                found = await anext(answers)
        except StopAsyncIteration:
            self._reason = "the stream of shards ended"
        except TimeoutError:
            self._reason = f"{address} does not answer"
            await self._channels.drop(address)
        except grpc.aio.AioRpcError as error:
            self._reason = describe(error)
            if kind_of(error) is Failure.REFUSED:
                await self._set(self._map, MetadataError(f"Oxia at {address}: {self._reason}"))
        except MetadataError as error:
            self._reason = str(error)
            await self._set(self._map, error)
        self.connected = False
        log.debug("stream of shards broke: server=%s error=%s", address, self._reason)
        return answered

    def _remember(self, found: ShardAssignments) -> None:
        """Remember the leaders of all namespaces: all shards of this one may have the same leader, which may die."""
        leaders = sorted({one.leader for each in found.namespaces.values() for one in each.assignments} - {""})
        self._servers = list(dict.fromkeys([*leaders, *self._servers]))[:MAX_SERVERS]

    async def _set(self, found: ShardMap, refusal: MetadataError | None) -> None:
        async with self._changed:
            changed = found.shards != self._map.shards
            self._map, self._refusal = found, refusal
            self._changed.notify_all()
        if changed:
            for listener in self._listeners:
                listener(found)

    def _unavailable(self, why: str) -> MetadataUnavailableError:
        return MetadataUnavailableError(f"Oxia at {self.address}: {why}{f' ({self._reason})' if self._reason else ''}")
