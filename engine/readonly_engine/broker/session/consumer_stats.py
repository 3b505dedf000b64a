"""CONSUMER_STATS: the owner answers for a consumer's twin, which gets no messages; what this broker counts is put in here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from readonly_engine.broker.session.rates import Rate
    from readonly_engine.wire.pulsar_pb2 import CommandConsumerStatsResponse


class DispatchStats(NamedTuple):
    """What the broker that dispatches to a consumer knows of it.

    Attributes:
        rate: of messages to it.
        unacked: messages that it has not acked; of Shared and Key_Shared only, as at an owner.
        blocked: whether it gets none because of these.
        ack_rate: messages that it acks in a second, where its acks go to the owner together with those of others; None where
            the owner says it.
    """

    rate: Rate
    unacked: int
    blocked: bool
    ack_rate: float | None = None


def complete_stats(
    answer: CommandConsumerStatsResponse, address: str, permits: int, stats: DispatchStats | None
) -> None:
    """Put into an owner's answer what only this side knows, so that the client sees what it would see at an owner.

    Args:
        answer: the owner's, or that of the broker of the pool which serves the consumer.
        address: the client's, HOST:PORT.
        permits: how many messages the client waits for.
        stats: what is known where the consumer is dispatched to; None where it passes through, and the answer says it.
    """
    if answer.HasField("error_code"):
        return
    answer.address = f"/{address}"  # as Java writes it
    answer.available_permits = permits
    if stats is not None:
        answer.msg_rate_out, answer.msg_throughput_out = stats.rate
        answer.unacked_messages = stats.unacked
        answer.blocked_consumer_on_unacked_msgs = stats.blocked
        if stats.ack_rate is not None:
            answer.message_ack_rate = stats.ack_rate
