"""MESSAGEs to a consumer that takes entries: together, as far as they arrive together and have a position only."""

import asyncio
import gc
from contextlib import asynccontextmanager, suppress

import pytest
from readonly_engine.owner.connection import OwnerConnection
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.identity import ANONYMOUS
from readonly_engine.wire.commands import encode_command, encode_message_frame
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandCloseConsumer, CommandConnected

from tests.support.waiting import until

CONNECTED = BaseCommand(type=BaseCommand.CONNECTED, connected=CommandConnected(server_version="4.0.8"))


class Handler:
    """A consumer; `whole` has the entries by call, `commands` has everything else."""

    def __init__(self):
        self.whole, self.commands, self.lost = [], [], 0

    def on_entries(self, entries):
        self.whole.append([entry.entry_id for entry in entries])

    def on_command(self, command, payload):
        number = command.message.message_id.entry_id if command.type == BaseCommand.MESSAGE else None
        self.commands.append((number, payload))

    def on_connection_lost(self):
        self.lost += 1


class Transport:
    def write(self, data):
        pass

    def is_closing(self):
        return True


def frame(consumer_id, entry_id, redelivery_count=0):
    return encode_message_frame(consumer_id, 3, entry_id, -1, b"e%d" % entry_id, redelivery_count)


@pytest.fixture
@asynccontextmanager
async def pushed():
    """A connection, the ids of its consumers, and their handlers; two of them take entries."""
    connection = OwnerConnection("pulsar://owner", ANONYMOUS)
    connection.connection_made(Transport())
    connection.data_received(encode_command(CONNECTED))
    first, second, other = Handler(), Handler(), Handler()
    ids = [connection.add_consumer(handler) for handler in (first, second, other)]
    connection.call_with_entries(ids[0], first.on_entries)
    connection.call_with_entries(ids[1], second.on_entries)
    try:
        yield connection, ids, first, second, other
    finally:
        connection.connection_lost(None)


async def test_entries_come_together_by_consumer_and_in_order(pushed):
    connection, ids, first, second, other = pushed
    connection.data_received(b"".join([frame(ids[0], 1), frame(ids[0], 2), frame(ids[1], 1), frame(ids[0], 3)]))
    assert (first.whole, second.whole) == ([[1, 2], [3]], [[1]])
    assert not first.commands + other.commands


async def test_only_messages_of_other_consumers_go_the_usual_way(pushed):
    connection, ids, first, _, other = pushed
    connection.data_received(frame(ids[0], 1) + frame(ids[2], 1) + frame(ids[2], 2) + frame(ids[0], 2))
    assert first.whole == [[1], [2]]
    assert (other.commands, first.commands) == ([(1, b"e1"), (2, b"e2")], [])


async def test_nothing_behind_a_broken_frame_is_delivered(pushed):
    connection, ids, first, *_ = pushed
    broken = (8).to_bytes(4, "big") + (99).to_bytes(4, "big") + bytes(4)
    connection.data_received(frame(ids[0], 1) + broken + frame(ids[0], 2) + frame(ids[2], 1))
    assert (first.whole, first.commands, connection.closed) == ([[1]], [], True)


async def test_nothing_is_delivered_after_a_handler_has_closed_the_connection(pushed):
    connection, ids, first, _, other = pushed
    other.on_command = lambda *_: connection.close()
    connection.data_received(frame(ids[2], 1) + frame(ids[0], 1) + frame(ids[0], 2, 1) + frame(ids[0], 3))
    assert (first.whole, first.commands) == ([], [])


async def test_a_redelivered_message_is_a_command(pushed):
    connection, ids, first, *_ = pushed
    connection.data_received(frame(ids[0], 1, 2) + frame(ids[0], 2))
    assert (first.whole, first.commands) == ([[2]], [(1, b"e1")])


async def test_every_cut_of_the_stream_brings_each_message_once_and_in_order(pushed):
    connection, *_ = pushed
    for cut in range(3 * len(frame(1, 0))):
        seen = []
        handler = Handler()
        handler.on_command = lambda command, _, seen=seen: seen.append(command.message.message_id.entry_id)
        consumer_id = connection.add_consumer(handler)
        connection.call_with_entries(consumer_id, lambda new, seen=seen: seen.extend(one.entry_id for one in new))
        stream = b"".join(frame(consumer_id, number) for number in range(3))
        connection.data_received(stream[:cut])
        connection.data_received(stream[cut:])
        assert seen == [0, 1, 2], cut
        connection.remove_consumer(consumer_id)


async def test_a_consumer_that_has_been_removed_gets_nothing(pushed):
    connection, ids, first, second, _ = pushed
    connection.remove_consumer(ids[0])
    connection.data_received(frame(ids[0], 1) + frame(ids[1], 1))
    assert not first.whole + first.commands
    close = BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=CommandCloseConsumer(consumer_id=ids[1]))
    connection.data_received(frame(ids[1], 2) + encode_command(close))
    assert (second.whole, second.commands) == ([[1], [2]], [(None, b"")])


async def test_the_payload_is_the_entry(pushed):
    connection, ids, *_ = pushed
    found = []
    connection.call_with_entries(ids[0], found.extend)
    connection.data_received(frame(ids[0], 9))
    assert found == [Entry(3, 9, 9, 0, b"e9")]


@pytest.mark.parametrize("end", ["the owner's", "this broker's", "refused"])
async def test_a_connection_that_has_ended_is_no_garbage(end):
    """The collector runs so rarely that each would stay."""

    def alive():
        return sum(type(one) is OwnerConnection for one in gc.get_objects())

    def accept(_, writer):
        writers.append(writer)
        writer.write(encode_command(CONNECTED))

    async def play():
        connection = await OwnerConnection.open("pulsar://owner", *where, ANONYMOUS)
        if end == "this broker's":
            connection.close()
        else:
            writers[0].close()
        await until(lambda: connection.closed and connection._transport.is_closing())

    writers = []
    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    where = server.sockets[0].getsockname()
    if end == "refused":
        server.close()
    gc.collect()
    gc.disable()
    try:
        before = alive()
        with suppress(OwnerUnavailableError):
            await play()
        await until(lambda: alive() == before)
    finally:
        gc.enable()
        for writer in writers:
            writer.close()
        server.close()
