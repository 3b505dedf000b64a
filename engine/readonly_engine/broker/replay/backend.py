"""The cursors of a replay: in the metadata store, below the path of the replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from readonly_engine.broker.cursors.store import CursorStore, CursorStoreError
from readonly_engine.broker.replay.loop import ReplayLoop
from readonly_engine.broker.replay.node_records import NodeRecords, remove_tree
from readonly_engine.broker.replay.partition import ReplayPartition
from readonly_engine.metadata.errors import MetadataError

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
        self._round = record.shared.clock.round
        self._open: dict[ClaimKey, Callable[[str], None]] = {}
        record.shared.listen(self._clock_changed)
        self._loop = ReplayLoop(store, record)

    async def partitions(self, cursors: TopicName) -> int:
        """Return the number of partitions of a namespace's cursors, which all brokers know from the record."""
        del cursors
        return self._record.partitions

    async def open(self, key: ClaimKey, on_lost: Callable[[str], None], is_held: Callable[[], bool]) -> ReplayPartition:
        """Return the cursors of a partition that this broker has claimed: those of the round.

        Raises:
            CursorStoreError: they cannot be read now.
        """
        del is_held  # no owner has anything of them
        while True:
            round_ = self._round
            folder = await self._folder(key, round_)
            store = CursorStore(NodeRecords(self._store, folder), on_lost, COMMIT_S)
            await store.open()
            if round_ == self._round:
                break
            await store.close()
        self._open[key] = on_lost
        return ReplayPartition(store, self._access)

    async def _folder(self, key: ClaimKey, round_: int) -> str:
        """Return the path of a partition's cursors in a round; remove those of earlier rounds, which nobody uses any more."""
        cursors, partition = f"{self._record.folder}/cursors", quote(str(key.topic), safe="")
        own = f"{partition}@{round_}" if round_ else partition
        try:
            for name in await self._store.children(cursors) or ():
                if name != own and name.partition("@")[0] == partition:
                    await remove_tree(self._store, f"{cursors}/{name}")
        except MetadataError as error:
            raise CursorStoreError(f"the cursors in {cursors}/{own} cannot be read: {error}") from error
        return f"{cursors}/{own}"

    def _clock_changed(self) -> None:
        """End the cursors of a round after a jump of the clock, and their consumers: they subscribe again in the next one."""
        clock = self._record.shared.clock
        if clock.round != self._round:
            self._round = clock.round
            ended, self._open = self._open, {}
            for on_lost in ended.values():
                on_lost("the clock of the replay has jumped")

    def close(self) -> None:
        """Ask no owners any more."""
        self._loop.close()
        self._record.shared.unlisten(self._clock_changed)
        self._access.close()

    async def disconnect(self) -> None:
        """Do nothing: the metadata store has its own end."""
