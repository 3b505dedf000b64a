"""Commands above the owner's frame limit are not sent: its connection is shared."""

import asyncio
import logging
from contextlib import asynccontextmanager, closing

import pytest
from readonly_engine.owner.connection import OwnerConnection
from readonly_engine.owner.identity import ANONYMOUS
from readonly_engine.wire.commands import decode_command, encode_command
from readonly_engine.wire.framing import FrameSplitter, frame_limit
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandAckResponse,
    CommandConnected,
    CommandError,
    CommandLookupTopic,
    CommandSend,
    CommandSubscribe,
    ServerError,
)

MESSAGE_SIZE = 1000
LIMIT = frame_limit(MESSAGE_SIZE)


class Owner:
    """The transport to an owner with a low frame limit; it answers acks on demand."""

    def __init__(self):
        self.connection = OwnerConnection("pulsar://owner", ANONYMOUS)
        self.taken = []
        self._splitter = FrameSplitter(LIMIT)
        self.connection.connection_made(self)
        connected = CommandConnected(server_version="4.0.8", max_message_size=MESSAGE_SIZE)
        self.says(BaseCommand(type=BaseCommand.CONNECTED, connected=connected))
        self.taken.clear()

    def says(self, command):
        self.connection.data_received(encode_command(command))

    def write(self, data):
        self.taken += [decode_command(frame)[0] for frame in self._splitter.receive_data(data)]

    def get_extra_info(self, name):
        return {"sockname": ("127.0.0.1", 40_000)}[name]

    def answers(self, command):
        response = CommandAckResponse(consumer_id=command.ack.consumer_id, request_id=command.ack.request_id)
        self.says(BaseCommand(type=BaseCommand.ACK_RESPONSE, ack_response=response))

    def close(self):
        self.connection.connection_lost(None)


@pytest.fixture
@asynccontextmanager
async def owner():
    with closing(Owner()) as made:
        yield made


async def test_acks_above_the_limit_go_in_parts_with_one_answer(owner):
    entries = [(5, number) for number in range(20_000)]
    ack = CommandAck()
    for ledger_id, entry_id in entries:
        ack.message_id.add(ledger_id=ledger_id, entry_id=entry_id)
    told = []
    owner.connection.ack(3, ack.SerializeToString(), told.append)
    assert len(owner.taken) > 5
    assert [(one.ledger_id, one.entry_id) for part in owner.taken for one in part.ack.message_id] == entries
    for part in owner.taken:
        assert told == []
        owner.answers(part)
    assert [response.type for response in told] == [BaseCommand.ACK_RESPONSE]
    assert owner.connection.idle


async def test_a_part_without_an_answer_leaves_all_acks_unanswered(owner):
    ack = CommandAck()
    for number in range(3000):
        ack.message_id.add(ledger_id=5, entry_id=number)
    told = []
    owner.connection.ack(3, ack.SerializeToString(), told.append)
    owner.answers(owner.taken[0])
    owner.close()
    assert told == [None]


async def test_a_request_at_the_limit_is_sent_and_one_byte_more_is_refused(owner):
    def subscribe(size):
        command = CommandSubscribe(topic="t", subscription="", sub_type=0, consumer_id=1, request_id=1)
        command.subscription = "s" * (size - len(encode_command(BaseCommand(type=4, subscribe=command))) + 4)
        while len(encode_command(BaseCommand(type=4, subscribe=command))) - 4 > size:
            command.subscription = command.subscription[:-1]
        return BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=command)

    fits = asyncio.ensure_future(owner.connection.request(subscribe(LIMIT)))
    await asyncio.sleep(0)
    assert len(owner.taken) == 1
    answer = await owner.connection.request(subscribe(LIMIT + 1))
    assert (answer.type, answer.error.error) == (BaseCommand.ERROR, ServerError.NotAllowedError)
    assert f"{LIMIT + 1} bytes; the owner takes {LIMIT} at most" in answer.error.message
    assert len(owner.taken) == 1
    fits.cancel()


async def test_a_message_at_the_limit_is_sent_and_one_byte_more_is_refused(owner):
    command = BaseCommand(type=BaseCommand.SEND, send=CommandSend(producer_id=1, sequence_id=1))
    room = LIMIT - (len(encode_command(command)) - 4)
    assert owner.connection.send(command, bytes(room)) == ""
    assert len(owner.taken) == 1
    assert "the owner takes" in owner.connection.send(command, bytes(room + 1))
    assert len(owner.taken) == 1


async def test_the_log_names_a_failed_request_as_the_owners_log_does(owner, caplog):
    caplog.set_level(logging.DEBUG, "readonly_engine.owner.requests")
    lookup = BaseCommand(type=BaseCommand.LOOKUP, lookup_topic=CommandLookupTopic(topic="t", request_id=1))
    answer = asyncio.ensure_future(owner.connection.request(lookup))
    await asyncio.sleep(0)
    number = owner.taken[0].lookup_topic.request_id
    refusal = CommandError(request_id=number, error=ServerError.AuthorizationError, message="no")
    owner.says(BaseCommand(type=BaseCommand.ERROR, error=refusal))
    await answer
    assert f"('127.0.0.1', 40000) command=LOOKUP request_id={number} error=AuthorizationError: no" in caplog.text
