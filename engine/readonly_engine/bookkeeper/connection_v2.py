"""A v2 connection to one bookie, for batch reads: the asyncio shell around BatchSession."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from readonly_engine.bookkeeper.pipeline import READ_TIMEOUT_S, Pipeline
from readonly_engine.bookkeeper.session_v2 import BatchSession
from readonly_engine.bookkeeper.statistics import BookieStatistics, RequestKind
from readonly_engine.wire.bookie_v2 import decode_batch
from readonly_engine.wire.bookkeeper_pb2 import EOK
from readonly_engine.wire.errors import DigestMismatchError, WireError
from readonly_engine.wire.framing import STORED_FRAME_BYTES

if TYPE_CHECKING:
    from readonly_engine.wire.digest import Digest
    from readonly_engine.wire.entry import Entry


class Batch(NamedTuple):
    """A bookie's reply to a batch read.

    Attributes:
        status: a StatusCode.
        entries: the verified entries from the first requested one on, without a gap; may be fewer than requested.
        damage: error of the entry after them; None if the reply just does not contain it.
    """

    status: int
    entries: list[Entry]
    damage: DigestMismatchError | None = None


class BatchConnection(Pipeline[Batch], asyncio.BufferedProtocol):
    """Pipelines batch reads on one socket. Entries are decoded from the receive buffer itself, each copied once."""

    def __init__(
        self, name: str, max_frame_bytes: int = STORED_FRAME_BYTES, statistics: BookieStatistics | None = None
    ) -> None:
        super().__init__(name, statistics)
        self._session = BatchSession(max_frame_bytes)
        self._asked: dict[int, tuple[int, int, Digest]] = {}
        self._ever_asked = False

    @property
    def _requests(self) -> BatchSession:
        return self._session

    @property
    def refused(self) -> bool:
        """Whether the bookie closed the connection without any reply to a batch read, as bookies before 4.17 do."""
        return self.closed and self._ever_asked and not self._session.answered

    def batch_read(
        self, ledger_id: int, first: int, max_count: int, max_bytes: int, digest: Digest
    ) -> asyncio.Future[Batch]:
        """Request entries from `first` on, to be verified by this digest."""
        self._ever_asked = True
        deadline = self._loop.time() + READ_TIMEOUT_S
        request_id, data = self._session.batch_read(ledger_id, first, max_count, max_bytes, deadline)
        self._asked[request_id] = (ledger_id, first, digest)
        return self._send(RequestKind.BATCH, request_id, data)

    def _given_up(self, request_id: int) -> None:
        del self._asked[request_id]

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Return the buffer for the next bytes (asyncio.BufferedProtocol)."""
        return self._session.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Process received bytes (asyncio.BufferedProtocol)."""
        self._last_answer_at = self._loop.time()
        self._statistics.received += nbytes
        try:
            for header, frame in self._session.received(nbytes):
                # The next reply overwrites the buffer, so decode the entries now.
                ledger_id, first, digest = self._asked.pop(header.request_id)
                batch = Batch(header.status, [])
                if header.status == EOK and not self._futures[header.request_id].done():  # a done future was cancelled
                    batch = Batch(EOK, *decode_batch(frame, digest, ledger_id, first))
                self._answer(header.request_id, batch)
        except WireError as error:
            self._fail(error)
