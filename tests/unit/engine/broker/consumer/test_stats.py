"""What a client hears of its consumer: the owner's numbers, and ours where the owner cannot know them."""

from readonly_engine.broker.consumer.rates import Rate
from readonly_engine.broker.consumer.stats import DispatchStats, complete_stats
from readonly_engine.wire.pulsar_pb2 import CommandConsumerStatsResponse, ServerError


def owners_answer() -> CommandConsumerStatsResponse:
    """Of a twin that gets nothing."""
    return CommandConsumerStatsResponse(
        request_id=1,
        msg_rate_out=0,
        msg_throughput_out=0,
        consumer_name="c",
        available_permits=0,
        unacked_messages=0,
        blocked_consumer_on_unacked_msgs=False,
        address="/10.0.0.9:1",
        type="Shared",
        msg_backlog=7,
        message_ack_rate=2.5,
    )


def test_a_consumer_that_is_served_here() -> None:
    answer = owners_answer()
    complete_stats(answer, "10.0.0.1:2", 990, DispatchStats(Rate(3.0, 300.0), 5, blocked=True))
    assert (answer.available_permits, answer.unacked_messages, answer.address) == (990, 5, "/10.0.0.1:2")
    assert (answer.msg_rate_out, answer.msg_throughput_out) == (3.0, 300.0)
    assert answer.blocked_consumer_on_unacked_msgs
    assert (answer.msg_backlog, answer.message_ack_rate, answer.consumer_name, answer.type) == (7, 2.5, "c", "Shared")


def test_a_consumer_whose_acks_go_together_with_those_of_others() -> None:
    answer = owners_answer()
    complete_stats(answer, "10.0.0.1:2", 990, DispatchStats(Rate(3.0, 300.0), 5, blocked=True, ack_rate=0.5))
    assert answer.message_ack_rate == 0.5


def test_a_consumer_that_passes_through_keeps_the_numbers_of_whoever_serves_it() -> None:
    answer = owners_answer()
    answer.msg_rate_out, answer.unacked_messages = 4.0, 6
    complete_stats(answer, "10.0.0.1:2", 990, None)
    assert (answer.available_permits, answer.address) == (990, "/10.0.0.1:2")
    assert (answer.msg_rate_out, answer.unacked_messages) == (4.0, 6)


def test_an_error_stays_an_error() -> None:
    refusal = CommandConsumerStatsResponse(request_id=1, error_code=ServerError.ConsumerNotFound, error_message="gone")
    answer = CommandConsumerStatsResponse()
    answer.CopyFrom(refusal)
    complete_stats(answer, "10.0.0.1:2", 990, DispatchStats(Rate(), 0, blocked=False))
    assert answer == refusal
