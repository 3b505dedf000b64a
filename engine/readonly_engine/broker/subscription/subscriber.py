"""A consumer, as its subscription uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from readonly_engine.broker.fanout.membership import FanoutConsumer

if TYPE_CHECKING:
    from readonly_engine.owner.consumer import OwnerConsumer
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe


class Subscriber(FanoutConsumer, Protocol):
    """A client's consumer of a subscription that this broker serves."""

    @property
    def subscribe_command(self) -> CommandSubscribe:
        """The client's SUBSCRIBE, a new object each time."""

    @property
    def owner_consumer(self) -> OwnerConsumer:
        """Its zero-permit consumer on the owner broker."""

    @property
    def in_sync(self) -> bool:
        """Whether it has stayed on the owner since the cursor replica was last compared with the owner's cursor."""

    @property
    def lease_valid(self) -> bool:
        """Whether it may be served now."""

    def deliver(self, frame: bytes, messages: int) -> None:
        """Send MESSAGE frames to the client, and count their messages."""

    def send_end_of_topic(self) -> None:
        """Tell the client, once, that it has acked all of a terminated topic."""

    def close_for_resubscribe(self, reason: str) -> None:
        """Close the consumer, so that the client subscribes again."""
