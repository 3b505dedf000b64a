"""A v3 connection to one bookie, for single reads, READ_LAC and long polls: the asyncio shell around BookieSession."""

from __future__ import annotations

import asyncio
from typing import Final

from readonly_engine.bookkeeper.pipeline import READ_TIMEOUT_S, Pipeline
from readonly_engine.bookkeeper.session import BookieSession
from readonly_engine.bookkeeper.statistics import BookieStatistics, RequestKind
from readonly_engine.wire.bookie import ReadReply
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.framing import STORED_FRAME_BYTES

POLL_MARGIN_S: Final = 5.0
"""Added to the bookie's own timeout of a long poll, for the deadline of its reply."""


class BookieConnection(Pipeline[ReadReply], asyncio.Protocol):
    """Pipelines requests on one socket. Each request returns a future of its reply."""

    def __init__(
        self, name: str, max_frame_bytes: int = STORED_FRAME_BYTES, statistics: BookieStatistics | None = None
    ) -> None:
        super().__init__(name, statistics)
        self._session = BookieSession(max_frame_bytes)

    @property
    def _requests(self) -> BookieSession:
        return self._session

    def read_entry(self, ledger_id: int, entry_id: int) -> asyncio.Future[ReadReply]:
        """Request one entry."""
        return self._send(
            RequestKind.READ, *self._session.read_entry(ledger_id, entry_id, self._loop.time() + READ_TIMEOUT_S)
        )

    def read_lac(self, ledger_id: int) -> asyncio.Future[ReadReply]:
        """Request the explicit LAC and the last entry."""
        return self._send(RequestKind.LAC, *self._session.read_lac(ledger_id, self._loop.time() + READ_TIMEOUT_S))

    def long_poll(self, ledger_id: int, previous_lac: int, timeout_s: float) -> asyncio.Future[ReadReply]:
        """Request a reply as soon as the LAC is above `previous_lac`, with the next entry."""
        deadline = self._loop.time() + timeout_s + POLL_MARGIN_S
        return self._send(
            RequestKind.POLL, *self._session.long_poll(ledger_id, previous_lac, int(timeout_s * 1000), deadline)
        )

    def long_poll_lac(self, ledger_id: int, previous_lac: int, timeout_s: float) -> asyncio.Future[ReadReply]:
        """Long-poll without an entry: the reply is ENOENTRY, once the LAC is above `previous_lac` or after the timeout."""
        deadline = self._loop.time() + timeout_s + POLL_MARGIN_S
        return self._send(
            RequestKind.POLL, *self._session.long_poll_lac(ledger_id, previous_lac, int(timeout_s * 1000), deadline)
        )

    def data_received(self, data: bytes) -> None:
        """Process received bytes (asyncio.Protocol)."""
        self._last_answer_at = self._loop.time()
        self._statistics.received += len(data)
        try:
            replies = self._session.receive_data(data)
        except WireError as error:
            self._fail(error)
            return
        for request_id, reply in replies:
            self._answer(request_id, reply)
