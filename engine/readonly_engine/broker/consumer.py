"""One consumer of a client: between its connection, its subscription here and its mute twin at the owner."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from readonly_engine.broker.dispatch import Receiver
from readonly_engine.relay.consumer import RelayedConsumer
from readonly_engine.wire.commands import NO_EPOCH, body_of, command_name, encode_command
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandCloseConsumer, CommandSubscribe

if TYPE_CHECKING:
    from readonly_engine.broker.connection import ClientConnection
    from readonly_engine.broker.subscription import Subscription
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.relay.consumer import OwnerState

log = logging.getLogger(__name__)


class Consumer:
    """A consumer that a client has on its connection.

    Args:
        connection: the client's connection.
        topic: the topic.
        subscribe: the client's SUBSCRIBE.
        pass_through: whether the owner serves it: FLOW is relayed, and so are the owner's messages.
    """

    def __init__(
        self, connection: ClientConnection, topic: TopicName, subscribe: CommandSubscribe, *, pass_through: bool
    ) -> None:
        self.connection = connection
        self.topic = topic
        self.subscribe = subscribe
        self.consumer_id = subscribe.consumer_id
        self.pass_through = pass_through
        epoch = subscribe.consumer_epoch if subscribe.HasField("consumer_epoch") else NO_EPOCH
        self.receiver = Receiver(writable=connection.writable, epoch=epoch)
        self.subscription: Subscription | None = None
        self.messages = 0
        self._active: bool | None = None
        self._newest_ledger = -1
        self.relayed = RelayedConsumer(
            connection.broker.owners, connection.identity, subscribe, self, mute=not pass_through
        )

    # What the client does

    def joined(self, subscription: Subscription) -> None:
        """The consumer is in its subscription; what the owner said of it before counts now."""
        self.subscription = subscription
        if self._active is not None:
            subscription.active_changed(self, active=self._active)

    def flow(self, command: BaseCommand) -> None:
        """The client asks for messages."""
        if self.pass_through:
            self.relayed.send(command)
            return
        self.receiver.permits += command.flow.message_permits
        if self.subscription is not None:
            self.subscription.pump()

    def ack(self, command: BaseCommand) -> None:
        """The client acks: at the owner, and in the copy here."""
        self.relayed.ack(command.ack)
        if self.subscription is not None:
            self.subscription.acked(command.ack)

    def redeliver(self, command: BaseCommand) -> None:
        """The client asks for messages again; a new epoch marks those that are sent from now on."""
        if self.pass_through:
            self.relayed.send(command)
            return
        request = command.redeliver_unacknowledged_messages
        if request.HasField("consumer_epoch"):
            self.receiver.epoch = request.consumer_epoch
        if self.subscription is not None:
            self.subscription.redeliver(self, request.message_id)

    def writable_changed(self, *, writable: bool) -> None:
        """The client's connection takes more, or for now no more."""
        self.receiver.writable = writable
        if writable and self.subscription is not None:
            self.subscription.pump()

    def deliver(self, frame: bytes, messages: int) -> None:
        """Send a message to the client."""
        self.messages += messages
        self.connection.send(frame)

    def dismiss(self, reason: str) -> None:
        """Have the client subscribe again: it looks the topic up and goes where it is served now."""
        log.info("%s, %s: consumer %d is closed: %s", self.topic, self.subscribe.subscription, self.consumer_id, reason)
        self.connection.drop_consumer(self)
        close = CommandCloseConsumer(consumer_id=self.consumer_id, request_id=-1)
        self.connection.send(encode_command(BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=close)))

    # ConsumerEvents: what the owner does

    def owner_command(self, command: BaseCommand, payload: bytes) -> None:
        """The owner sent something for this consumer."""
        if command.type == BaseCommand.MESSAGE and not self.pass_through:
            log.error("%s: the owner sent a message to a mute consumer; it is not passed on", self.topic)
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
        if self.subscription is not None:
            self._newest_ledger = self.subscription.newest_ledger

    def reattached(self, state: OwnerState) -> None:
        """The consumer is at the owner again."""
        self.connection.broker.spawn(self._compare(state))

    async def _compare(self, state: OwnerState) -> None:
        subscription = self.subscription
        if subscription is None:
            return
        if not await subscription.owner_moved(self, state, self._newest_ledger):
            for consumer in subscription.consumers:
                consumer.dismiss("the owner's cursor was moved back")

    def dismissed(self, reason: str) -> None:
        """The owner does not keep the consumer."""
        self.dismiss(reason)
