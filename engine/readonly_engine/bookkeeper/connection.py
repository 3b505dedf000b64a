"""A connection to one bookie: the asyncio shell around BookieSession."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, cast

from readonly_engine.bookkeeper.errors import BookieUnavailableError
from readonly_engine.bookkeeper.session import BookieSession
from readonly_engine.wire.errors import WireError

if TYPE_CHECKING:
    from readonly_engine.wire.bookie import ReadReply

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 5.0
POLL_MARGIN_S = 5.0
"""How much longer than the bookie's own timeout to wait for the answer to a long poll."""

_EXPIRY_INTERVAL_S = 0.5


class BookieConnection(asyncio.Protocol):
    """Pipelines requests on one socket; each request is a future of its reply."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._session = BookieSession()
        self._futures: dict[int, asyncio.Future[ReadReply]] = {}
        self._transport: asyncio.Transport | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self.closed = False

    @classmethod
    async def open(cls, name: str, host: str, port: int) -> BookieConnection:
        """Connect to a bookie.

        Raises:
            BookieUnavailableError: nobody listens there, or not in time.
        """
        loop = asyncio.get_running_loop()
        try:
            _, connection = await asyncio.wait_for(
                loop.create_connection(lambda: cls(name), host, port), CONNECT_TIMEOUT_S
            )
        except (OSError, TimeoutError) as error:
            raise BookieUnavailableError(
                f"bookie {name} at {host}:{port} cannot be reached: {error or 'no answer'}"
            ) from error
        return connection

    def read_entry(self, ledger_id: int, entry_id: int) -> asyncio.Future[ReadReply]:
        """Ask for one entry."""
        return self._send(*self._session.read_entry(ledger_id, entry_id, self._loop.time() + READ_TIMEOUT_S))

    def read_lac(self, ledger_id: int) -> asyncio.Future[ReadReply]:
        """Ask for the explicit LAC and the last entry."""
        return self._send(*self._session.read_lac(ledger_id, self._loop.time() + READ_TIMEOUT_S))

    def long_poll(self, ledger_id: int, previous_lac: int, timeout_s: float) -> asyncio.Future[ReadReply]:
        """Ask to be told when the LAC is above `previous_lac`."""
        deadline = self._loop.time() + timeout_s + POLL_MARGIN_S
        return self._send(*self._session.long_poll(ledger_id, previous_lac, int(timeout_s * 1000), deadline))

    def close(self) -> None:
        """End the connection; what still waits fails."""
        if self._transport is not None:
            self._transport.close()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but its class
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        try:
            replies = self._session.receive_data(data)
        except WireError as error:
            log.warning("bookie %s: %s; closing the connection", self._name, error)
            self.close()
            return
        for request_id, reply in replies:
            future = self._futures.pop(request_id)
            if not future.done():
                future.set_result(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self.closed = True
        if self._expiry is not None:
            self._expiry.cancel()
        futures, self._futures = self._futures, {}
        for future in futures.values():
            if not future.done():
                future.set_exception(
                    BookieUnavailableError(f"bookie {self._name} closed the connection: {exc or 'end of stream'}")
                )

    def _send(self, request_id: int, data: bytes) -> asyncio.Future[ReadReply]:
        future: asyncio.Future[ReadReply] = self._loop.create_future()
        if self.closed or self._transport is None:
            future.set_exception(BookieUnavailableError(f"bookie {self._name}: the connection is closed"))
            return future
        self._futures[request_id] = future
        self._transport.write(data)
        if self._expiry is None:
            self._expiry = self._loop.call_later(_EXPIRY_INTERVAL_S, self._expire)
        return future

    def _expire(self) -> None:
        self._expiry = None
        for request_id in self._session.expire(self._loop.time()):
            future = self._futures.pop(request_id)
            if not future.done():
                future.set_exception(BookieUnavailableError(f"bookie {self._name} did not answer in time"))
        if self._session.waiting:
            self._expiry = self._loop.call_later(_EXPIRY_INTERVAL_S, self._expire)
