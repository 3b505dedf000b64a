"""Another broker of the pool as the keeper of a cursor: a member of a split subscription, whose cursor the pool keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NoReturn

from readonly_engine.broker.subscription.cursor_keeper import LoadedAcks
from readonly_engine.broker.subscription.cursor_queries import OwnerCursorRanges
from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.wire.pulsar_pb2 import ServerError

if TYPE_CHECKING:
    from readonly_engine.broker.dispatch.make import DispatchSettings
    from readonly_engine.broker.subscription.owner_queries import OwnerQueries
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.consumer_events import OwnerCursorState
    from readonly_engine.owner.cursor_consumer import CursorConsumer
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe


class HolderKeeper:
    """The broker that holds the cursor of a Shared subscription, and leases its entries to this one (CursorKeeper).

    A member dispatches leased entries only, so it needs no acks of before. If the cursor moves, the holder closes the consumers.

    Args:
        queries: asks the owner for settings.
        topic: the topic.
        kind: the type of the subscription.
    """

    __slots__ = ("_kind", "_queries", "_topic")

    at_owner: Final[bool] = False
    generation: Final[int] = 0

    def __init__(self, queries: OwnerQueries, topic: TopicName, kind: CommandSubscribe.SubType) -> None:
        self._queries = queries
        self._topic = topic
        self._kind = kind

    async def settings(self) -> DispatchSettings:
        """Return the dispatch settings of a new subscription."""
        return self.adapted(await self._queries.settings(self._topic, self._kind))

    def adapted(self, settings: DispatchSettings) -> DispatchSettings:
        """Return the settings with acks of single messages of a batch, as LocalKeeper: they end the split."""
        return replace(settings, batch_acks=True)

    async def load(self, owner_consumer: object, state: object, log: object) -> LoadedAcks:
        """Return no acks."""
        del owner_consumer, state, log
        return LoadedAcks()

    def check_joining(self, subscription: object) -> None:
        """Ignore it: consumers of another holder do not join."""

    def serve(self, subscription: object) -> None:
        """Ignore it: the holder's cursor moves with the acks that it gets."""

    def release(self, subscription: object) -> None:
        """Ignore it, too."""

    def store_acks(self) -> bool:
        """Return False: the holder must get the acks."""
        return False

    # Questions

    async def state(self, owner_consumer: CursorConsumer) -> OwnerCursorState:
        """Return where the subscription stands, asked through one of its consumers."""
        return await owner_consumer.state()

    async def acked(self) -> list[tuple[Position, Position]]:
        """Return no ranges."""
        return []

    async def cursor(self) -> OwnerCursorRanges:
        """Return no ranges."""
        return OwnerCursorRanges([], not_persisted=False)

    async def batches(self, *_: object) -> list[tuple[Position, int]]:
        """Return none: a subscription with partly acked batches is not split."""
        return []

    def mark_batches(self) -> None:
        """Ignore it: the holder's cursor has the batches."""

    async def others_ack(self) -> bool:
        """Return True: other brokers have consumers, too."""
        return True

    def pending_ack_source(self) -> NoReturn:
        """Refuse, as LocalKeeper.

        Raises:
            OwnerRefusedError: always.
        """
        raise OwnerRefusedError(ServerError.NotAllowedError, "a local subscription takes no acks in transactions")
