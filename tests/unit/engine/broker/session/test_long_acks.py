"""An ACK as long as a frame may be: it is applied completely, and others have their turns meanwhile."""

import asyncio
from types import SimpleNamespace

import pytest
from readonly_engine.broker.session.connection import ClientConnection
from readonly_engine.wire.commands import encode_command
from readonly_engine.wire.framing import FRAME_BYTES
from readonly_engine.wire.long_acks import PART_IDS
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck, CommandPing, MessageIdData

from tests.support.waiting import until

PING = BaseCommand(type=BaseCommand.PING, ping=CommandPing())
COUNT = 100 * PART_IDS


class Consumer:
    """Takes as long for each ACK as the loop's slices last."""

    def __init__(self):
        self.acked, self.turns, self.receipts = [], [], 0

    def ack_entries(self, _ack):
        return False

    def ack(self, command):
        self.acked += [one.entry_id for one in command.ack.message_id]
        self.receipts += command.ack.HasField("request_id")
        self.turns.append(len(command.ack.message_id))


@pytest.mark.parametrize("together", [True, False])
async def test_others_have_their_turns_between_the_parts(monkeypatch, together):
    monkeypatch.setattr("readonly_engine.net.frame_slicer.SLICE_S", 0.0)
    ack = CommandAck(consumer_id=1, ack_type=CommandAck.Individual, request_id=3)
    ack.message_id.extend(MessageIdData(ledger_id=1, entry_id=number, partition=0) for number in range(COUNT))
    frames = [encode_command(BaseCommand(type=BaseCommand.ACK, ack=ack)), encode_command(PING)]
    pongs, consumer, seen = [], Consumer(), []
    connection = ClientConnection(SimpleNamespace(draining=False))
    connection.connected = True
    connection._splitter.max_frame_bytes = FRAME_BYTES
    connection._consumers[1] = consumer
    monkeypatch.setattr(ClientConnection, "send", lambda *_: pongs.append(len(consumer.acked)))
    for data in [b"".join(frames)] if together else frames:
        connection.data_received(data)
    assert connection._reading_paused_by
    while connection._slices.pending:
        seen.append(len(consumer.acked))
        await asyncio.sleep(0)
    await until(lambda: bool(pongs))
    assert not connection._reading_paused_by
    assert consumer.acked == list(range(COUNT))
    assert consumer.receipts == 1
    assert pongs == [COUNT], "the next frame overtakes it"
    assert max(consumer.turns) == PART_IDS
    assert len(set(seen)) >= COUNT // PART_IDS - 1
