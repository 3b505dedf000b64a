"""Interface of a consumer for its subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from readonly_engine.broker.fanout.membership import FanoutConsumer

if TYPE_CHECKING:
    from readonly_engine.broker.subscription.cursor_keeper import CursorKeeper
    from readonly_engine.broker.subscription.owner_queries import OwnerQueries
    from readonly_engine.owner.cursor_consumer import CursorConsumer
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe
    from readonly_engine.wire.subscribe_info import SubscribeInfo


class Subscriber(FanoutConsumer, Protocol):
    """A client's consumer of a subscription that this broker serves."""

    @property
    def takes_entry_metadata(self) -> bool:
        """Whether the client takes the owner's own metadata of entries."""

    @property
    def acks_only(self) -> bool:
        """Whether another broker of the pool dispatches to its client, and it only brings acks."""

    @property
    def info(self) -> SubscribeInfo:
        """The lasting fields of the client's SUBSCRIBE."""

    @property
    def subscribe_command(self) -> CommandSubscribe:
        """The client's SUBSCRIBE, decoded at each access."""

    @property
    def owner_consumer(self) -> CursorConsumer:
        """The consumer where its cursor is kept: a zero-permit consumer on the owner broker, or one of a local subscription."""

    def keeper(self, queries: OwnerQueries) -> CursorKeeper:
        """Return the keeper of its subscription's cursor.

        Raises:
            OwnerUnavailableError: the consumer was closed meanwhile.
        """

    @property
    def in_sync(self) -> bool:
        """Whether the consumer has stayed on the owner since the last comparison of the cursor with the owner's."""

    @property
    def lease_valid(self) -> bool:
        """Whether the lease on the owner is valid, so that the consumer may be served."""

    def deliver(self, frame: bytes, messages: int) -> None:
        """Send MESSAGE frames to the client, and count their messages."""

    def deliver_pieces(self, pieces: list[bytes | memoryview], messages: int) -> int:
        """As `deliver`, for large frames in pieces, which are not joined. Return their size."""

    def send_end_of_topic(self) -> None:
        """Send REACHED_END_OF_TOPIC, once: all messages of a terminated topic are acked."""

    def close_for_resubscribe(self, reason: str) -> None:
        """Close the consumer, so that the client subscribes again."""
