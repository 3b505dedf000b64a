"""The loop of a replay: its next round, which the first of the brokers begins that gets there."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from readonly_engine.background import run_forever
from readonly_engine.broker.replay.record import ReplayRecord, ReplayRecordError
from readonly_engine.broker.replay.shared_record import change_record
from readonly_engine.metadata.errors import MetadataError

if TYPE_CHECKING:
    from readonly_engine.broker.replay.shared_record import FollowedRecord
    from readonly_engine.metadata.store import MetadataStore

log = logging.getLogger(__name__)

RETRY_S: Final = 5.0
"""Pause after a failure to begin a round."""

MS_PER_S: Final = 1000


class ReplayLoop:
    """Begins the next round of a replay with a loop.

    Args:
        store: the metadata store.
        record: the record of the replay.
    """

    def __init__(self, store: MetadataStore, record: FollowedRecord) -> None:
        self._store = store
        self._record = record
        self._changed = asyncio.Event()
        record.shared.listen(self._changed.set)
        self._following = run_forever(self._follow, "the loop of the replay")

    def close(self) -> None:
        """Begin no more rounds."""
        self._record.shared.unlisten(self._changed.set)
        self._following.cancel()

    async def _follow(self) -> None:
        shared = self._record.shared
        while True:
            self._changed.clear()
            due = shared.clock.next_round_ms
            wait_s = None if due is None else (due - shared.now_ms()) / MS_PER_S
            if wait_s is None or wait_s > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._changed.wait()
                continue
            try:
                record = await change_record(self._store, self._record.folder, self._next_round)
            except (MetadataError, ReplayRecordError) as error:
                log.warning("the next round of the replay waits: error=%s retry_s=%g", error, RETRY_S)
                await asyncio.sleep(RETRY_S)
            else:
                shared.change(record.clock)

    def _next_round(self, found: ReplayRecord | None) -> ReplayRecord:
        """Return the record with the next round, unless another broker has begun it, or a person has changed the clock."""
        shared = self._record.shared
        if found is None:
            raise ReplayRecordError("the record of the replay was deleted")
        now_ms, due = shared.now_ms(), found.clock.next_round_ms
        if due is None or due > now_ms:
            return found
        return found._replace(clock=found.clock.seek(found.clock.begin_ms, now_ms))
