"""A consumer that this broker serves from storage."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from readonly_engine.broker.consumer.client_consumer import KEEPER_CHANGED, ClientConsumer
from readonly_engine.broker.consumer.exclusives import is_exclusive
from readonly_engine.broker.consumer.passed_through import CUMULATIVE_TYPES
from readonly_engine.broker.consumer.rates import Rates
from readonly_engine.broker.consumer.stats import ConsumerFigures, DispatchStats, complete_stats
from readonly_engine.broker.dispatch.make import MULTIPLE, make_consumer_state
from readonly_engine.broker.subscription.owner_keeper import OwnerKeeper
from readonly_engine.broker.subscription.pause import Pause
from readonly_engine.clock import lease_time
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.owner.consumer import OwnerConsumer
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.lease import OwnerLease
from readonly_engine.wire.commands import encode_command
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandReachedEndOfTopic
from readonly_engine.wire.subscribe_info import shared_name

if TYPE_CHECKING:
    from readonly_engine.broker.consumer.client_link import ClientLink
    from readonly_engine.broker.consumer.route import Placement
    from readonly_engine.broker.pool.claim_store import ClaimHandle, ClaimStore
    from readonly_engine.broker.subscription.cursor_keeper import CursorKeeper
    from readonly_engine.broker.subscription.owner_queries import OwnerQueries
    from readonly_engine.broker.subscription.subscription import Subscription
    from readonly_engine.owner.connection import OwnerConnection
    from readonly_engine.owner.consumer_events import OwnerCursorState
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.acks import PlainAck
    from readonly_engine.wire.pulsar_pb2 import CommandConsumerStatsResponse, CommandSubscribe

log = logging.getLogger(__name__)

_NO_LEASE: Final = OwnerLease()
"""That of consumers before they join, and without a durable cursor: these need none. Nothing extends it."""


class ServedConsumer(ClientConsumer):
    """Connects a client, its subscription on this broker, and the keeper of the cursor.

    Args:
        connection: the client's connection.
        placement: as in ClientConsumer.
        subscribe: the SUBSCRIBE for the keeper of the cursor.
        claim: as in ClientConsumer.

    Attributes:
        dispatch_state: state for the dispatcher.
        in_sync: whether the consumer has stayed on the owner since the last comparison of the cursor with the owner's.
        lease: lease for which it may be served without an answer of the owner.
        lease_valid: whether the lease is valid now.
    """

    __slots__ = (
        "_active",
        "_end_of_topic_sent",
        "_newest_ledger",
        "_rates",
        "_saving_batches",
        "dispatch_state",
        "in_sync",
        "lease",
        "lease_valid",
        "subscription",
    )

    def __init__(
        self,
        connection: ClientLink,
        placement: Placement,
        subscribe: CommandSubscribe,
        claim: ClaimHandle | None,
    ) -> None:
        super().__init__(connection, placement, claim, subscribe.consumer_id, exclusive=is_exclusive(subscribe))
        self.dispatch_state = make_consumer_state(
            subscribe, name=shared_name(subscribe.consumer_name), writable=connection.writable
        )
        self.subscription: Subscription | None = None
        self._active: bool | None = None
        self._rates: Rates[str] | None = None  # made at the first CONSUMER_STATS, which few clients send
        self._end_of_topic_sent = False
        self._newest_ledger = -1
        self.in_sync = True
        self.lease = _NO_LEASE
        self.lease_valid = True
        self._saving_batches: asyncio.Task[None] | None = None

    def keeper(self, queries: OwnerQueries) -> CursorKeeper:
        """Return the keeper of its subscription's cursor."""
        raise NotImplementedError

    @property
    def consumer_name(self) -> str:
        """Name of the consumer; empty if the client has sent none."""
        return self.dispatch_state.name

    @property
    def served_by(self) -> str:
        """This broker."""
        return ""

    def figures(self) -> ConsumerFigures:
        """Return the figures of now."""
        state = self.dispatch_state
        return ConsumerFigures("", state.permits, state.unacked, state.blocked, self.messages, self.bytes)

    def complete_stats(self, answer: CommandConsumerStatsResponse) -> None:
        """Fill the counters of this broker into the owner's answer to CONSUMER_STATS."""
        state = self.dispatch_state
        if self.subscription is not None:
            self.subscription.flush_accounting()
        if self._rates is None:
            self._rates = Rates()
        now = time.monotonic()
        rate = self._rates.of("delivered", self.messages, self.bytes, now)
        ack_rate = self._rates.of("acked", state.acked, 0, now).messages
        multiple = self.info.kind in MULTIPLE
        stats = DispatchStats(rate, state.unacked, state.blocked, ack_rate if multiple else None)
        complete_stats(answer, self.connection.peer, state.permits, stats)

    # Begin and end

    async def begin(self, sent: float) -> None:
        """Join the subscription on this broker.

        Args:
            sent: time of the SUBSCRIBE, or earlier (lease_time).

        Raises:
            RelayError: the owner does not answer, or its cursor may have changed meanwhile.
            MetadataError: the topic's metadata cannot be read.
        """
        services = self.connection.services
        check = partial(_check_claim, services.claim_store, self.claim)
        self.on_joined(await services.topics.join(self.topic, self, check), sent)

    def stop_delivery(self) -> Subscription | None:
        """Pause the subscription; return it if its acks are stored."""
        if self.subscription is not None:
            self.subscription.pause(Pause.LEAVING)
        return self.subscription if self.info.durable else None

    def on_joined(self, subscription: Subscription, sent: float) -> None:
        """Connect the consumer with its subscription after `TopicRegistry.join`, and apply earlier events of the owner.

        Args:
            subscription: the subscription.
            sent: time of its SUBSCRIBE, or earlier (lease_time).

        Raises:
            OwnerUnavailableError: the consumer was closed meanwhile by this broker, or by the owner, whose cursor may differ.
        """
        if self.unregistered or not self.in_sync:
            self._leave_subscription(subscription)
            raise OwnerUnavailableError(
                f"the consumer of {self.topic} was closed during its creation; look it up again"
            )
        self.subscription = subscription
        if subscription.durable:
            self._begin_lease(sent)
        if self._active is not None:
            subscription.active_changed(self, active=self._active)

    def _begin_lease(self, sent: float) -> None:
        if self.lease is _NO_LEASE:
            self.lease = OwnerLease()
        self.connection.services.owner_leases.subscribed(self, sent)

    def _leave(self) -> None:
        if self.subscription is not None:
            self.connection.services.owner_leases.remove(self)
            self._leave_subscription(self.subscription)
            self.subscription = None

    def _leave_subscription(self, subscription: Subscription) -> None:
        """Leave the subscription. New consumers of it wait until the owner has processed this consumer's acks."""
        ours = partial(self._exclusively_served, subscription, self.claim)
        self._saving_batches = self.connection.services.topics.leave(subscription, self, ours)
        if self._closed:
            self._stop_waiting_for_acks()

    def _on_closed(self) -> None:
        self._stop_waiting_for_acks()
        super()._on_closed()

    def _stop_waiting_for_acks(self) -> None:
        self.connection.services.topics.leaving.remove((self.topic, self.info.name), self)

    def _exclusively_served(self, subscription: Subscription, claim: ClaimHandle | None) -> bool:
        """Return whether no other broker can have served the subscription since its cursor was read from the owner."""
        if claim is None:
            return True
        return self.connection.services.claim_store.serves(claim.key) and not subscription.paused & Pause.STALE

    async def _state_saved(self) -> None:
        if self._saving_batches is not None:
            await asyncio.wait([self._saving_batches])

    # Commands of the client

    def flow(self, command: BaseCommand) -> None:
        """Add the permits of a FLOW."""
        permits = command.flow.message_permits
        self.dispatch_state.permits += permits
        if self.subscription is not None:
            self.subscription.add_permits(self, permits)

    def ack(self, command: BaseCommand) -> None:
        """Relay an ACK to the owner, and apply it to the copy of the cursor."""
        if self.owner_consumer.ack(command.ack) and self.subscription is not None:
            self.subscription.acknowledge(self, command.ack)

    def ack_entries(self, ack: PlainAck) -> bool:
        """Fast path: ack complete entries without a receipt. If it returns False, nothing was done, and `ack` must follow."""
        return self.subscription is not None and self.subscription.ack_entries(self, ack)

    def redeliver(self, command: BaseCommand) -> None:
        """Redeliver messages on request of the client. Later messages have the new consumer epoch, if there is one."""
        request = command.redeliver_unacknowledged_messages
        if request.HasField("consumer_epoch") and self.info.kind not in MULTIPLE:
            self.dispatch_state.epoch = max(self.dispatch_state.epoch, request.consumer_epoch)
        if self.subscription is not None:
            self.subscription.redeliver(self, request.message_id)

    def on_writable_changed(self, *, writable: bool) -> None:
        """Pause or resume delivery after a change of the write buffer."""
        if self.subscription is not None:
            self.subscription.leave_fanout()
        self.dispatch_state.writable = writable
        if writable and self.subscription is not None:
            self.subscription.read_more()

    # Subscriber

    def deliver(self, frame: bytes, messages: int) -> None:
        """Send a message to the client."""
        self.messages += messages
        self.bytes += len(frame)
        self.connection.send(frame)

    def deliver_pieces(self, pieces: list[bytes | memoryview], messages: int) -> int:
        """As `deliver`, for large frames in pieces, which are not joined. Return their size."""
        size = sum(map(len, pieces))
        self.messages += messages
        self.bytes += size
        self.connection.send_pieces(pieces, size)
        return size

    def send_end_of_topic(self) -> None:
        """Send REACHED_END_OF_TOPIC, once: all messages of a terminated topic are acked."""
        if not self._end_of_topic_sent:
            self._end_of_topic_sent = True
            reached = CommandReachedEndOfTopic(consumer_id=self.consumer_id)
            command = BaseCommand(type=BaseCommand.REACHED_END_OF_TOPIC, reached_end_of_topic=reached)
            self.connection.send(encode_command(command))

    # ConsumerEvents

    def on_owner_command(self, command: BaseCommand, payload: bytes) -> None:
        """Handle a command of the owner: relay it, or apply it to the subscription."""
        if command.type == BaseCommand.REACHED_END_OF_TOPIC:
            self.send_end_of_topic()
            return
        if command.type == BaseCommand.ACTIVE_CONSUMER_CHANGE:
            self._active = command.active_consumer_change.is_active
            if self.subscription is not None:
                self.subscription.active_changed(self, active=self._active)
        self._relay(command, payload)

    def on_detached(self) -> bool:
        """Start the lease after a move of the owner or a lost connection. Reads continue meanwhile."""
        self.in_sync = False
        if self.subscription is None:
            return False
        self._newest_ledger = self.subscription.newest_ledger
        self.connection.services.owner_leases.detached(self)
        return self.subscription.durable

    @property
    def owner_connection(self) -> OwnerConnection | None:
        """The connection of the consumer to the owner; None without one."""
        return self.owner_consumer.owner_connection

    def on_lease_changed(self) -> None:
        """Suspend or resume the subscription after a change of `lease_valid`."""
        if self.subscription is not None:
            self.subscription.on_lease_changed()

    def on_owner_dead(self, checked_at: float) -> bool:
        """Check for another owner, after the owner's address has refused a connection at this time (lease_time).

        Without a backlog the lease may end: nothing is published while a topic has no owner.
        """
        if self.subscription is None or not self.lease_valid or not self.subscription.has_backlog:
            return False
        self.connection.services.spawn(self._check_other_owner(self.subscription, checked_at))
        return True

    async def _check_other_owner(self, subscription: Subscription, checked_at: float) -> None:
        """Extend the lease if no other broker has loaded the topic, because a load adds a ledger to its list."""
        try:
            newest = await subscription.reload()
        except MetadataError as error:
            log.info("check for another owner failed: topic=%s error=%s", self.topic, error)
            return
        if newest == self._newest_ledger and self.lease is not _NO_LEASE:
            self.connection.services.owner_leases.extend_unowned(self, checked_at)

    def mark_delete_position(self) -> Position | None:
        """Return the mark-delete position of the subscription; None without one."""
        return None if self.subscription is None else self.subscription.mark_delete

    def on_resubscribed(self, state: OwnerCursorState) -> None:
        """Compare the cursor with the owner's after a new SUBSCRIBE."""
        self.connection.services.spawn(self._compare_cursor(state, time.monotonic()))

    async def _compare_cursor(self, state: OwnerCursorState, observed_at: float) -> None:
        sent, attachments = lease_time(), self.owner_consumer.subscribe_count
        subscription = self.subscription
        if subscription is None:
            return
        await self.connection.services.topics.owner_moved(self.topic)
        if not await subscription.resume_after_move(self, state, self._newest_ledger, observed_at):
            for consumer in subscription.consumers:
                consumer.close_for_resubscribe("the owner's cursor was moved")
        elif self.owner_consumer.subscribed and self.owner_consumer.subscribe_count == attachments:
            self.in_sync = True
            self.owner_consumer.resume_acks()
            if subscription.durable and self.subscription is subscription:
                replaceable = self.lease.lapsed or subscription.kind in CUMULATIVE_TYPES
                if replaceable and not subscription.is_at_end(state):
                    subscription.refresh()  # another consumer may have acked entries after the mark-delete position meanwhile
                self._begin_lease(sent)


class OwnerKeptConsumer(ServedConsumer):
    """Has a zero-permit consumer on the owner, which keeps the cursor."""

    __slots__ = ()

    def __init__(
        self,
        connection: ClientLink,
        placement: Placement,
        subscribe: CommandSubscribe,
        claim: ClaimHandle | None,
    ) -> None:
        super().__init__(connection, placement, subscribe, claim)
        owners = connection.services.owners
        self.owner_consumer = OwnerConsumer(owners, connection.identity, subscribe, self, zero_permit=True)

    def keeper(self, queries: OwnerQueries) -> OwnerKeeper:
        """Return the owner."""
        return OwnerKeeper(queries, self.topic, self.info)

    def misplaced(self, *, keeps_cursor: bool) -> str:
        """Return why the consumer must subscribe again, now that a binding names its subscription; empty to keep it."""
        return KEEPER_CHANGED if self.info.durable and keeps_cursor else ""


def _check_claim(claim_store: ClaimStore, claim: ClaimHandle | None, subscription: Subscription) -> None:
    """Check the claim after the cursor was read, and pause the subscription while the metadata store does not confirm claims.

    Raises:
        OwnerUnavailableError: the claim was lost, or another broker may have held it since the cursor was read; or several
            brokers serve the subscription.
    """
    if subscription.split:
        raise OwnerUnavailableError(f"the consumers of {subscription.name} on several brokers leave; try again")
    if claim is None:
        return
    if not claim_store.is_valid(claim):
        raise OwnerUnavailableError(
            f"subscription {claim.key.subscription} of {claim.key.topic} may have been served by another broker; try again"
        )
    if claim_store.suspended:
        subscription.pause(Pause.LEASE)
