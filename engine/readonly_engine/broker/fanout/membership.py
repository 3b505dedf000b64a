"""A subscription's place among those who read together, while its consumer has one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from readonly_engine.broker.dispatch.consumer_state import ConsumerState
    from readonly_engine.broker.dispatch.counters import Counters
    from readonly_engine.broker.dispatch.single_active import SingleActiveDispatcher
    from readonly_engine.broker.fanout.groups import FanoutMember, FanoutSubscriber
    from readonly_engine.broker.fanout.tail_fanout import TailFanout
    from readonly_engine.net.direct_writer import DirectWriter
    from readonly_engine.topic.position import Position


class FanoutConsumer(Protocol):
    """The active consumer of a subscription.

    Attributes:
        messages: messages sent to the client.
        bytes: bytes sent to the client.
    """

    messages: int
    bytes: int

    @property
    def consumer_id(self) -> int:
        """The client's number of the consumer."""

    @property
    def connection(self) -> DirectWriter:
        """The client's connection."""

    @property
    def dispatch_state(self) -> ConsumerState:
        """The permits and the epoch."""


class FanoutMembership:
    """Books what a consumer gets together with others.

    Args:
        member: the consumer's.
        consumer: the consumer.
        dispatcher: of the subscription; the consumer is its active one.
        counters: of the subscription.
    """

    __slots__ = ("_consumer", "_counters", "_dispatcher", "_member")

    def __init__(
        self, member: FanoutMember, consumer: FanoutConsumer, dispatcher: SingleActiveDispatcher, counters: Counters
    ) -> None:
        self._member = member
        self._consumer = consumer
        self._dispatcher = dispatcher
        self._counters = counters

    @property
    def following(self) -> Position:
        """The next entry."""
        return self._member.following

    def add_permits(self, consumer: FanoutConsumer, permits: int) -> None:
        """A client has asked for so many messages more; its consumer has them already, and need not be the one here."""
        if consumer is self._consumer:
            self._member.add_permits(permits)

    def flush_accounting(self) -> None:
        """Reckon up what was had since this was done last."""
        delivered, consumer, counters = self._member.take_totals(), self._consumer, self._counters
        consumer.dispatch_state.permits -= delivered.messages
        consumer.messages += delivered.messages
        consumer.bytes += delivered.bytes
        counters.entries += delivered.entries
        counters.messages += delivered.messages
        counters.bytes += delivered.bytes
        self._dispatcher.advance_to(delivered.following)

    def leave(self) -> None:
        """Give the place up."""
        self.flush_accounting()
        self._member.leave()


def join_fanout(
    fanout: TailFanout,
    subscriber: FanoutSubscriber,
    consumer: FanoutConsumer,
    dispatcher: SingleActiveDispatcher,
    counters: Counters,
    partition: int,
) -> FanoutMembership | None:
    """Join the others with the active consumer, which has just got all that is new; None where it cannot be.

    Args:
        fanout: the others.
        subscriber: the subscription.
        consumer: its active consumer.
        dispatcher: its dispatcher.
        counters: its counters.
        partition: index of the topic's partition, -1 for none.
    """
    receiver = consumer.dispatch_state
    key = (consumer.consumer_id, partition, receiver.epoch)
    member = fanout.join(subscriber, consumer.connection, key, receiver.permits)
    return None if member is None else FanoutMembership(member, consumer, dispatcher, counters)
