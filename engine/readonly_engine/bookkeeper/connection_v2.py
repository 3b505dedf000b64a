"""A v2 connection to one bookie, for batch reads: the asyncio shell around BatchSession."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from readonly_engine.bookkeeper.pipeline import READ_TIMEOUT_S, Pipeline
from readonly_engine.bookkeeper.session_v2 import BatchSession
from readonly_engine.wire.bookie_v2 import decode_batch
from readonly_engine.wire.bookkeeper_pb2 import EOK
from readonly_engine.wire.errors import DigestMismatchError, WireError
from readonly_engine.wire.framing import STORED_FRAME_BYTES

if TYPE_CHECKING:
    from readonly_engine.wire.digest import Digest
    from readonly_engine.wire.entry import Entry


class Batch(NamedTuple):
    """What a bookie answered to a batch read.

    Attributes:
        status: a StatusCode.
        entries: the verified ones, from the first that was asked for on, without a gap; perhaps fewer than were asked for.
        damage: what is wrong with the entry after them; None where it is just not in this answer.
    """

    status: int
    entries: list[Entry]
    damage: DigestMismatchError | None = None


class BatchConnection(Pipeline[Batch], asyncio.BufferedProtocol):
    """Pipelines batch reads on one socket. Entries are taken from the receive buffer itself, each copied once."""

    def __init__(self, name: str, max_frame_bytes: int = STORED_FRAME_BYTES) -> None:
        super().__init__(name)
        self._session = BatchSession(max_frame_bytes)
        self._asked: dict[int, tuple[int, int, Digest]] = {}
        self._ever_asked = False

    @property
    def _requests(self) -> BatchSession:
        return self._session

    @property
    def refused(self) -> bool:
        """Whether the bookie closed the connection without an answer to any batch read: so do those that do not know it."""
        return self.closed and self._ever_asked and not self._session.answered

    def batch_read(
        self, ledger_id: int, first: int, max_count: int, max_bytes: int, digest: Digest
    ) -> asyncio.Future[Batch]:
        """Ask for entries from `first` on, to be verified by this digest."""
        self._ever_asked = True
        deadline = self._loop.time() + READ_TIMEOUT_S
        request_id, data = self._session.batch_read(ledger_id, first, max_count, max_bytes, deadline)
        self._asked[request_id] = (ledger_id, first, digest)
        return self._send(request_id, data)

    def _given_up(self, request_id: int) -> None:
        del self._asked[request_id]

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Called by asyncio."""
        return self._session.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Called by asyncio."""
        self._heard_at = self._loop.time()
        try:
            for header, frame in self._session.received(nbytes):
                # The buffer is used again: entries are taken out now.
                ledger_id, first, digest = self._asked.pop(header.request_id)
                batch = Batch(header.status, [])
                if header.status == EOK and not self._futures[header.request_id].done():  # else it was cancelled
                    batch = Batch(EOK, *decode_batch(frame, digest, ledger_id, first))
                self._answer(header.request_id, batch)
        except WireError as error:
            self._fail(error)
