"""Interface of the keeper of a subscription's cursor: the owner broker (owner_keeper.py), or this broker (local_keeper.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from readonly_engine.broker.cursors.local_subscription import ServedSubscription
from readonly_engine.broker.subscription.cursor_queries import CursorQueries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_engine.broker.dispatch.make import DispatchSettings
    from readonly_engine.owner.consumer_events import OwnerCursorState
    from readonly_engine.owner.cursor_consumer import CursorConsumer
    from readonly_engine.topic.log import TopicLog
    from readonly_engine.topic.position import Position


class LoadedAcks(NamedTuple):
    """The acks after the mark-delete position of a cursor, for a new subscription.

    Attributes:
        acked: ranges (lower, upper] of acked entries.
        batches: partly acked batches, with the bits of their unacked messages.
    """

    acked: Sequence[tuple[Position, Position]] = ()
    batches: Sequence[tuple[Position, int]] = ()


class CursorKeeper(CursorQueries, Protocol):
    """Keeps the cursor of one subscription."""

    @property
    def at_owner(self) -> bool:
        """Whether that is the owner broker, which could serve the subscription as well."""

    async def settings(self) -> DispatchSettings:
        """Return the dispatch settings of a new subscription, from the owner's configuration and policies."""

    def adapted(self, settings: DispatchSettings) -> DispatchSettings:
        """Return the owner's settings as they hold for this cursor."""

    @property
    def generation(self) -> int:
        """Generation of the cursor. A move of the cursor changes it where only this broker can see the move."""

    async def load(self, owner_consumer: CursorConsumer, state: OwnerCursorState, log: TopicLog) -> LoadedAcks:
        """Return the acks of a new subscription.

        Args:
            owner_consumer: its first consumer, where the cursor is kept.
            state: its mark-delete position, and the last entry that consumers may read.
            log: the topic.

        Raises:
            RelayError: the keeper does not answer.
        """

    def check_joining(self, subscription: KeptSubscription) -> None:
        """Check that a consumer of this keeper may join a subscription that has consumers here.

        Raises:
            OwnerUnavailableError: the acks of the subscription go elsewhere; its present consumers are about to leave.
        """

    def serve(self, subscription: ServedSubscription) -> None:
        """Take the cursor of a new subscription from now on."""

    def release(self, subscription: ServedSubscription) -> None:
        """Keep the state of a subscription's cursor, which ends."""

    def store_acks(self) -> bool:
        """Store acks that no consumer has sent; return False if they must be sent to the owner."""


class KeptSubscription(ServedSubscription, Protocol):
    """A subscription with consumers on this broker."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def at_owner(self) -> bool:
        """Whether the owner keeps its cursor."""
