"""Notifications of all changes in an Oxia namespace, one stream for each shard."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import grpc

from readonly_engine.background import run_forever
from readonly_engine.metadata.errors import MetadataUnavailableError
from readonly_engine.metadata.oxia.channels import NOTIFICATIONS
from readonly_engine.metadata.oxia.errors import Failure, describe, kind_of
from readonly_engine.metadata.oxia.router import REQUEST_TIMEOUT_S
from readonly_engine.wire.oxia_pb2 import NotificationsRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.metadata.oxia.router import Router
    from readonly_engine.metadata.oxia.shards import ShardMap
    from readonly_engine.wire.oxia_pb2 import NotificationBatch

log = logging.getLogger(__name__)

RESUME_S: Final = 600.0
"""Longest break after which a stream continues where it broke. Servers keep notifications for an hour by default."""

_PAUSES_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0)


class Notifications:
    """Follows the notifications of all shards.

    Args:
        router: the shards.
        changed: called with each batch.
        missed: called when changes may have been missed.
    """

    def __init__(
        self, router: Router, changed: Callable[[NotificationBatch], None], missed: Callable[[], None]
    ) -> None:
        self._router = router
        self._changed = changed
        self._missed = missed
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._ready: dict[int, asyncio.Event] = {}
        self._offsets: dict[int, tuple[int, float]] = {}
        self._refusal = ""

    async def start(self) -> None:
        """Open the streams, and wait until each has answered, so that a later read misses no change.

        Raises:
            MetadataUnavailableError: a shard does not answer in time.
        """
        self._router.on_shards(self._shards_changed)
        self._shards_changed(self._router.shards)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                await asyncio.gather(*(event.wait() for event in list(self._ready.values())))
        except TimeoutError as error:
            why = self._refusal or f"no notifications within {REQUEST_TIMEOUT_S:g} s"
            raise MetadataUnavailableError(f"Oxia at {self._router.address}: {why}") from error

    def close(self) -> None:
        """Close the streams."""
        for task in self._tasks.values():
            task.cancel()

    def _shards_changed(self, found: ShardMap) -> None:
        for number in self._tasks.keys() - found.shards.keys():
            self._tasks.pop(number).cancel()
            del self._ready[number]
            self._offsets.pop(number, None)
        for number in found.shards.keys() - self._tasks.keys():
            self._ready[number] = asyncio.Event()
            self._tasks[number] = run_forever(
                partial(self._follow, number), f"following the notifications of Oxia's shard {number}"
            )

    async def _follow(self, number: int) -> None:
        failures = 0
        while True:
            shard = self._router.shards.shards.get(number)
            if shard is not None and shard.leader and await self._follow_at(number, shard.leader):
                failures = 0
            await asyncio.sleep(_PAUSES_S[min(failures, len(_PAUSES_S) - 1)])
            failures += 1

    async def _follow_at(self, number: int, leader: str) -> bool:
        """Follow until the stream breaks; return whether it gave anything."""
        request = NotificationsRequest(shard=number)
        offset, seen = self._offsets.get(number, (0, float("-inf")))
        resumed = time.monotonic() - seen < RESUME_S
        if resumed:
            request.start_offset_exclusive = offset
        answered = False
        try:
            async for batch in self._router.stream(leader, NOTIFICATIONS, request):
                self._offsets[number] = (batch.offset, time.monotonic())
                if not answered:
                    answered = True
                    if not resumed and self._ready[number].is_set():
                        self._missed()
                    self._ready[number].set()
                self._changed(batch)
            reason = "the stream ended"
        except grpc.aio.AioRpcError as error:
            reason = describe(error)
            if kind_of(error) is Failure.REFUSED:
                self._refusal = reason
                self._offsets.pop(number, None)  # the server may not have that offset
        if answered:
            self._offsets[number] = (self._offsets[number][0], time.monotonic())
        log.debug("stream of notifications broke: shard=%d server=%s error=%s", number, leader, reason)
        return answered
