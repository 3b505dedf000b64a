"""A consumer that this broker serves from storage, and whose cursor it keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.broker.consumer.client_consumer import KEEPER_CHANGED
from readonly_engine.broker.consumer.served import ServedConsumer
from readonly_engine.broker.cursors.local_consumer import LocalCursorConsumer
from readonly_engine.broker.subscription.local_keeper import LocalKeeper
from readonly_engine.owner.errors import OwnerUnavailableError

if TYPE_CHECKING:
    from readonly_engine.broker.consumer.client_link import ClientLink
    from readonly_engine.broker.consumer.route import Placement
    from readonly_engine.broker.cursors.partition import CursorPartition
    from readonly_engine.broker.pool.claim_store import ClaimHandle
    from readonly_engine.broker.subscription.owner_queries import OwnerQueries
    from readonly_engine.broker.subscription.subscription import Subscription
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe


class LocallyKeptConsumer(ServedConsumer):
    """Connects a client, its subscription on this broker, and the cursor in a partition of this broker.

    Args:
        connection: the client's connection.
        placement: as in ClientConsumer.
        subscribe: the client's SUBSCRIBE.
        claim: as in ClientConsumer.
        partition: the partition with the cursor.
        changes_only: whether it only seeks or unsubscribes, beside the consumers that get messages.
    """

    __slots__ = ("_changes_only",)

    owner_consumer: LocalCursorConsumer

    def __init__(
        self,
        connection: ClientLink,
        placement: Placement,
        subscribe: CommandSubscribe,
        claim: ClaimHandle | None,
        partition: CursorPartition,
        *,
        changes_only: bool,
    ) -> None:
        super().__init__(connection, placement, subscribe, claim)
        self.owner_consumer = LocalCursorConsumer(partition, placement.topic, connection.identity, subscribe, self)
        self._changes_only = changes_only

    def keeper(self, queries: OwnerQueries) -> LocalKeeper:
        """Return this broker.

        Raises:
            OwnerUnavailableError: the consumer was closed meanwhile.
        """
        local = self.owner_consumer.local
        if local is None:
            raise OwnerUnavailableError(f"the consumer of {self.topic} was closed meanwhile; look it up again")
        return LocalKeeper(queries if self.connection.services.replay is None else None, local, self.info.kind)

    @property
    def movable(self) -> bool:
        """Whether another broker of the pool can serve it as well: this one has the partition of its cursor."""
        return False

    def misplaced(self, *, keeps_cursor: bool) -> str:
        """Return why the consumer must subscribe again, now that a binding names its subscription; empty to keep it."""
        return "" if keeps_cursor else KEEPER_CHANGED

    async def begin(self, sent: float) -> None:
        """Join the subscription on this broker, unless the consumer only changes its cursor."""
        if self._changes_only:
            self.exclusive = False  # it must neither get messages nor replace the consumer that does
        else:
            await super().begin(sent)

    def expect_return(self) -> None:
        """Keep its place while another broker of the pool redirects its client here."""
        self.owner_consumer.expect_return()

    def affected_subscription(self) -> Subscription | None:
        """Return the subscription on this broker, also for a consumer that only changes its cursor."""
        if self.subscription is None and self.owner_consumer.subscribed:
            return self.connection.services.topics.subscription(self.topic, self.info.name)
        return self.subscription
