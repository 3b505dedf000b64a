"""A v3 connection to one bookie, for single reads, READ_LAC and long polls: the asyncio shell around BookieSession."""

from __future__ import annotations

import asyncio
from typing import Final

from readonly_engine.bookkeeper.pipeline import READ_TIMEOUT_S, Pipeline
from readonly_engine.bookkeeper.session import BookieSession
from readonly_engine.wire.bookie import ReadReply
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.framing import STORED_FRAME_BYTES

POLL_MARGIN_S: Final = 5.0
"""How much longer than the bookie's own timeout to wait for the answer to a long poll."""


class BookieConnection(Pipeline[ReadReply], asyncio.Protocol):
    """Pipelines requests on one socket; each request is a future of its reply."""

    def __init__(self, name: str, max_frame_bytes: int = STORED_FRAME_BYTES) -> None:
        super().__init__(name)
        self._session = BookieSession(max_frame_bytes)

    @property
    def _requests(self) -> BookieSession:
        return self._session

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

    def long_poll_lac(self, ledger_id: int, previous_lac: int, timeout_s: float) -> asyncio.Future[ReadReply]:
        """Ask the same, and for no entry: the reply is ENOENTRY, when the LAC is above it or the time is up."""
        deadline = self._loop.time() + timeout_s + POLL_MARGIN_S
        return self._send(*self._session.long_poll_lac(ledger_id, previous_lac, int(timeout_s * 1000), deadline))

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self._heard_at = self._loop.time()
        try:
            replies = self._session.receive_data(data)
        except WireError as error:
            self._fail(error)
            return
        for request_id, reply in replies:
            self._answer(request_id, reply)
