"""What all connections to bookies share: requests as futures, and their end by reply, deadline or loss of the connection."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import Final, Generic, Protocol, TypeVar, cast

from readonly_engine.bookkeeper.errors import BookieUnavailableError

log = logging.getLogger(__name__)

READ_TIMEOUT_S: Final = 5.0

_EXPIRY_INTERVAL_S: Final = 0.5

Reply = TypeVar("Reply")


class Session(Protocol):
    """What the pipeline needs of a session: its requests' deadlines."""

    def expire(self, now: float) -> list[int]:
        """Forget the requests whose deadline has passed, and name them."""

    @property
    def waiting(self) -> int:
        """How many requests have no reply yet."""


class Pipeline(ABC, Generic[Reply]):
    """Pipelines requests on one socket; a base of asyncio protocols.

    Args:
        name: the bookie, for messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.closed = False
        self._loop = asyncio.get_running_loop()
        self._futures: dict[int, asyncio.Future[Reply]] = {}
        self._transport: asyncio.Transport | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._why_closed = ""
        self._heard_at = self._loop.time()

    @property
    @abstractmethod
    def _requests(self) -> Session:
        """The session."""

    def close(self) -> None:
        """End the connection at once; what still waits fails.

        There is nothing to flush, and a TLS transport that is closed politely waits for its peer, which may be gone.
        """
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but its class

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self.closed = True
        if self._expiry is not None:
            self._expiry.cancel()
        futures, self._futures = self._futures, {}
        why = self._why_closed or exc or "end of stream"
        for future in futures.values():
            if not future.done():
                future.set_exception(BookieUnavailableError(f"bookie {self.name} closed the connection: {why}"))

    def _given_up(self, request_id: int) -> None:
        """No reply to a request has come in time; none is waited for any more."""

    def _send(self, request_id: int, data: bytes) -> asyncio.Future[Reply]:
        future: asyncio.Future[Reply] = self._loop.create_future()
        if self.closed or self._transport is None:
            future.set_exception(BookieUnavailableError(f"bookie {self.name}: the connection is closed"))
            return future
        self._futures[request_id] = future
        self._transport.write(data)  # uvloop puts what one turn of the loop has written into one call of the kernel
        if self._expiry is None:
            self._expiry = self._loop.call_later(_EXPIRY_INTERVAL_S, self._expire)
        return future

    def _answer(self, request_id: int, reply: Reply) -> None:
        future = self._futures.pop(request_id)
        if not future.done():
            future.set_result(reply)

    def _fail(self, error: Exception) -> None:
        """The connection cannot go on."""
        log.warning("bookie %s: %s; closing the connection", self.name, error)
        self._why_closed = str(error)
        self.close()

    def _expire(self) -> None:
        self._expiry = None
        now = self._loop.time()
        late = self._requests.expire(now)
        for request_id in late:
            future = self._futures.pop(request_id)
            self._given_up(request_id)
            if not future.done():
                future.set_exception(BookieUnavailableError(f"bookie {self.name} did not answer in time"))
        if late and now - self._heard_at > READ_TIMEOUT_S:
            # Its host may be gone without a word. A bookie that has stalled is found again by the next connection.
            self._why_closed = "nothing was heard of it"
            self.close()
        elif self._requests.waiting:
            self._expiry = self._loop.call_later(_EXPIRY_INTERVAL_S, self._expire)
