"""Whether a topic with local subscriptions was deleted, and maybe created again under its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.broker.cursors.topic_cursors import TopicCursors
    from readonly_engine.metadata.cluster import StoredTopic
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.cursor_admin import CursorAdmin


class TopicDeletions:
    """Compares topics with the stored subscriptions of one partition.

    Args:
        stored: returns a topic as the metadata store has it.
        admin: asks owners.
        guard: name of the partition's guards.
    """

    def __init__(
        self, stored: Callable[[TopicName], Awaitable[StoredTopic | None]], admin: CursorAdmin, guard: str
    ) -> None:
        self._stored = stored
        self._admin = admin
        self._guard = guard

    async def was_deleted(self, topic: TopicName, cursors: TopicCursors) -> bool:
        """Return whether a topic was deleted since its subscriptions were made; else note when it was created.

        Raises:
            MetadataError: the metadata store does not answer.
            WireError: its list of ledgers is damaged.
            OwnerUnavailableError: the admin API does not answer.
        """
        found = await self._stored(topic)
        if found is None:
            return not await self._admin.exists(topic)
        if found.created_ms == cursors.created_ms:
            return False
        deleted = bool(cursors.created_ms) and await self._is_another(topic, cursors, found)
        cursors.created(found.created_ms)
        return deleted

    async def _is_another(self, topic: TopicName, cursors: TopicCursors, found: StoredTopic) -> bool:
        """Return whether a topic with another time of creation is another topic. A copied metadata store has other times, too.

        No ledger of the subscriptions is left then, nor their guard.
        """
        if not len(cursors):
            return False
        ledgers = {one.ledger_id for one in found.info.ledger_info}
        if any(cursor.mark_delete.ledger_id in ledgers for cursor in cursors):
            return False
        return (await self._admin.cursor(topic, self._guard)).mark_delete is None
