"""This broker's session at Oxia: its heartbeats, its lease, and a new session after its end."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from typing import TYPE_CHECKING, Final

from readonly_engine.background import run_forever
from readonly_engine.clock import lease_time
from readonly_engine.metadata.errors import MetadataUnavailableError
from readonly_engine.metadata.lease import NO_SESSION, PROBE_SHARE, SESSION_TIMEOUT_S, SILENCE_SHARE, SessionLease
from readonly_engine.metadata.oxia.channels import CLOSE_SESSION, CREATE_SESSION, KEEP_ALIVE, WRITE
from readonly_engine.metadata.oxia.router import REQUEST_TIMEOUT_S, SessionEndedError
from readonly_engine.metadata.store import OWN_ROOT
from readonly_engine.wire.oxia_pb2 import (
    CloseSessionRequest,
    CreateSessionRequest,
    DeleteRequest,
    SessionHeartbeat,
    WriteRequest,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.metadata.oxia.router import Router

log = logging.getLogger(__name__)

PROBE_PATH: Final = f"{OWN_ROOT}/probe"
"""A record that is never written. Its deletion is a write that changes nothing, and that a majority of servers confirms."""

SILENT_S: Final = SILENCE_SHARE * SESSION_TIMEOUT_S
"""Time without an answer to a heartbeat, after which the connection is dropped."""

_MS_PER_S: Final = 1000
_RETRY_S: Final = 0.5


class Session:
    """Keeps one session of the shard that has this broker's records.

    Only a write proves that a server leads its shard: a deposed leader still answers heartbeats, while its successor ends the
    session. So each heartbeat is followed by a write at the same server, and only both extend the lease.

    Args:
        router: the shards.
        changed: called with the lease after every change.
        begun: called with each new session after the first.
    """

    def __init__(self, router: Router, changed: Callable[[SessionLease], None], begun: Callable[[], None]) -> None:
        self._router = router
        self._changed = changed
        self._begun = begun
        self._shard = -1
        self._number = NO_SESSION
        self._live = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._first = True
        self.identity = uuid.uuid4().hex
        self.lease = SessionLease()
        self.answers = False

    @property
    def started(self) -> bool:
        """Return whether a session is kept."""
        return self._task is not None

    @property
    def number(self) -> int:
        """Return the number of the live session: Oxia's id and one, as ids begin at 0; NO_SESSION for none."""
        return self._number if self._live.is_set() else NO_SESSION

    def start(self) -> None:
        """Keep a session from now on."""
        if self._task is None:
            self._task = run_forever(self._keep, "keeping the session of Oxia")

    async def live(self) -> int:
        """Return Oxia's id of the live session, once there is one.

        Raises:
            MetadataUnavailableError: there is none in time.
        """
        self.start()
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                await self._live.wait()
        except TimeoutError as error:
            raise MetadataUnavailableError(
                f"Oxia at {self._router.address}: no session within {REQUEST_TIMEOUT_S:g} s"
            ) from error
        return self._number - 1

    def ended(self, session: int) -> None:
        """Note that a session, by Oxia's id, has ended; another one begins."""
        if session == self._number - 1 and self._live.is_set():
            log.warning("the session of Oxia has ended: session=%d", session)
            self._live.clear()
            self.lease.ended()
            self._changed(self.lease)

    async def close(self) -> None:
        """End the session, which removes its records."""
        if self._task is None:
            return
        self._task.cancel()
        if self._live.is_set():
            session, self._number = self._number - 1, NO_SESSION
            self._live.clear()
            request = CloseSessionRequest(shard=self._shard, session_id=session)
            leader = self._router.leader(OWN_ROOT)
            try:
                if leader is not None:
                    await self._router.call_leader(leader[1], CLOSE_SESSION, request, SILENT_S)
            except (MetadataUnavailableError, SessionEndedError) as error:
                log.debug("closing the session failed: error=%s", error)

    async def _keep(self) -> None:
        while True:
            if not self._live.is_set():
                await self._begin()
            else:
                sent = time.monotonic()
                await self._beat()
                await asyncio.sleep(max(0.0, sent + PROBE_SHARE * SESSION_TIMEOUT_S - time.monotonic()))

    async def _begin(self) -> None:
        request = CreateSessionRequest(
            session_timeout_ms=int(SESSION_TIMEOUT_S * _MS_PER_S), client_identity=self.identity
        )
        leader, sent = self._router.leader(OWN_ROOT), lease_time()
        if leader is None:
            await asyncio.sleep(_RETRY_S)
            return
        request.shard = leader[0]
        try:
            (answer,) = await self._router.call_leader(leader[1], CREATE_SESSION, request, SILENT_S)
        except (MetadataUnavailableError, SessionEndedError) as error:
            self.answers = False
            log.debug("no session yet: error=%s", error)
            await asyncio.sleep(_RETRY_S)
            return
        self._shard, self._number = leader[0], answer.session_id + 1
        self.answers = True
        self._live.set()
        if self.lease.answered(self._number, sent, SESSION_TIMEOUT_S):
            self._changed(self.lease)
        if not self._first:
            self._begun()
        self._first = False

    async def _beat(self) -> None:
        """Send one heartbeat, and extend the lease if a majority confirms the server."""
        number, leader, sent = self._number, self._router.leader(OWN_ROOT), lease_time()
        if leader is None:
            self.answers = False
            return
        if leader[0] != self._shard:  # the shard was split: this broker's records have moved
            self.ended(number - 1)
            return
        try:
            beat = SessionHeartbeat(shard=self._shard, session_id=number - 1)
            probe = WriteRequest(shard=self._shard, deletes=[DeleteRequest(key=PROBE_PATH)])
            await self._router.call_leader(leader[1], KEEP_ALIVE, beat, SILENT_S / 2)
            await self._router.call_leader(leader[1], WRITE, probe, SILENT_S / 2)
        except SessionEndedError:
            self.ended(number - 1)
        except MetadataUnavailableError as error:
            self.answers = False
            log.debug("heartbeat failed: error=%s", error)
        else:
            self.answers = True
            if self.number == number and self.lease.answered(number, sent, SESSION_TIMEOUT_S):
                self._changed(self.lease)
