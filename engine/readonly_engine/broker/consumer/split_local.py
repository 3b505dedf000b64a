"""Consumers of split subscriptions whose cursor the pool keeps: at the broker that holds the cursor, and at the others.

| consumer | at | messages | acks and requests |
|---|---|---|---|
| HeldSplitConsumer | the holder | by leases | here |
| AckingConsumer | the holder, for a consumer of another broker | none | here |
| LeasedConsumer | another broker | by leases of the holder | through its AckingConsumer |
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, ClassVar, Final

from readonly_engine.broker.consumer.client_consumer import KEEPER_CHANGED
from readonly_engine.broker.consumer.local import LocallyKeptConsumer
from readonly_engine.broker.consumer.served import ServedConsumer
from readonly_engine.broker.consumer.split import IndivisibleError, join_split
from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.broker.split.holder_keeper import HolderKeeper
from readonly_engine.broker.split.leases import HANDOVER_S
from readonly_engine.broker.split.runner import RELAY_S
from readonly_engine.broker.split.subscription import SplitSubscription
from readonly_engine.owner.consumer import OwnerConsumer
from readonly_engine.wire.pulsar_pb2 import ServerError

if TYPE_CHECKING:
    from readonly_engine.broker.consumer.client_link import ClientLink
    from readonly_engine.broker.consumer.route import Placement
    from readonly_engine.broker.cursors.partition import CursorPartition
    from readonly_engine.broker.pool.claim_store import ClaimHandle
    from readonly_engine.broker.subscription.owner_queries import OwnerQueries
    from readonly_engine.broker.subscription.subscription import Subscription
    from readonly_engine.owner.errors import OwnerRefusedError
    from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandSubscribe

LEAVE_S: Final = 2 * HANDOVER_S
"""Time for another broker to close its consumers, after the coordinator here has stopped."""


class HeldSplitConsumer(LocallyKeptConsumer):
    """A client's consumer at the broker that holds the cursor, which coordinates."""

    __slots__ = ()

    split: ClassVar[bool] = True

    async def begin(self, sent: float) -> None:
        """Join the subscription on this broker, as ServedConsumer."""
        await join_split(self, "", sent)


class AckingConsumer(HeldSplitConsumer):
    """A consumer of another broker, which dispatches to its client; as LocallyKeptConsumer without `changes_only`."""

    __slots__ = ("_left",)

    acks_only: ClassVar[bool] = True

    def __init__(
        self,
        connection: ClientLink,
        placement: Placement,
        subscribe: CommandSubscribe,
        claim: ClaimHandle | None,
        partition: CursorPartition,
    ) -> None:
        super().__init__(connection, placement, subscribe, claim, partition, changes_only=False)
        self._left = asyncio.Event()

    def stop_delivery(self) -> Subscription | None:
        """Stop to coordinate, so that the other brokers close their consumers after the last acks."""
        if isinstance(self.subscription, SplitSubscription):
            self.subscription.runner.stop()
        return super().stop_delivery()

    async def detach(self) -> None:
        """Take the last acks until the other broker closes the consumer, for LEAVE_S at most; then as ClientConsumer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self._left.wait()
        await super().detach()

    def _leave(self) -> None:
        self._left.set()
        super()._leave()


class LeasedConsumer(ServedConsumer):
    """A client's consumer at a broker to which the holder of the cursor leases entries.

    Its consumer at the holder ends with the connection, and when the holder closes it: then the client subscribes again.

    Args:
        connection: the client's connection.
        placement: as in ClientConsumer.
        subscribe: the SUBSCRIBE for the holder.
        claim: as in ClientConsumer.
        holder: URL of the holder.
        peer_url: URL for connections to it.
    """

    __slots__ = ("_holder",)

    split: ClassVar[bool] = True

    def __init__(
        self,
        connection: ClientLink,
        placement: Placement,
        subscribe: CommandSubscribe,
        claim: ClaimHandle | None,
        holder: str,
        peer_url: str,
    ) -> None:
        super().__init__(connection, placement, subscribe, claim)
        self._holder = holder
        owners = connection.services.owners
        self.owner_consumer = OwnerConsumer(
            owners, connection.identity, subscribe, self, zero_permit=False, peer_url=peer_url
        )

    @property
    def holder(self) -> str:
        """URL of the broker that holds the cursor."""
        return self._holder

    def keeper(self, queries: OwnerQueries) -> HolderKeeper:
        """Return the holder."""
        return HolderKeeper(queries, self.topic, self.info.kind)

    def served_under(self, key: ClaimKey) -> bool:  # noqa: ARG002 - the claim is the holder's
        """Return False: the holder closes it if it loses its claim."""
        return False

    def misplaced(self, *, keeps_cursor: bool) -> str:
        """Return why the consumer must subscribe again, now that a binding names its subscription; empty to keep it."""
        return "" if keeps_cursor else KEEPER_CHANGED

    async def begin(self, sent: float) -> None:
        """Join the subscription on this broker, as ServedConsumer."""
        await join_split(self, self._holder, sent)

    def refused(self, error: OwnerRefusedError) -> None:
        """Handle that the holder refuses the consumer.

        Raises:
            IndivisibleError: the holder serves the subscription alone, and the next admission relays the consumer to it.
        """
        if error.code == ServerError.NotAllowedError:
            key = ClaimKey(self.topic, self.info.name)
            self.connection.services.splits.serve_alone(key, RELAY_S, str(error))
            raise IndivisibleError(str(error)) from error

    def ack(self, command: BaseCommand) -> None:
        """Relay an ACK to the holder, and apply it. The holder refuses one in a transaction."""
        if command.ack.HasField("txnid_most_bits"):
            self.owner_consumer.ack(command.ack)
        else:
            super().ack(command)
