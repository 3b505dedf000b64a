"""The owner broker as the keeper of a cursor."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from readonly_engine.broker.dispatch.make import DispatchSettings
from readonly_engine.broker.subscription.cursor_keeper import LoadedAcks
from readonly_engine.broker.subscription.cursor_sync import begins_with_batch
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.broker.cursors.local_subscription import ServedSubscription
    from readonly_engine.broker.subscription.cursor_keeper import KeptSubscription
    from readonly_engine.broker.subscription.cursor_queries import OwnerCursorRanges
    from readonly_engine.broker.subscription.owner_queries import OwnerQueries
    from readonly_engine.broker.subscription.pending_acks import PendingAckSource
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.consumer_events import OwnerCursorState
    from readonly_engine.owner.cursor_consumer import CursorConsumer
    from readonly_engine.topic.log import TopicLog
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.subscribe_info import SubscribeInfo


class OwnerKeeper:
    """Asks the owner about the cursor of one subscription, which gets the acks through its consumers (CursorKeeper).

    Args:
        queries: asks for all subscriptions.
        topic: the topic.
        info: fields of the first consumer's SUBSCRIBE.
    """

    __slots__ = ("_info", "_queries", "_settings", "_topic")

    at_owner: Final[bool] = True
    generation: Final[int] = 0

    def __init__(self, queries: OwnerQueries, topic: TopicName, info: SubscribeInfo) -> None:
        self._queries = queries
        self._topic = topic
        self._info = info
        self._settings = DispatchSettings()

    async def settings(self) -> DispatchSettings:
        """Return the dispatch settings of a new subscription, and remember them for `batches`."""
        self._settings = await self._queries.settings(self._topic, self._info.kind)
        return self._settings

    def adapted(self, settings: DispatchSettings) -> DispatchSettings:
        """Return the settings as they are."""
        return settings

    async def load(self, owner_consumer: CursorConsumer, state: OwnerCursorState, log: TopicLog) -> LoadedAcks:
        """Return the acks of a new subscription."""
        if state.mark_delete is not None and log.chain.after(state.mark_delete) > state.last:
            return LoadedAcks()  # with a cursor at the end of the topic no later entry can be acked
        acked = await self.acked()
        if self._info.kind == CommandSubscribe.Failover:
            return LoadedAcks(acked)  # a Failover consumer asks for batches when it becomes active
        begins = partial(begins_with_batch, log, state)
        return LoadedAcks(acked, await self.batches(owner_consumer, state.last, begins))

    def check_joining(self, subscription: KeptSubscription) -> None:
        """Check that the owner keeps the cursor of the consumers that are here."""
        if not subscription.at_owner:
            raise OwnerUnavailableError(
                f"the last consumers of the local cursor of {subscription.name} leave; try again"
            )

    def serve(self, subscription: ServedSubscription) -> None:
        """Ignore it: the owner's cursor moves with the acks that it gets."""

    def release(self, subscription: ServedSubscription) -> None:
        """Ignore it, too."""

    def store_acks(self) -> bool:
        """Return False: the owner must get the acks."""
        return False

    # Questions

    async def state(self, owner_consumer: CursorConsumer) -> OwnerCursorState:
        """Return where the subscription stands, asked through one of its consumers."""
        return await self._queries.state(self._topic, self._info.name, owner_consumer)

    async def acked(self) -> list[tuple[Position, Position]]:
        """Return the acked ranges (lower, upper]."""
        return await self._queries.acked(self._topic, self._info)

    async def cursor(self) -> OwnerCursorRanges:
        """Return the durable cursor as the owner has it now."""
        return await self._queries.cursor(self._topic, self._info)

    async def batches(
        self,
        owner_consumer: CursorConsumer,
        last: Position,
        begins_with_batch: Callable[[], Awaitable[bool]],
    ) -> list[tuple[Position, int]]:
        """Return the batches that are acked in part."""
        return await self._queries.partially_acked_batches(
            self._topic, self._info, self._settings, owner_consumer, last, begins_with_batch
        )

    def mark_batches(self) -> None:
        """Let the next broker ask the owner for partly acked batches."""
        self._queries.mark_batches(self._topic, self._info.name)

    async def others_ack(self) -> bool:
        """Return whether the owner has several consumers of the subscription, and one of them has acked."""
        return await self._queries.others_ack(self._topic, self._info.name)

    def pending_ack_source(self) -> PendingAckSource:
        """Return the source of the owner's log of acks in transactions."""
        return self._queries.pending_ack_source(self._topic, self._info.name)
