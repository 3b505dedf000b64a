"""The record of a replay in the metadata store: made by the first broker, changed by compare-and-set, and followed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from readonly_engine.broker.replay.record import (
    ReplayRecord,
    ReplayRecordError,
    decode_record,
    encode_record,
    record_path,
)
from readonly_engine.metadata.errors import MetadataUnavailableError
from readonly_engine.topic.replay.shared import SharedClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.metadata.store import MetadataStore, Versioned, Watch
    from readonly_engine.topic.replay.clock import ReplayClock

log = logging.getLogger(__name__)

ATTEMPTS: Final = 10
"""Attempts to write the record while others write it, too."""


async def change_record(
    store: MetadataStore, folder: str, change: Callable[[ReplayRecord | None], ReplayRecord]
) -> ReplayRecord:
    """Change the record of a replay by compare-and-set; return the record in force.

    Args:
        store: the metadata store.
        folder: path of the replay.
        change: returns the new record; gets None if there is no record.

    Raises:
        ReplayRecordError: the record is damaged.
        MetadataUnavailableError: the store does not answer, or others write again and again.
    """
    path = record_path(folder)
    for _ in range(ATTEMPTS):
        node = await store.get(path)
        before = None if node is None else decode_record(node.value)
        after = change(before)
        if after == before:
            return after
        if await store.put_if(path, encode_record(after), None if node is None else node.version) is not None:
            return after
    raise MetadataUnavailableError(f"{path} was changed by others {ATTEMPTS} times meanwhile; try again")


class FollowedRecord:
    """The record of a replay, as it is now.

    Args:
        store: the metadata store.
        folder: path of the replay.
        record: the record at the start.

    Attributes:
        folder: as above.
        partitions: number of partitions of the cursors of each namespace.
        shared: the clock.
    """

    def __init__(self, store: MetadataStore, folder: str, record: ReplayRecord) -> None:
        self.folder = folder
        self.partitions = record.partitions
        self.shared = SharedClock(record.clock)
        self._watch: Watch = store.watch(record_path(folder), self._changed)

    @classmethod
    async def join(cls, store: MetadataStore, folder: str, clock: ReplayClock, partitions: int) -> FollowedRecord:
        """Go on with the replay of the pool, or begin it.

        Args:
            store: the metadata store.
            folder: path of the replay.
            clock: clock of a new replay.
            partitions: number of partitions of a new replay's cursors.

        Raises:
            ReplayRecordError: the record is damaged.
            MetadataUnavailableError: the store does not answer.
        """
        record = await change_record(store, folder, lambda found: found or ReplayRecord(clock, partitions))
        return cls(store, folder, record)

    def _changed(self, node: Versioned | None) -> None:
        if node is None:
            return  # deleted by hand; the replay goes on until its brokers end
        try:
            record = decode_record(node.value)
        except ReplayRecordError as error:
            log.error("cannot follow the clock of the replay: error=%s", error)  # noqa: TRY400 - the text is enough
            return
        if record.clock != self.shared.clock:
            log.info("the clock of the replay was changed: speed=%g paused=%s", record.clock.speed, record.clock.paused)
        self.shared.change(record.clock)

    def close(self) -> None:
        """Stop following the record."""
        self._watch.stop()
