"""One consumer of a client: between its connection, its subscription here and its mute twin at the owner."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from readonly_engine.broker.consumer_stats import Served, complete
from readonly_engine.broker.dispatch.make import MULTIPLE, make_receiver
from readonly_engine.broker.moves import close_consumer
from readonly_engine.broker.passage import Passage
from readonly_engine.broker.pause import Pause
from readonly_engine.broker.rates import Rates
from readonly_engine.clock import lease_time
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.relay.consumer import RelayedConsumer
from readonly_engine.relay.errors import OwnerUnavailableError
from readonly_engine.relay.owner_lease import OwnerLease
from readonly_engine.topic.position import Position
from readonly_engine.wire.commands import body_of, command_name, encode_command
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.message import decode_stored
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandFlow,
    CommandReachedEndOfTopic,
    CommandSubscribe,
    MessageIdData,
)

if TYPE_CHECKING:
    from readonly_engine.broker.claiming import Hold
    from readonly_engine.broker.connection import ClientConnection
    from readonly_engine.broker.subscription import Subscription
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.relay.connection import OwnerConnection
    from readonly_engine.relay.consumer import OwnerState
    from readonly_engine.wire.acks import PlainAck
    from readonly_engine.wire.pulsar_pb2 import CommandConsumerStatsResponse

log = logging.getLogger(__name__)

PASSAGE_BYTES = 1 << 20
"""What passes through to one consumer at once."""

SETTLE_S = 5.0
"""Seconds that the owner may take to process the last acks of a consumer and to close it; then the claim is released anyway."""

CUMULATIVE_TYPES = frozenset({CommandSubscribe.Exclusive, CommandSubscribe.Failover})


class Consumer:
    """A consumer that a client has on its connection.

    Args:
        connection: the client's connection.
        topic: the topic.
        subscribe: the client's SUBSCRIBE.
        pass_through: whether another serves it: FLOW is relayed, and so are the messages.
        via: the broker of the pool that serves it; empty for this one or the owner.
        relay_url: where that one is spoken to.
        hold: this broker's claim of the subscription, or its knowledge of whose it is.
        bound: whether a binding names the subscription.

    Attributes:
        brought_at: when another broker of the pool has brought it here; None where its client came by itself.
        exclusive: whether it keeps others from its subscription.
        in_step: whether it has been at the owner ever since the copy of the cursor was last compared with the owner's.
        lease: how long it may be served without a word of the owner.
        vouched: whether it may be served now.
    """

    __slots__ = (
        "_active",
        "_closing",
        "_departing",
        "_handing_over",
        "_newest_ledger",
        "_rates",
        "_told_end",
        "bound",
        "brought_at",
        "bytes",
        "connection",
        "consumer_id",
        "exclusive",
        "hold",
        "in_step",
        "lease",
        "left",
        "messages",
        "pass_through",
        "passage",
        "receiver",
        "relayed",
        "subscription",
        "topic",
        "via",
        "vouched",
    )

    def __init__(
        self,
        connection: ClientConnection,
        topic: TopicName,
        subscribe: CommandSubscribe,
        *,
        pass_through: bool,
        via: str = "",
        relay_url: str = "",
        hold: Hold | None = None,
        bound: bool = True,
    ) -> None:
        self.connection = connection
        self.bound = bound
        self.topic = topic
        self.consumer_id = subscribe.consumer_id
        self.exclusive = subscribe.sub_type == CommandSubscribe.Exclusive
        self.pass_through = pass_through
        self.via = via
        self.hold = hold
        self.left = False
        self.passage: Passage | None = None
        if pass_through:
            self.passage = Passage(PASSAGE_BYTES, remember=subscribe.sub_type not in CUMULATIVE_TYPES)
        self.receiver = make_receiver(subscribe, writable=connection.writable)
        self.subscription: Subscription | None = None
        self.messages = 0
        self.bytes = 0
        self._active: bool | None = None
        self._rates: Rates[str] | None = None  # of few consumers: most clients never ask
        self._told_end = False
        self._newest_ledger = -1
        self.in_step = True
        self.lease = OwnerLease()
        self.vouched = True
        self.brought_at: float | None = None
        self._handing_over: asyncio.Task[None] | None = None
        self._departing: Subscription | None = None
        self._closing: asyncio.Task[BaseCommand | None] | None = None
        self.relayed = RelayedConsumer(
            connection.broker.owners, connection.identity, subscribe, self, mute=not pass_through, via=relay_url
        )

    @property
    def subscribe(self) -> CommandSubscribe:
        """The client's SUBSCRIBE, a new object each time: very many consumers do not keep one each."""
        return self.relayed.subscribe

    # What the client does

    def joined(self, subscription: Subscription, sent: float) -> None:
        """The consumer is in its subscription; what the owner said of it before counts now.

        Args:
            subscription: the subscription.
            sent: when its SUBSCRIBE was sent, or earlier (lease_time).

        Raises:
            OwnerUnavailableError: meanwhile it was sent away, or closed by the owner, who may have another cursor now.
        """
        if self.left or not self.in_step:
            self._depart(subscription)
            self._release_if_closed()
            raise OwnerUnavailableError(f"{self.topic} is on its way to another broker; look it up again")
        self.subscription = subscription
        if subscription.durable:
            self.connection.broker.owner_leases.subscribed(self, sent)
        if self._active is not None:
            subscription.active_changed(self, active=self._active)

    def flow(self, command: BaseCommand) -> None:
        """The client asks for messages."""
        if self.passage is not None:
            self.passage.asked(command.flow.message_permits)
            self._grant()
            return
        permits = command.flow.message_permits
        self.receiver.permits += permits
        if self.subscription is not None:
            self.subscription.granted(self, permits)

    def ack(self, command: BaseCommand) -> None:
        """The client acks: at the owner, and in the copy here."""
        self.relayed.ack(command.ack)
        if self.passage is not None:
            cumulative = command.ack.ack_type == CommandAck.Cumulative
            self.passage.acked([_position(m) for m in command.ack.message_id if not m.ack_set], cumulative=cumulative)
        if self.subscription is not None:
            self.subscription.acked(self, command.ack)

    def ack_plainly(self, ack: PlainAck) -> bool:
        """The client acks entries, and wants no receipt. Returns whether that was all; else `ack` must follow."""
        return self.subscription is not None and self.subscription.acked_plainly(self, ack)

    def redeliver(self, command: BaseCommand) -> None:
        """The client asks for messages again; a new epoch marks those that are sent from now on."""
        request = command.redeliver_unacknowledged_messages
        if self.passage is not None:
            self.passage.returned([_position(m) for m in request.message_id] or list(self.passage.pending))
            self.relayed.send(command)
            return
        if request.HasField("consumer_epoch") and self.subscribe.sub_type not in MULTIPLE:
            self.receiver.epoch = max(self.receiver.epoch, request.consumer_epoch)
        if self.subscription is not None:
            self.subscription.redeliver(self, request.message_id)

    def writable_changed(self, *, writable: bool) -> None:
        """The client's connection takes more, or for now no more."""
        self.part()
        self.receiver.writable = writable
        if writable and self.passage is not None:
            self._grant()
        if writable and self.subscription is not None:
            self.subscription.pump()

    def part(self) -> None:
        """Get nothing together with others; for now."""
        if self.subscription is not None:
            self.subscription.part()

    def deliver(self, frame: bytes, messages: int) -> None:
        """Send a message to the client."""
        self.messages += messages
        self.bytes += len(frame)
        self.connection.send(frame)

    def complete_stats(self, answer: CommandConsumerStatsResponse) -> None:
        """Put what is counted here into the owner's answer to CONSUMER_STATS."""
        passage, receiver = self.passage, self.receiver
        if self.subscription is not None:
            self.subscription.settle()
        if passage is not None:
            complete(answer, self.connection.peer, passage.permits, None)
            return
        if self._rates is None:
            self._rates = Rates()
        now = time.monotonic()
        rate = self._rates.of("delivered", self.messages, self.bytes, now)
        ack_rate = self._rates.of("acked", receiver.acked, 0, now).messages
        together = self.subscribe.sub_type in MULTIPLE
        served = Served(rate, receiver.unacked, receiver.blocked, ack_rate if together else None)
        complete(answer, self.connection.peer, receiver.permits, served)

    def leave(self) -> None:
        """Be counted nowhere any more, and get nothing; the twin at the owner is closed by the caller, who calls `close`."""
        if self.left:
            return
        self.left = True
        broker = self.connection.broker
        broker.limits.leave(self.topic, self.subscribe.subscription)
        broker.topics.passing.leave(self)
        if self.exclusive:
            broker.exclusives.left(self)
        if self.subscription is not None:
            broker.owner_leases.left(self)
            self._depart(self.subscription)
            self.subscription = None
        if self.hold is not None and self.brought_at is not None:
            broker.arrivals.left(self.hold.key, self.brought_at, time.monotonic())
        self._release_if_closed()

    def _depart(self, subscription: Subscription) -> None:
        """Leave the subscription; others wait until the owner has taken what was acked here."""
        self._departing = subscription
        ours = partial(self._serves, subscription, self.hold)
        self._handing_over = self.connection.broker.topics.leave(subscription, self, ours)

    def _serves(self, subscription: Subscription, hold: Hold | None) -> bool:
        """Whether no other broker can have served the subscription since the copy of its cursor was made, or read anew."""
        if hold is None:
            return True
        return self.connection.broker.claiming.serves(hold.key) and not subscription.paused & Pause.STALE

    async def close(self, command: BaseCommand | None = None) -> BaseCommand | None:
        """Close the twin at the owner, once the next consumer of the subscription can find what this one leaves.

        It goes on where nobody waits for it any longer.

        Args:
            command: the client's CLOSE_CONSUMER, if it closes it.

        Returns:
            The owner's answer; None where the consumer was not there.
        """
        if self._closing is None:
            self._closing = self.connection.broker.spawn(self._close(command))
        return await asyncio.shield(self._closing)

    async def _close(self, command: BaseCommand | None) -> BaseCommand | None:
        if self._handing_over is not None:
            await asyncio.wait([self._handing_over])
        late = asyncio.get_running_loop().call_later(SETTLE_S, self._release)
        try:
            # The owner takes acks before it answers a CLOSE_CONSUMER that was sent after them.
            return await self.relayed.close(command)
        finally:
            late.cancel()
            self._release()

    def _release_if_closed(self) -> None:
        if self._closing is not None and self._closing.done():
            self._release()

    def _release(self) -> None:
        """Release the claim: the owner has processed the acks, or the wait timed out."""
        if not self.left:
            return
        broker = self.connection.broker
        subscription, self._departing = self._departing, None
        if subscription is not None:
            broker.topics.departures.ended((subscription.topic, subscription.name), self)
        hold, self.hold = self.hold, None
        if hold is not None:
            broker.claiming.leave(hold)

    async def withdraw(self) -> None:
        """Leave, here and at the owner; the client does not know yet."""
        self.leave()
        await self.close()

    async def move(self, url: str, url_tls: str) -> None:
        """Send the client on to another broker of the pool, which has its subscription."""
        if self.passage is not None:
            self.passage.end()
        await self.close()
        self.connection.drop_consumer(self)
        self.connection.send(close_consumer(self.consumer_id, url, url_tls))

    def dismiss(self, reason: str) -> None:
        """Have the client subscribe again: it looks the topic up and goes where it is served now."""
        log.info("%s, %s: consumer %d is closed: %s", self.topic, self.subscribe.subscription, self.consumer_id, reason)
        self.connection.drop_consumer(self)
        self.connection.send(close_consumer(self.consumer_id))

    def reached_end(self) -> None:
        """Tell the client, once, that it has acked all of a terminated topic."""
        if not self._told_end:
            self._told_end = True
            reached = CommandReachedEndOfTopic(consumer_id=self.consumer_id)
            command = BaseCommand(type=BaseCommand.REACHED_END_OF_TOPIC, reached_end_of_topic=reached)
            self.connection.send(encode_command(command))

    def _grant(self) -> None:
        """Pass on permits of the client, as long as it reads what comes."""
        assert self.passage is not None
        permits = self.passage.grant() if self.receiver.writable else 0
        if permits:
            flow = CommandFlow(message_permits=permits)
            self.relayed.send(BaseCommand(type=BaseCommand.FLOW, flow=flow))

    # ConsumerEvents: what the owner does

    def owner_command(self, command: BaseCommand, payload: bytes) -> None:
        """The owner sent something for this consumer."""
        if command.type == BaseCommand.MESSAGE:
            if self.passage is None:
                log.error("%s: the owner sent a message to a mute consumer; it is not passed on", self.topic)
                return
            messages = _messages(payload)
            wanted = self.passage.came(_position(command.message.message_id), messages, len(payload))
            self._grant()
            if not wanted:
                return
            self.messages += messages
            self.bytes += len(payload)
        if command.type == BaseCommand.REACHED_END_OF_TOPIC and self.passage is None:
            self.reached_end()
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

    def detached(self) -> None:
        """The owner moved; reads go on meanwhile."""
        self.in_step = False
        if self.subscription is not None:
            self._newest_ledger = self.subscription.newest_ledger
            self.connection.broker.owner_leases.detached(self)

    @property
    def owner_connection(self) -> OwnerConnection | None:
        """The connection over which the owner has it."""
        return self.relayed.connection

    def heed_owner(self) -> None:
        """The owner may have given the subscription to others, or certainly has not."""
        if self.subscription is not None:
            self.subscription.heed_owner()

    def owner_dead(self, looked: float) -> None:
        """Nobody listens where the owner was."""
        if self.subscription is not None and self.vouched:
            self.connection.broker.spawn(self._look_for_another_owner(self.subscription, looked))

    async def _look_for_another_owner(self, subscription: Subscription, looked: float) -> None:
        """Go on for as long as no other broker has loaded the topic: its list of ledgers would have one more."""
        try:
            newest = await subscription.reload()
        except MetadataError as error:
            log.info("%s: whether it has another owner is not known: %s", self.topic, error)
            return
        if newest == self._newest_ledger:
            self.connection.broker.owner_leases.unowned(self, looked)

    def stands_at(self) -> Position | None:
        """Up to where the subscription has acked everything."""
        return None if self.subscription is None else self.subscription.mark_delete

    def reattached(self, state: OwnerState) -> None:
        """The consumer is at the owner again."""
        self.connection.broker.spawn(self._compare(state, time.monotonic()))

    async def _compare(self, state: OwnerState, said_at: float) -> None:
        sent, attachments = lease_time(), self.relayed.attachments
        subscription = self.subscription
        if subscription is None:
            return
        await self.connection.broker.topics.owner_moved(self.topic)
        if not await subscription.owner_moved(self, state, self._newest_ledger, said_at):
            for consumer in subscription.consumers:
                consumer.dismiss("the owner's cursor was moved")
        elif self.relayed.attached and self.relayed.attachments == attachments:
            self.in_step = True
            self.relayed.go_on()
            if subscription.durable and self.subscription is subscription:
                replaceable = subscription.kind in CUMULATIVE_TYPES and not subscription.ends_at(state)
                if self.lease.lapsed or replaceable:
                    subscription.refresh()  # another may have had its place, and have acked behind the mark-delete position
                self.connection.broker.owner_leases.subscribed(self, sent)

    def dismissed(self, reason: str) -> None:
        """The owner does not keep the consumer."""
        self.dismiss(reason)


def _messages(payload: bytes) -> int:
    """How many permits an entry uses."""
    try:
        return decode_stored(payload).messages
    except WireError:
        return 1


def _position(message_id: MessageIdData) -> Position:
    return Position(message_id.ledger_id, message_id.entry_id)
