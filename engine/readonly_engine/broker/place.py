"""A subscription's place among those who read together, while its consumer has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from readonly_engine.broker.consumer import Consumer
    from readonly_engine.broker.counters import Counters
    from readonly_engine.broker.dispatch.single_active import SingleActiveDispatcher
    from readonly_engine.broker.seat import Follower, Seat
    from readonly_engine.broker.together import Together
    from readonly_engine.topic.position import Position


class Place:
    """Books what a consumer gets together with others.

    Args:
        seat: the consumer's.
        consumer: the consumer.
        dispatcher: of the subscription; the consumer is its active one.
        counters: of the subscription.
    """

    __slots__ = ("_consumer", "_counters", "_dispatcher", "_seat")

    def __init__(self, seat: Seat, consumer: Consumer, dispatcher: SingleActiveDispatcher, counters: Counters) -> None:
        self._seat = seat
        self._consumer = consumer
        self._dispatcher = dispatcher
        self._counters = counters

    @property
    def following(self) -> Position:
        """The next entry."""
        return self._seat.following

    def granted(self, consumer: Consumer, permits: int) -> None:
        """A client has asked for so many messages more; its consumer has them already, and need not be the one here."""
        if consumer is self._consumer:
            self._seat.grant(permits)

    def settle(self) -> None:
        """Reckon up what was had since this was done last."""
        had, consumer, counters = self._seat.settle(), self._consumer, self._counters
        consumer.receiver.permits -= had.messages
        consumer.messages += had.messages
        consumer.bytes += had.bytes
        counters.entries += had.entries
        counters.messages += had.messages
        counters.bytes += had.bytes
        self._dispatcher.go_on(had.following)

    def leave(self) -> None:
        """Give the place up."""
        self.settle()
        self._seat.leave()


def take_place(
    together: Together,
    follower: Follower,
    consumer: Consumer,
    dispatcher: SingleActiveDispatcher,
    counters: Counters,
    partition: int,
) -> Place | None:
    """Join the others with the active consumer, which has just got all that is new; None where it cannot be.

    Args:
        together: the others.
        follower: the subscription.
        consumer: its active consumer.
        dispatcher: its dispatcher.
        counters: its counters.
        partition: index of the topic's partition, -1 for none.
    """
    receiver = consumer.receiver
    key = (consumer.consumer_id, partition, receiver.epoch)
    seat = together.join(follower, consumer.connection, key, receiver.permits)
    return None if seat is None else Place(seat, consumer, dispatcher, counters)
