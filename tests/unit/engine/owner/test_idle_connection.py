"""Conditions under which a connection to an owner is idle, and may be closed."""

from __future__ import annotations

import asyncio

import pytest
from readonly_engine.owner.connection import OwnerConnection
from readonly_engine.owner.identity import Identity
from readonly_engine.wire.commands import encode_command
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck, CommandCloseConsumer


class Silent(asyncio.Transport):
    def write(self, data):
        pass


class FakeHandler:
    """A consumer that its owner closes."""

    def __init__(self, connection):
        self.connection = connection
        self.closed = []

    def on_command(self, command, payload):
        self.closed.append(command.close_consumer.consumer_id)
        self.connection.remove_consumer(command.close_consumer.consumer_id)

    def on_connection_lost(self):
        self.closed.append(None)


@pytest.mark.parametrize("by_owner", [True, False], ids=["unloaded", "closed here"])
def test_unanswered_acks_of_a_closed_consumer_leave_the_connection_idle(golden, by_owner):
    async def run():
        connection = OwnerConnection("pulsar://owner:6650", Identity())
        connection.connection_made(Silent())
        connection.data_received(golden("broker_connected"))
        answers = []
        handler, other = FakeHandler(connection), FakeHandler(connection)
        consumer_id, stays = connection.add_consumer(handler), connection.add_consumer(other)
        for of_consumer in (consumer_id, stays):
            ack = CommandAck(consumer_id=of_consumer, ack_type=CommandAck.Individual)
            ack.message_id.add(ledger_id=1, entry_id=2)
            connection.send_request(
                BaseCommand(type=BaseCommand.ACK, ack=ack), lambda answer, of=of_consumer: answers.append(of)
            )
            connection.ack(of_consumer, b"\x1a\x04\x08\x01\x10\x02", lambda answer, of=of_consumer: answers.append(of))
        if by_owner:
            close = CommandCloseConsumer(consumer_id=consumer_id, request_id=-1)
            connection.data_received(encode_command(BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=close)))
            assert handler.closed == [consumer_id]
        else:
            connection.remove_consumer(consumer_id)
        assert answers == [consumer_id, consumer_id], "to be sent again"
        assert not connection.idle, "the other one's are under way"
        connection.remove_consumer(stays)
        assert connection.idle
        connection.connection_lost(None)
        assert answers == [consumer_id, consumer_id, stays, stays]

    asyncio.run(run())
