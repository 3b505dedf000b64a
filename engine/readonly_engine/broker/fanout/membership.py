"""Membership of a subscription's active consumer in a fan-out group."""

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
        """The client's id of the consumer."""

    @property
    def connection(self) -> DirectWriter:
        """The client's connection."""

    @property
    def dispatch_state(self) -> ConsumerState:
        """The consumer's state in the dispatcher."""


class FanoutMembership:
    """Transfers the totals of a member to its consumer, the dispatcher and the counters.

    Args:
        member: the consumer's member in the group.
        consumer: the active consumer of the subscription.
        dispatcher: the dispatcher of the subscription.
        counters: the counters of the subscription.
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
        """Position of the next entry."""
        return self._member.following

    def add_permits(self, consumer: FanoutConsumer, permits: int) -> None:
        """Add permits of a client's FLOW to the member, if it is the member's consumer. The consumer's state has them already."""
        if consumer is self._consumer:
            self._member.add_permits(permits)

    def flush_accounting(self) -> None:
        """Transfer the totals since the last call."""
        delivered, consumer, counters = self._member.take_totals(), self._consumer, self._counters
        consumer.dispatch_state.permits -= delivered.messages
        consumer.messages += delivered.messages
        consumer.bytes += delivered.bytes
        counters.entries += delivered.entries
        counters.messages += delivered.messages
        counters.bytes += delivered.bytes
        self._dispatcher.advance_to(delivered.following)

    def leave(self) -> None:
        """Transfer the totals and leave the group."""
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
    """Join a fan-out group with the active consumer, which has just got the latest batch.

    Args:
        fanout: the fan-out of the topic.
        subscriber: the subscription.
        consumer: its active consumer.
        dispatcher: its dispatcher.
        counters: its counters.
        partition: index of the topic's partition, -1 for none.

    Returns:
        The membership; None if `TailFanout.join` is not possible.
    """
    receiver = consumer.dispatch_state
    key = (consumer.consumer_id, partition, receiver.epoch, receiver.exposed)
    member = fanout.join(subscriber, consumer.connection, key, receiver.permits)
    return None if member is None else FanoutMembership(member, consumer, dispatcher, counters)
