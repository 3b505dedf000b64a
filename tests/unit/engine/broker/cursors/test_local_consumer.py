"""Requests of a consumer whose cursor is kept here."""

import asyncio
from types import SimpleNamespace

import pytest
from readonly_engine.broker.cursors.local_consumer import LocalCursorConsumer
from readonly_engine.broker.cursors.topic_cursors import TopicCursors
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.identity import ANONYMOUS
from readonly_engine.topic.position import Position
from readonly_engine.wire.bit_set import MAX_ACK_SET_WORDS
from readonly_engine.wire.cursor_records import MAX_SEGMENT_BYTES
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandSeek, CommandSubscribe, MessageIdData

TOPIC = parse_topic_name("orders")
MARK_DELETE = Position(3, 6)


@pytest.mark.parametrize(
    ("words", "kept"), [(1, 1), (MAX_ACK_SET_WORDS, MAX_ACK_SET_WORDS), (MAX_ACK_SET_WORDS + 1, MAX_ACK_SET_WORDS)]
)
@pytest.mark.parametrize("number", [-(2**63), -1, 7, 2**63 - 1])
def test_the_ack_set_of_a_seek_is_bounded_and_can_be_stored(number: int, words: int, kept: int) -> None:
    """A legal frame has room for 2.6 million words. A SEEK whose cursor cannot be stored would close the whole partition."""
    moves: list[tuple[Position, list[tuple[Position, int]]]] = []

    async def begin_at(_consumer: object, _position: Position) -> Position:
        return MARK_DELETE

    async def move(_by: object, _found: object, mark_delete: Position, batches: list[tuple[Position, int]]) -> None:
        moves.append((mark_delete, batches))

    partition = SimpleNamespace(next_number=lambda: 1, admin=None, access=SimpleNamespace(begin_at=begin_at), move=move)
    consumer = LocalCursorConsumer(partition, TOPIC, ANONYMOUS, CommandSubscribe(subscription="s"), None)
    consumer.local = SimpleNamespace()
    position = MessageIdData(ledger_id=number, entry_id=number, ack_set=[-1] * words)
    command = BaseCommand(type=BaseCommand.SEEK, seek=CommandSeek(consumer_id=1, request_id=1, message_id=position))
    assert asyncio.run(consumer.request(command)).type == BaseCommand.SUCCESS
    ((mark_delete, batches),) = moves
    assert mark_delete == MARK_DELETE
    assert [unacked.bit_length() for _, unacked in batches] == [64 * kept]

    cursors = TopicCursors(str(TOPIC))
    cursor = cursors.create("s", Position(3, 9), 0, ())
    cursors.reset(cursor, mark_delete, batches)
    records = list(cursors.take_changes())
    assert all(len(record[1] or b"") <= MAX_SEGMENT_BYTES for record in records)
