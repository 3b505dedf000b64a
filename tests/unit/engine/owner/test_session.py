"""OwnerSession as a conversation. The owner's frames are a real broker's, under our request ids."""

import time

import pytest
from readonly_engine.owner.session import OwnerSession
from readonly_engine.wire.commands import body_of, decode_command, encode_command
from readonly_engine.wire.errors import FrameTooLargeError
from readonly_engine.wire.framing import HANDSHAKE_FRAME_BYTES, frame_limit
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandCloseConsumer,
    CommandConnected,
    CommandGetLastMessageId,
    CommandGetTopicsOfNamespaceResponse,
    CommandProducerSuccess,
)


@pytest.fixture
def answer_to(golden):
    """A real broker's answer, to one of our requests."""

    def make(name, request_id):
        frame = golden(name)
        command, end = decode_command(frame[4:])
        body_of(command).request_id = request_id
        return encode_command(command, frame[4 + end :])

    return make


def test_pongs_are_counted_and_not_received_commands(golden):
    session = OwnerSession()
    assert decode_command(session.ping()[4:])[0].type == BaseCommand.PING
    assert session.receive_data(golden("client_pong") * 2) == []  # a PONG is the same from either side
    assert session.pongs == 2
    assert session.data_to_send() == b""


def test_every_ping_is_answered_between_other_commands(golden):
    session = OwnerSession()
    received = session.receive_data(golden("broker_ping") + golden("broker_message") + golden("broker_ping"))
    assert len(received) == 1
    assert session.data_to_send() == golden("client_pong") * 2


def test_a_producer_that_waits_for_exclusive_access_gets_two_answers(answer_to):
    session = OwnerSession()
    producer = BaseCommand(type=BaseCommand.PRODUCER)
    request_id, _ = session.request(producer)
    wait = CommandProducerSuccess(request_id=request_id, producer_ready=False)
    queued = encode_command(BaseCommand(type=BaseCommand.PRODUCER_SUCCESS, producer_success=wait))
    ready = answer_to("broker_producer_success", request_id)
    received = session.receive_data(queued + ready + ready)
    assert [r.request_id for r in received] == [request_id, request_id, None]
    assert [r.command.producer_success.producer_ready for r in received] == [False, True, True]


def of_consumer(consumer_id):
    ask = CommandGetLastMessageId(consumer_id=consumer_id)
    return BaseCommand(type=BaseCommand.GET_LAST_MESSAGE_ID, get_last_message_id=ask)


def closed(consumer_id):
    close = CommandCloseConsumer(consumer_id=consumer_id, request_id=-1)
    return encode_command(BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=close))


def test_a_request_of_a_consumer_ends_when_the_owner_closes_it(answer_to):
    session = OwnerSession()
    asked, of_another = (session.request(of_consumer(consumer_id))[0] for consumer_id in (4, 5))
    session.receive_data(closed(4))
    assert session.take_cancelled() == [asked]
    assert session.take_cancelled() == []
    late = answer_to("broker_get_last_message_id_response", asked)
    right = answer_to("broker_get_last_message_id_response", of_another)
    assert [r.request_id for r in session.receive_data(late + right)] == [None, of_another]
    session.receive_data(closed(5))
    assert session.take_cancelled() == [], "it was answered"


def connected(max_message_size):
    command = CommandConnected(server_version="4.0.8", max_message_size=max_message_size)
    return encode_command(BaseCommand(type=BaseCommand.CONNECTED, connected=command))


def test_connected_sets_the_frame_limit():
    session = OwnerSession()
    assert session.max_frame_bytes == HANDSHAKE_FRAME_BYTES
    with pytest.raises(FrameTooLargeError):
        OwnerSession().receive_data((HANDSHAKE_FRAME_BYTES + 1).to_bytes(4, "big"))
    session.receive_data(connected(1000))
    assert session.max_frame_bytes == frame_limit(1000)


def test_an_answer_above_the_limit_fails_its_request_alone():
    session = OwnerSession()
    session.receive_data(connected(1000))
    ask = BaseCommand(type=BaseCommand.GET_TOPICS_OF_NAMESPACE)
    ask.get_topics_of_namespace.namespace = "public/default"
    first, _ = session.request(ask)
    second, _ = session.request(ask)
    answers = []
    for request_id, topics in ((first, ["t" * 100] * 1000), (second, ["t"])):
        response = CommandGetTopicsOfNamespaceResponse(request_id=request_id, topics=topics)
        kind = BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE
        answers.append(encode_command(BaseCommand(type=kind, get_topics_of_namespace_response=response)))
    data = b"".join(answers)
    received = [one for at in range(0, len(data), 999) for one in session.receive_data(data[at : at + 999])]
    assert [one.request_id for one in received] == [first, second]
    assert "longer than 11240 bytes" in received[0].command.error.message
    assert received[1].command.get_topics_of_namespace_response.topics == ["t"]


def test_a_frame_above_the_limit_that_answers_no_request_raises():
    session = OwnerSession()
    session.receive_data(connected(1000))
    message = BaseCommand(type=BaseCommand.MESSAGE)
    message.message.consumer_id = 1
    message.message.message_id.ledger_id = message.message.message_id.entry_id = 1
    with pytest.raises(FrameTooLargeError, match="answers no request"):
        session.receive_data(encode_command(message, bytes(20_000)))


def test_the_cost_of_a_close_does_not_grow_with_other_requests():
    """Each close that looked at all requests would take minutes."""
    session = OwnerSession()
    crowd = 20_000
    for consumer_id in range(crowd):
        session.request(of_consumer(consumer_id))
    began = time.process_time()
    session.receive_data(b"".join(map(closed, range(crowd))))
    assert len(session.take_cancelled()) == crowd
    assert time.process_time() - began < 10
