"""Asks the owner for partly acked batches through a consumer: the asyncio shell around PartialBatchQuery."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from readonly_engine.owner.partial_batches import SEARCH_MESSAGES, PartialBatchQuery
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandFlow

if TYPE_CHECKING:
    from readonly_engine.owner.cursor_consumer import CursorConsumer
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.pulsar_pb2 import CommandMessage

QUIET_S: Final = 0.5
"""Pause of the owner after which no more messages are expected: the others are delayed, acked, or of other consumers."""

FIRST_WAIT_S: Final = 1.0
"""Time for the first message: the owner may have to read it from bookies."""

DEADLINE_S: Final = 5.0
"""Longest duration of a search."""


async def ask_partial_batches(
    consumer: CursorConsumer,
    last: Position,
    search_messages: int = SEARCH_MESSAGES,
    first_wait_s: float = FIRST_WAIT_S,
) -> list[tuple[Position, int]]:
    """Return the partly acked batches that the owner knows, with the bits of their unacked messages.

    Args:
        consumer: a consumer of the subscription at the owner, without permits.
        last: last entry that consumers may read.
        search_messages: number of messages without bits after which a search ends.
        first_wait_s: time for the first message, in seconds.
    """
    query, arrived, wait_s = PartialBatchQuery(last, search_messages), asyncio.Event(), first_wait_s

    def on_message(message: CommandMessage, payload: bytes) -> None:
        query.on_message(message, payload)
        arrived.set()

    consumer.take_messages(on_message)
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not query.ended:
                arrived.clear()
                if permits := query.permits():
                    flow = CommandFlow(message_permits=permits)
                    consumer.send(BaseCommand(type=BaseCommand.FLOW, flow=flow))
                async with asyncio.timeout(wait_s):
                    await arrived.wait()
                wait_s = QUIET_S
    except TimeoutError:
        pass  # what was found so far is right
    finally:
        consumer.take_messages(None)
    return query.batches
