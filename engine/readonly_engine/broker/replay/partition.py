"""The subscriptions of one partition in a replay: their cursors are the replay's own."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from readonly_engine.broker.cursors.local_requests import request_of
from readonly_engine.broker.cursors.local_subscription import LocalSubscription
from readonly_engine.broker.cursors.partition import CursorPartition, non_durable_cursor
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.wire.pulsar_pb2 import ServerError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from readonly_engine.broker.cursors.owner_access import Authorized
    from readonly_engine.broker.cursors.partition import PartitionConsumer
    from readonly_engine.broker.cursors.store import CursorStore
    from readonly_engine.broker.replay.access import ReplayAccess
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe


class ReplayPartition(CursorPartition):
    """The subscriptions of one partition in a replay, durable or not.

    Args:
        store: stores the cursors; it is open.
        access: decides about consumers, and knows where they begin.
    """

    def __init__(self, store: CursorStore, access: ReplayAccess) -> None:
        super().__init__(store, access)
        self.access: ReplayAccess = access

    async def subscribe(self, consumer: PartitionConsumer) -> LocalSubscription:
        """Add a consumer to its subscription, which is created if necessary; `leave` must follow.

        Raises:
            RelayError: the consumer is refused, or that cannot be decided now.
            CursorStoreError: the subscription cannot be stored here.
        """
        subscribe, topic = consumer.subscribe_command, consumer.topic
        if request_of(subscribe) is not None:
            raise OwnerRefusedError(
                ServerError.NotAllowedError,
                "a replay pool keeps cursors of its own: its subscriptions cannot be imported, exported or compared",
            )
        await self._await_expected(topic, subscribe.subscription, consumer.as_local())
        await self.access.authorize(consumer)
        found = self._find(topic, subscribe)
        if found is not None:
            self._check_open()
            return self._add(found, consumer)
        start = await self.access.positions.start_of(topic, subscribe)
        self._check_open()
        found = self._find(topic, subscribe) or self._new_subscription(topic, subscribe, start)
        found = self._add(found, consumer)
        try:
            await self.store.wait_stored(found.acked())
        except BaseException:
            self.leave(consumer, found)
            raise
        return found

    def _new_subscription(self, topic: TopicName, subscribe: CommandSubscribe, start: Position) -> LocalSubscription:
        if subscribe.durable:
            return self._new(topic, subscribe, start)
        return LocalSubscription(topic, non_durable_cursor(subscribe.subscription, start), None, self.store)

    async def position_at(self, topic: TopicName, publish_ms: int) -> Position:
        """Return the position of the first message of a publish time or a later one, within the replay.

        Raises:
            RelayError: the topic cannot be read now.
        """
        return await self.access.positions.at_time(topic, publish_ms)

    def _retained(self, topic: TopicName, mark_delete: Position) -> AbstractAsyncContextManager[None]:
        """Return a context without effect: a replay has no influence on the retention of the source cluster."""
        del topic, mark_delete
        return nullcontext()

    async def forget_if_deleted(self, topic: TopicName) -> bool:
        """Return False: the subscriptions of a deleted topic stay until the replay is deleted."""
        del topic
        return False

    async def check_absent(self, asker: Authorized) -> None:
        """Refuse the question: a replay has no subscriptions of owners.

        Raises:
            OwnerUnavailableError: always.
        """
        raise OwnerUnavailableError(f"{asker.topic} is served in a replay, whose cursors are its own")
