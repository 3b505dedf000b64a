"""This broker as the keeper of a cursor."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NoReturn

from readonly_engine.broker.dispatch.make import DispatchSettings
from readonly_engine.broker.subscription.cursor_keeper import LoadedAcks
from readonly_engine.broker.subscription.cursor_queries import OwnerCursorRanges
from readonly_engine.owner.consumer_events import OwnerCursorState
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.wire.pulsar_pb2 import ServerError

if TYPE_CHECKING:
    from readonly_engine.broker.cursors.local_subscription import LocalSubscription, ServedSubscription
    from readonly_engine.broker.subscription.cursor_keeper import KeptSubscription
    from readonly_engine.broker.subscription.owner_queries import OwnerQueries
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe


class LocalKeeper:
    """Has the cursor of one local subscription (CursorKeeper).

    Args:
        queries: asks the owner for settings; None for those of a stock owner.
        local: the subscription.
        kind: its type.
    """

    __slots__ = ("_kind", "_local", "_queries")

    at_owner: Final[bool] = False

    def __init__(self, queries: OwnerQueries | None, local: LocalSubscription, kind: CommandSubscribe.SubType) -> None:
        self._queries = queries
        self._local = local
        self._kind = kind

    async def settings(self) -> DispatchSettings:
        """Return the dispatch settings of a new subscription."""
        if self._queries is None:
            return self.adapted(DispatchSettings())
        return self.adapted(await self._queries.settings(self._local.topic, self._kind))

    def adapted(self, settings: DispatchSettings) -> DispatchSettings:
        """Return the settings with acks of single messages of a batch, which a local cursor keeps in any case."""
        return replace(settings, batch_acks=True)

    @property
    def generation(self) -> int:
        """Generation of the cursor, which a SEEK changes."""
        return self._local.cursor.generation

    async def load(self, owner_consumer: object, state: object, log: object) -> LoadedAcks:
        """Return the acks of a new subscription."""
        del owner_consumer, state, log
        return LoadedAcks(await self.acked(), await self.batches())

    def check_joining(self, subscription: KeptSubscription) -> None:
        """Check that the acks of the consumers that are here are stored."""
        if not self._local.is_served_by(subscription):
            raise OwnerUnavailableError(f"the consumers of {subscription.name} are closed after a SEEK; try again")

    def serve(self, subscription: ServedSubscription) -> None:
        """Take the cursor of a new subscription from now on."""
        self._local.serve(subscription)

    def release(self, subscription: ServedSubscription) -> None:
        """Keep the state of a subscription's cursor, which ends."""
        self._local.release(subscription)

    def store_acks(self) -> bool:
        """Store the cursor soon."""
        self._local.acked()
        return True

    # Questions

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
