"""Base of the connections to bookies: requests as futures, which end by reply, deadline or loss of the connection."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import Final, Generic, Protocol, TypeVar, cast

from readonly_engine.background import ends
from readonly_engine.bookkeeper.errors import BookieUnavailableError, failed_connection
from readonly_engine.bookkeeper.statistics import BookieStatistics, RequestKind

log = logging.getLogger(__name__)

READ_TIMEOUT_S: Final = 5.0

_EXPIRY_INTERVAL_S: Final = 0.5
"""Longest time between two looks at the deadlines: a later request may have an earlier deadline."""

Reply = TypeVar("Reply")


class Session(Protocol):
    """Interface of a session for the pipeline: the deadlines of requests."""

    def next_timer(self) -> float | None:
        """Return the time of the next `on_timer`: the first deadline of a request; None without one."""

    def on_timer(self, now: float) -> list[int]:
        """Drop the requests whose deadline has passed, and return their ids."""


class Pipeline(ABC, Generic[Reply]):
    """Pipelines requests on one socket; a base of asyncio protocols.

    Args:
        name: the bookie, for messages.
        statistics: counts its requests; None to count them for nobody.
    """

    def __init__(self, name: str, statistics: BookieStatistics | None = None) -> None:
        self.name = name
        self._statistics = BookieStatistics() if statistics is None else statistics
        self.closed = False
        self._loop = asyncio.get_running_loop()
        self._futures: dict[int, asyncio.Future[Reply]] = {}
        self._transport: asyncio.Transport | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._why_closed = ""
        self._last_answer_at = self._loop.time()

    @property
    @abstractmethod
    def _requests(self) -> Session:
        """The session."""

    def close(self) -> None:
        """Abort the connection; pending requests fail.

        There is nothing to flush. The orderly close of a TLS transport would wait for its peer, which may be unreachable.
        """
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle a new connection (asyncio.Protocol)."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transport is no subclass of asyncio.Transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the pending requests (asyncio.Protocol)."""
        self.closed = True
        if self._expiry is not None:
            self._expiry.cancel()
        futures, self._futures = self._futures, {}
        why = self._why_closed or exc or "end of stream"
        for future in futures.values():
            if not future.done():
                self._statistics.failures += 1
                future.set_exception(failed_connection(f"bookie {self.name} closed the connection: {why}", exc))

    def _given_up(self, request_id: int) -> None:
        """Clean up after a request without a reply in time."""

    def _send(self, kind: RequestKind, request_id: int, data: bytes) -> asyncio.Future[Reply]:
        future: asyncio.Future[Reply] = self._loop.create_future()
        if self.closed or self._transport is None:
            future.set_exception(BookieUnavailableError(f"bookie {self.name}: the connection is closed"))
            return future
        self._futures[request_id] = future
        self._statistics.requests[kind] += 1
        self._transport.write(data)  # uvloop joins the writes of one iteration of the loop into one system call
        if self._expiry is None:
            self._expiry = self._loop.call_later(_EXPIRY_INTERVAL_S, self._expire)
        return future

    def _answer(self, request_id: int, reply: Reply) -> None:
        future = self._futures.pop(request_id)
        if not future.done():
            future.set_result(reply)

    def _fail(self, error: Exception) -> None:
        """Close the connection after an error of the protocol."""
        log.warning("protocol error, closing the connection: bookie=%s error=%s", self.name, error)
        self._why_closed = str(error)
        self.close()

    @ends("close")
    def _expire(self) -> None:
        self._expiry = None
        now = self._loop.time()
        late = self._requests.on_timer(now)
        for request_id in late:
            future = self._futures.pop(request_id)
            self._given_up(request_id)
            if not future.done():
                self._statistics.failures += 1
                future.set_exception(BookieUnavailableError(f"bookie {self.name} did not answer in time"))
        if late and now - self._last_answer_at > READ_TIMEOUT_S:
            # The host may have failed without a FIN. The next connection may find a bookie that has only stalled.
            self._why_closed = "it sent nothing for too long"
            self.close()
        elif (at := self._requests.next_timer()) is not None:
            self._expiry = self._loop.call_at(min(at, now + _EXPIRY_INTERVAL_S), self._expire)
