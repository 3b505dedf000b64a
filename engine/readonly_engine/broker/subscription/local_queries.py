"""Answers about a local subscription, whose cursor this broker keeps (CursorQueries)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from readonly_engine.broker.subscription.cursor_sync import OwnerCursorRanges
from readonly_engine.owner.consumer_events import OwnerCursorState
from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.wire.pulsar_pb2 import ServerError

if TYPE_CHECKING:
    from readonly_engine.broker.cursors.local_subscription import LocalSubscription
    from readonly_engine.topic.position import Position


class LocalQueries:
    """Takes the answers from the local cursor instead of the owner's.

    Args:
        local: the subscription.
    """

    __slots__ = ("_local",)

    def __init__(self, local: LocalSubscription) -> None:
        self._local = local

    async def state(self, owner_consumer: object) -> OwnerCursorState:
        """Return where the subscription is. The last entry is not known here, so it is as low as it may be."""
        del owner_consumer
        mark_delete = self._local.mark_delete
        return OwnerCursorState(mark_delete, mark_delete)

    async def acked(self) -> list[tuple[Position, Position]]:
        """Return the acked ranges (lower, upper] after the mark-delete position."""
        self._local.cursor.refresh()
        return list(self._local.cursor.ranges)

    async def cursor(self) -> OwnerCursorRanges:
        """Return the cursor."""
        return OwnerCursorRanges(await self.acked(), not_persisted=False)

    async def batches(self, *_: object) -> list[tuple[Position, int]]:
        """Return the batches that are acked in part."""
        self._local.cursor.refresh()
        return list(self._local.cursor.batches)

    def mark_batches(self) -> None:
        """Ignore it: the local cursor has the batches."""

    async def others_ack(self) -> bool:
        """Return False: all consumers are on this broker, so their acks are in force."""
        return False

    def pending_ack_source(self) -> NoReturn:
        """Refuse: no owner has acks of this subscription in transactions.

        Raises:
            OwnerRefusedError: always.
        """
        raise OwnerRefusedError(ServerError.NotAllowedError, "a local subscription takes no acks in transactions")
