"""One consumer of a client: connects its connection, its subscription on this broker, and its consumer on the owner."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from readonly_engine.broker.cursors.local_consumer import LocalCursorConsumer
from readonly_engine.broker.dispatch.make import MULTIPLE, make_consumer_state
from readonly_engine.broker.passthrough.flow_window import FlowWindow
from readonly_engine.broker.pool.redirects import close_consumer
from readonly_engine.broker.session.consumer_stats import (
    OWNER,
    ConsumerFigures,
    DispatchStats,
    Outstanding,
    complete_stats,
)
from readonly_engine.broker.session.exclusives import is_exclusive
from readonly_engine.broker.session.rates import Rates
from readonly_engine.broker.subscription.pause import Pause
from readonly_engine.clock import lease_time
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.owner.consumer import OwnerConsumer
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.lease import OwnerLease
from readonly_engine.topic.position import Position
from readonly_engine.wire.commands import body_of, command_name, encode_command
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.message import decode_stored, without_entry_metadata
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandCloseConsumer,
    CommandFlow,
    CommandReachedEndOfTopic,
    CommandSubscribe,
    MessageIdData,
)
from readonly_engine.wire.subscribe_info import SubscribeInfo

if TYPE_CHECKING:
    from readonly_engine.broker.cursors.held_partition import HeldPartition
    from readonly_engine.broker.cursors.local_subscription import LocalSubscription
    from readonly_engine.broker.pool.claim_store import ClaimHandle
    from readonly_engine.broker.pool.claims import ClaimKey
    from readonly_engine.broker.pool.redirects import PendingRedirect
    from readonly_engine.broker.session.admission_lease import AdmissionLease
    from readonly_engine.broker.session.client_link import ClientLink
    from readonly_engine.broker.subscription.subscription import Subscription
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.connection import OwnerConnection
    from readonly_engine.owner.consumer_events import OwnerCursorState
    from readonly_engine.owner.cursor_consumer import CursorConsumer
    from readonly_engine.wire.acks import PlainAck
    from readonly_engine.wire.pulsar_pb2 import CommandConsumerStatsResponse

log = logging.getLogger(__name__)

FLOW_WINDOW_BYTES = 1 << 20
"""Bytes of messages that the owner may send ahead to one passthrough consumer."""

CLAIM_RELEASE_TIMEOUT_S = 5.0
"""Time for the owner to process the last acks of a consumer and to close it. After that the claim is released anyway."""

CUMULATIVE_TYPES = frozenset({CommandSubscribe.Exclusive, CommandSubscribe.Failover})


class Consumer:
    """A consumer of a client's connection.

    Args:
        connection: the client's connection.
        topic: the topic.
        subscribe: the client's SUBSCRIBE.
        pass_through: whether the owner or another broker of the pool serves it, so that FLOW and messages are relayed.
        peer: the broker of the pool that serves it; empty for this broker or the owner.
        peer_url: URL for connections to the peer.
        admission: what it holds since its admission.
        bound: whether a binding includes the subscription.
        partition: the partition that has the subscription's cursor; None where the owner has it.

    Attributes:
        created_at: time (monotonic) of its creation.
        pending_redirect: decides about its redirect; None for none, or after the decision.
        info: the lasting fields of the SUBSCRIBE.
        exclusive: whether it keeps other consumers out: of its subscription, or of its sticky ranges of hashes.
        in_sync: whether the consumer has stayed on the owner since the last comparison of the cursor with the owner's.
        lease: lease for which it may be served without an answer of the owner.
        lease_valid: whether the lease is valid now.
        unregistered: whether `unregister` was called.
        flow_window: flow control of a passthrough consumer; None for others.
        dispatch_state: state for the dispatcher.
        subscription: the subscription on this broker; None before it is joined, and for passthrough.
        messages: number of messages sent to the client.
        bytes: bytes of frames sent to the client.
        owner_consumer: the consumer where the cursor is kept: on the owner, a zero-permit consumer unless it passes through; or
            in a partition of this broker's.
    """

    __slots__ = (
        "_active",
        "_closing",
        "_end_of_topic_sent",
        "_newest_ledger",
        "_rates",
        "_saving_batches",
        "admission",
        "bound",
        "bytes",
        "connection",
        "consumer_id",
        "created_at",
        "dispatch_state",
        "exclusive",
        "flow_window",
        "in_sync",
        "info",
        "lease",
        "lease_valid",
        "messages",
        "owner_consumer",
        "pass_through",
        "peer",
        "pending_redirect",
        "subscription",
        "topic",
        "unregistered",
    )

    def __init__(
        self,
        connection: ClientLink,
        topic: TopicName,
        subscribe: CommandSubscribe,
        admission: AdmissionLease,
        *,
        pass_through: bool,
        peer: str = "",
        peer_url: str = "",
        bound: bool = True,
        partition: HeldPartition | None = None,
    ) -> None:
        self.connection = connection
        self.bound = bound
        self.topic = topic
        self.consumer_id = subscribe.consumer_id
        self.created_at = time.monotonic()
        self.pending_redirect: PendingRedirect | None = None
        self.info = SubscribeInfo.of(subscribe)
        self.exclusive = is_exclusive(subscribe)
        self.pass_through = pass_through
        self.peer = peer
        self.admission = admission
        self.unregistered = False
        self.flow_window: FlowWindow | None = None
        if pass_through:
            self.flow_window = FlowWindow(FLOW_WINDOW_BYTES, track_pending=self.info.kind not in CUMULATIVE_TYPES)
        self.dispatch_state = make_consumer_state(subscribe, name=self.info.consumer_name, writable=connection.writable)
        self.subscription: Subscription | None = None
        self.messages = 0
        self.bytes = 0
        self._active: bool | None = None
        self._rates: Rates[str] | None = None  # made at the first CONSUMER_STATS, which few clients send
        self._end_of_topic_sent = False
        self._newest_ledger = -1
        self.in_sync = True
        self.lease = OwnerLease()
        self.lease_valid = True
        self._saving_batches: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[BaseCommand | None] | None = None
        self.owner_consumer: CursorConsumer
        if partition is not None:
            self.owner_consumer = LocalCursorConsumer(partition, topic, connection.identity, subscribe, self)
        else:
            self.owner_consumer = OwnerConsumer(
                connection.services.owners,
                connection.identity,
                subscribe,
                self,
                zero_permit=not pass_through,
                peer_url=peer_url,
            )

    @property
    def local(self) -> LocalSubscription | None:
        """Its subscription, whose cursor this broker keeps; None where the owner keeps it."""
        kept = self.owner_consumer
        return kept.local if isinstance(kept, LocalCursorConsumer) else None

    @property
    def claim(self) -> ClaimHandle | None:
        """Its part in the claim of the subscription; None if the type needs no claim."""
        return self.admission.claim

    @property
    def kept_here(self) -> bool:
        """Whether this broker keeps its cursor."""
        return isinstance(self.owner_consumer, LocalCursorConsumer)

    @property
    def served_by(self) -> str:
        """URL of the broker of the pool that serves it; OWNER; or empty for this broker."""
        return self.peer or (OWNER if self.pass_through else "")

    @property
    def movable(self) -> bool:
        """Whether another broker of the pool can serve it as well: none does, and this one does not have its cursor."""
        return not self.peer and self.local is None

    def served_under(self, key: ClaimKey) -> bool:
        """Return whether this broker serves it by a claim."""
        return self.claim is not None and self.claim.key == key and not self.peer

    def misplaced(self, *, keeps_cursor: bool) -> str:
        """Return why the consumer must subscribe again, now that a binding names its subscription; empty to keep it.

        A consumer that another broker of the pool serves is closed by that one when the keeper of its cursor changes.

        Args:
            keeps_cursor: whether the pool keeps the subscription's cursor by the bindings in force.
        """
        if self.pass_through and not self.peer and not self.bound:
            return "the pool serves the subscription now"
        if self.info.durable and not self.peer and keeps_cursor != self.kept_here:
            return "the keeper of the subscription's cursor has changed"
        return ""

    @property
    def takes_entry_metadata(self) -> bool:
        """Whether the client takes the owner's own metadata of entries."""
        return self.connection.takes_entry_metadata

    @property
    def subscribe_command(self) -> CommandSubscribe:
        """The client's SUBSCRIBE, decoded at each access. `info` has what is needed often."""
        return self.owner_consumer.subscribe_command

    # Commands of the client

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
            self.connection.services.owner_leases.subscribed(self, sent)
        if self._active is not None:
            subscription.active_changed(self, active=self._active)

    def flow(self, command: BaseCommand) -> None:
        """Add the permits of a FLOW."""
        if self.flow_window is not None:
            self.flow_window.add_permits(command.flow.message_permits)
            if self.pending_redirect is not None:
                self.pending_redirect.permits += command.flow.message_permits
            self._grant_permits()
            return
        permits = command.flow.message_permits
        self.dispatch_state.permits += permits
        if self.subscription is not None:
            self.subscription.add_permits(self, permits)

    def ack(self, command: BaseCommand) -> None:
        """Relay an ACK to the owner, and apply it to the copy of the cursor."""
        if not self.owner_consumer.ack(command.ack):
            return
        if self.flow_window is not None:
            cumulative = command.ack.ack_type == CommandAck.Cumulative
            self.flow_window.on_ack(
                [_position(m) for m in command.ack.message_id if not m.ack_set], cumulative=cumulative
            )
        if self.subscription is not None:
            self.subscription.acknowledge(self, command.ack)

    def ack_entries(self, ack: PlainAck) -> bool:
        """Fast path: ack complete entries without a receipt. If it returns False, nothing was done, and `ack` must follow."""
        return self.subscription is not None and self.subscription.ack_entries(self, ack)

    def redeliver(self, command: BaseCommand) -> None:
        """Redeliver messages on request of the client. Later messages have the new consumer epoch, if there is one."""
        request = command.redeliver_unacknowledged_messages
        if self.flow_window is not None:
            self.flow_window.on_redeliver([_position(m) for m in request.message_id] or list(self.flow_window.pending))
            self.owner_consumer.send(command)
            return
        if request.HasField("consumer_epoch") and self.info.kind not in MULTIPLE:
            self.dispatch_state.epoch = max(self.dispatch_state.epoch, request.consumer_epoch)
        if self.subscription is not None:
            self.subscription.redeliver(self, request.message_id)

    def on_writable_changed(self, *, writable: bool) -> None:
        """Pause or resume delivery after a change of the write buffer."""
        self.leave_fanout()
        self.dispatch_state.writable = writable
        if writable and self.flow_window is not None:
            self._grant_permits()
        if writable and self.subscription is not None:
            self.subscription.read_more()

    def leave_fanout(self) -> None:
        """Leave the fan-out group (DirectSubscriber)."""
        if self.subscription is not None:
            self.subscription.leave_fanout()

    def deliver(self, frame: bytes, messages: int) -> None:
        """Send a message to the client."""
        self.messages += messages
        self.bytes += len(frame)
        self.connection.send(frame)

    def complete_stats(self, answer: CommandConsumerStatsResponse) -> None:
        """Fill the counters of this broker into the owner's answer to CONSUMER_STATS."""
        window, state = self.flow_window, self.dispatch_state
        if self.subscription is not None:
            self.subscription.flush_accounting()
        if window is not None:
            complete_stats(answer, self.connection.peer, window.permits, None)
            return
        if self._rates is None:
            self._rates = Rates()
        now = time.monotonic()
        rate = self._rates.of("delivered", self.messages, self.bytes, now)
        ack_rate = self._rates.of("acked", state.acked, 0, now).messages
        multiple = self.info.kind in MULTIPLE
        stats = DispatchStats(rate, state.unacked, state.blocked, ack_rate if multiple else None)
        complete_stats(answer, self.connection.peer, state.permits, stats)

    def figures(self) -> ConsumerFigures:
        """Return the figures of now."""
        window, state = self.flow_window, self.dispatch_state
        permits = state.permits if window is None else window.permits
        unacked = state.unacked if window is None else len(window.pending)
        return ConsumerFigures(self.served_by, permits, unacked, state.blocked, self.messages, self.bytes)

    def stop_delivery(self) -> Outstanding | None:
        """Send no messages any more; return what knows whether delivered ones wait for acks. None if no ack is worth a wait."""
        if self.subscription is not None:
            self.subscription.pause(Pause.LEAVING)
            return self.subscription if self.info.durable else None
        if self.flow_window is not None:
            self.flow_window.close()
        return self.flow_window

    def expect_return(self) -> None:
        """Keep its place while another broker of the pool redirects its client here."""
        if isinstance(self.owner_consumer, LocalCursorConsumer):
            self.owner_consumer.expect_return()

    def unregister(self) -> None:
        """Leave the subscription, limits and registries. The caller also calls `close` for the consumer on the owner."""
        if self.unregistered:
            return
        self.unregistered = True
        services = self.connection.services
        services.passthrough.remove(self)
        if self.exclusive:
            services.exclusives.remove(self)
        if self.subscription is not None:
            services.owner_leases.remove(self)
            self._leave_subscription(self.subscription)
            self.subscription = None
        self.admission.leave()

    def _leave_subscription(self, subscription: Subscription) -> None:
        """Leave the subscription. New consumers of it wait until the owner has processed this consumer's acks."""
        topics, key = self.connection.services.topics, (subscription.topic, subscription.name)
        ours = partial(self._exclusively_served, subscription, self.claim)
        self._saving_batches = topics.leave(subscription, self, ours)
        self.admission.call_at_end(partial(topics.leaving.remove, key, self))

    def _exclusively_served(self, subscription: Subscription, claim: ClaimHandle | None) -> bool:
        """Return whether no other broker can have served the subscription since its cursor was read from the owner."""
        if claim is None:
            return True
        return self.connection.services.claim_store.serves(claim.key) and not subscription.paused & Pause.STALE

    async def close(self, command: BaseCommand | None = None) -> BaseCommand | None:
        """Close the consumer on the owner, after its state of batches is stored for the next consumer of the subscription.

        The close continues if the caller is cancelled.

        Args:
            command: the client's CLOSE_CONSUMER, if the client closes the consumer.

        Returns:
            The owner's answer; None if the consumer was not on the owner.
        """
        if self._closing is None:
            self._closing = self.connection.services.spawn(self._close(command))
        return await asyncio.shield(self._closing)

    async def _close(self, command: BaseCommand | None) -> BaseCommand | None:
        if self._saving_batches is not None:
            await asyncio.wait([self._saving_batches])
        late = asyncio.get_running_loop().call_later(CLAIM_RELEASE_TIMEOUT_S, self.admission.on_closed)
        try:
            # The owner processes acks before a later CLOSE_CONSUMER.
            return await self.owner_consumer.close(command)
        finally:
            late.cancel()
            self.admission.on_closed()

    async def detach(self) -> None:
        """Leave the subscription and close the consumer on the owner, without a CLOSE_CONSUMER to the client."""
        self.unregister()
        await self.close()

    def relay_messages(self) -> None:
        """Relay messages from now on: the client is not redirected."""
        self.pending_redirect = None
        self._grant_permits()

    async def redirect(self, url: str, url_tls: str) -> None:
        """Redirect the client to the broker of the pool that serves its subscription."""
        if self.flow_window is not None:
            self.flow_window.close()
        # The URL tells the other broker that the client comes again.
        moved = CommandCloseConsumer(assigned_broker_service_url=url or url_tls)
        await self.close(BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=moved))
        self.connection.drop_consumer(self)
        self.connection.send(close_consumer(self.consumer_id, url, url_tls))

    def close_for_resubscribe(self, reason: str) -> None:
        """Close the consumer on the client, which then looks the topic up and subscribes again."""
        log.info(
            "consumer closed: topic=%s subscription=%s consumer=%d reason=%s",
            self.topic,
            self.info.name,
            self.consumer_id,
            reason,
        )
        # First the client, as a stock broker (Consumer.disconnect): another consumer of Key_Shared gets the messages at once, and
        # the client would have two consumers of a key.
        self.connection.send(close_consumer(self.consumer_id))
        self.connection.drop_consumer(self)

    def send_end_of_topic(self) -> None:
        """Send REACHED_END_OF_TOPIC, once: all messages of a terminated topic are acked."""
        if not self._end_of_topic_sent:
            self._end_of_topic_sent = True
            reached = CommandReachedEndOfTopic(consumer_id=self.consumer_id)
            command = BaseCommand(type=BaseCommand.REACHED_END_OF_TOPIC, reached_end_of_topic=reached)
            self.connection.send(encode_command(command))

    def _grant_permits(self) -> None:
        """Send permits of the client to the owner, if the write buffer is below its limit."""
        assert self.flow_window is not None
        may_grant = self.dispatch_state.writable and self.pending_redirect is None
        permits = self.flow_window.grant() if may_grant else 0
        if permits:
            flow = CommandFlow(message_permits=permits)
            self.owner_consumer.send(BaseCommand(type=BaseCommand.FLOW, flow=flow))

    # ConsumerEvents

    def on_owner_command(self, command: BaseCommand, payload: bytes) -> None:
        """Handle a command of the owner: relay it, or apply it to the subscription."""
        if command.type == BaseCommand.MESSAGE and self.flow_window is not None:
            messages = _messages(payload)
            accepted = self.flow_window.on_entry(_position(command.message.message_id), messages, len(payload))
            self._grant_permits()
            if not accepted:
                return
            if not self.takes_entry_metadata:
                payload = without_entry_metadata(payload)
            self.messages += messages
            self.bytes += len(payload)
        if command.type == BaseCommand.REACHED_END_OF_TOPIC and self.flow_window is None:
            self.send_end_of_topic()
            return
        if command.type == BaseCommand.ACTIVE_CONSUMER_CHANGE:
            self._active = command.active_consumer_change.is_active
            if self.subscription is not None:
                self.subscription.active_changed(self, active=self._active)
        if command.type == BaseCommand.TOPIC_MIGRATED:
            command.topic_migrated.resource_id = self.consumer_id
        elif hasattr(body_of(command), "consumer_id"):
            body_of(command).consumer_id = self.consumer_id
        elif (
            command.type != BaseCommand.ERROR
        ):  # which answers an ack that the owner refuses, under the client's request id
            log.debug("%s: the owner sent %s", self.topic, command_name(command))
            return
        self.connection.send(encode_command(command, payload))

    def on_detached(self) -> None:
        """Start the lease after a move of the owner or a lost connection. Reads continue meanwhile."""
        self.in_sync = False
        if self.subscription is not None:
            self._newest_ledger = self.subscription.newest_ledger
            self.connection.services.owner_leases.detached(self)

    @property
    def owner_connection(self) -> OwnerConnection | None:
        """The connection of the consumer to the owner; None without one."""
        return self.owner_consumer.connection

    def on_lease_changed(self) -> None:
        """Suspend or resume the subscription after a change of `lease_valid`."""
        if self.subscription is not None:
            self.subscription.on_lease_changed()

    def on_owner_dead(self, checked_at: float) -> None:
        """Check for another owner, after the owner's address has refused a connection at this time (lease_time)."""
        if self.subscription is not None and self.lease_valid:
            self.connection.services.spawn(self._check_other_owner(self.subscription, checked_at))

    async def _check_other_owner(self, subscription: Subscription, checked_at: float) -> None:
        """Extend the lease if no other broker has loaded the topic, because a load adds a ledger to its list."""
        try:
            newest = await subscription.reload()
        except MetadataError as error:
            log.info("check for another owner failed: topic=%s error=%s", self.topic, error)
            return
        if newest == self._newest_ledger:
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
                replaceable = subscription.kind in CUMULATIVE_TYPES and not subscription.is_at_end(state)
                if self.lease.lapsed or replaceable:
                    subscription.refresh()  # another consumer may have acked entries after the mark-delete position meanwhile
                self.connection.services.owner_leases.subscribed(self, sent)

    def on_not_kept(self, reason: str) -> None:
        """Close the consumer after the owner has ended it."""
        self.close_for_resubscribe(reason)


def _messages(payload: bytes) -> int:
    """Return the number of permits that an entry uses."""
    try:
        return decode_stored(payload).messages
    except WireError:
        return 1


def _position(message_id: MessageIdData) -> Position:
    return Position(message_id.ledger_id, message_id.entry_id)
