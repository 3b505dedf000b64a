"""Questions about the cursor of one subscription, to its owner and to the other brokers of the pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.broker.subscription.pending_acks import PendingAckSource
    from readonly_engine.owner.consumer_events import OwnerCursorState
    from readonly_engine.owner.cursor_consumer import CursorConsumer
    from readonly_engine.topic.position import Position


class OwnerCursorRanges(NamedTuple):
    """The owner's current cursor.

    Attributes:
        acked: acked ranges (lower, upper].
        not_persisted: whether the owner has not stored the cursor since it loaded the topic.
    """

    acked: list[tuple[Position, Position]]
    not_persisted: bool


class OtherBrokers(Protocol):
    """The other brokers of the pool that serve a subscription."""

    @property
    def compares_cursor(self) -> bool:
        """Whether this broker compares the whole cursor, with the acks of the others."""

    def possibly_lost(self, lost_at: float) -> list[Position]:
        """Return the entries whose acks, by others, the owner answered shortly before a time, of the event loop's clock."""


class CursorQueries(Protocol):
    """Questions to the owner and the pool about one subscription."""

    async def state(self, owner_consumer: CursorConsumer) -> OwnerCursorState:
        """Return the owner's answer about the subscription, requested through one of its consumers."""

    async def acked(self) -> list[tuple[Position, Position]]:
        """Return the acked ranges (lower, upper] of the owner's cursor."""

    async def cursor(self) -> OwnerCursorRanges:
        """Return the owner's cursor."""

    async def batches(
        self,
        owner_consumer: CursorConsumer,
        last: Position,
        begins_with_batch: Callable[[], Awaitable[bool]],
    ) -> list[tuple[Position, int]]:
        """Return the partly acked batches, with the bits of their unacked messages.

        Args:
            owner_consumer: a consumer on the owner, through which it may be asked.
            last: last entry that consumers may read.
            begins_with_batch: returns whether the first unacked entry is a batch.
        """

    def mark_batches(self) -> None:
        """Let the next broker ask the owner for partly acked batches, also if this broker dies."""

    async def others_ack(self) -> bool:
        """Return whether the owner has several consumers of the subscription, and one of them has acked.

        Raises:
            RelayError: the owner does not answer.
        """

    def pending_ack_source(self) -> PendingAckSource:
        """Return the source of the owner's log of acks in transactions."""
