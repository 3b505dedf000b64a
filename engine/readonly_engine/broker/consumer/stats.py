"""Figures of a consumer, and its CONSUMER_STATS: an owner describes a zero-permit consumer, so the broker fills in its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from readonly_engine.broker.consumer.rates import Rate
    from readonly_engine.wire.pulsar_pb2 import CommandConsumerStatsResponse


OWNER: Final = "owner"
"""`ConsumerFigures.served_by` of a consumer that passes through to the owner."""


NO_BROKERS: Final = frozenset({"", OWNER})
"""Values of `served_by` that are no other broker of the pool."""


class Outstanding(Protocol):
    """A subscription, or a relayed consumer, with delivered messages."""

    @property
    def outstanding(self) -> bool:
        """Whether clients have unacked messages of it."""


class ConsumerFigures(NamedTuple):
    """Figures of a consumer, for statistics.

    Attributes:
        served_by: URL of the broker of the pool that serves it; OWNER; or empty for this broker.
        permits: permits of the client that are not used.
        unacked: number of unacked messages; of unacked entries where this broker relays them.
        blocked: whether delivery waits for acks.
        messages: number of messages sent to the client.
        bytes: bytes sent to the client.
    """

    served_by: str
    permits: int
    unacked: int
    blocked: bool
    messages: int
    bytes: int


class DispatchStats(NamedTuple):
    """Counters of the broker that dispatches to a consumer.

    Attributes:
        rate: rate of delivered messages.
        unacked: number of unacked messages; counted for Shared and Key_Shared only, as on an owner.
        blocked: whether delivery waits for acks.
        ack_rate: acked messages per second; None if the owner counts them. It cannot count acks that are grouped with those
            of other consumers.
    """

    rate: Rate
    unacked: int
    blocked: bool
    ack_rate: float | None = None


def complete_stats(
    answer: CommandConsumerStatsResponse, address: str, permits: int, stats: DispatchStats | None
) -> None:
    """Fill the broker's values into an owner's answer, so that the client gets the same answer as from an owner.

    Args:
        answer: answer of the owner, or of the broker of the pool that serves the consumer.
        address: `HOST:PORT` of the client.
        permits: permits of the client that are not used.
        stats: counters of this broker; None for a passthrough consumer, because the answer has them.
    """
    if answer.HasField("error_code"):
        return
    answer.address = f"/{address}"  # the format of Java's InetSocketAddress
    answer.available_permits = permits
    if stats is not None:
        answer.msg_rate_out, answer.msg_throughput_out = stats.rate
        answer.unacked_messages = stats.unacked
        answer.blocked_consumer_on_unacked_msgs = stats.blocked
        if stats.ack_rate is not None:
            answer.message_ack_rate = stats.ack_rate
