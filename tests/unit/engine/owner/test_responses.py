"""One answer to a request in several parts."""

from readonly_engine.owner.responses import ResponseAggregator
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAckResponse, ServerError

DONE = BaseCommand(type=BaseCommand.ACK_RESPONSE, ack_response=CommandAckResponse(consumer_id=1))
REFUSED = BaseCommand(
    type=BaseCommand.ACK_RESPONSE, ack_response=CommandAckResponse(consumer_id=1, error=ServerError.NotAllowedError)
)


def told(*responses):
    got = []
    answers = ResponseAggregator(3, got.append)
    for response in responses:
        answers.on_response(response)
    return got


def test_the_answer_is_the_last_one_or_the_refusal():
    assert told(DONE, DONE) == []
    assert told(DONE, DONE, DONE) == [DONE]
    assert told(DONE, REFUSED, DONE) == [REFUSED]


def test_a_part_without_an_answer_completes_once_with_none():
    assert told(DONE, None) == [None]
    assert told(None, DONE, None) == [None]
