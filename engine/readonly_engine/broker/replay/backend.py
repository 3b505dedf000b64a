"""The cursors of a replay: in the metadata store, below the path of the replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from readonly_engine.broker.cursors.store import CursorStore
from readonly_engine.broker.replay.node_records import NodeRecords
from readonly_engine.broker.replay.partition import ReplayPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.broker.pool.claims import ClaimKey
    from readonly_engine.broker.replay.access import ReplayAccess
    from readonly_engine.broker.replay.shared_record import FollowedRecord
    from readonly_engine.metadata.store import MetadataStore
    from readonly_engine.metadata.topic_name import TopicName

COMMIT_S: Final = 0.25
"""Longest wait of an ack before its commit begins: a metadata store is slower than a topic, and others need it, too."""


class ReplayBackend:
    """Keeps the cursors of a replay (CursorBackend).

    Args:
        store: the metadata store.
        record: the record of the replay.
        access: decides about consumers.
    """

    def __init__(self, store: MetadataStore, record: FollowedRecord, access: ReplayAccess) -> None:
        self._store = store
        self._record = record
        self._access = access

    async def partitions(self, cursors: TopicName) -> int:
        """Return the number of partitions of a namespace's cursors, which all brokers know from the record."""
        del cursors
        return self._record.partitions

    async def open(self, key: ClaimKey, on_lost: Callable[[str], None], is_held: Callable[[], bool]) -> ReplayPartition:
        """Return the cursors of a partition that this broker has claimed.

        Raises:
            CursorStoreError: they cannot be read now.
        """
        del is_held  # no owner has anything of them
        folder = f"{self._record.folder}/cursors/{quote(str(key.topic), safe='')}"
        store = CursorStore(NodeRecords(self._store, folder), on_lost, COMMIT_S)
        await store.open()
        return ReplayPartition(store, self._access)

    def close(self) -> None:
        """Ask no owners any more."""
        self._access.close()

    async def disconnect(self) -> None:
        """Do nothing: the metadata store has its own end."""
