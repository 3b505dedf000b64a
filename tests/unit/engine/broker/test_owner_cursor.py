"""How the copy of a cursor follows the owner's."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from readonly_engine.broker import owner_cursor
from readonly_engine.broker.cursor import CursorCopy
from readonly_engine.broker.owner_cursor import OwnerCursor
from readonly_engine.relay.consumer import OwnerState
from readonly_engine.relay.errors import OwnerUnavailableError
from readonly_engine.topic.position import EARLIEST


class Relayed:
    """A consumer at an owner that does not say to it what its last message is."""

    async def state(self):
        await asyncio.Event().wait()


def test_a_consumer_takes_over_where_the_owner_answers_in_another_way_only(topic, monkeypatch):
    monkeypatch.setattr(owner_cursor, "BACKOFF_S", (0.0, 0.0))
    positions = [topic.write(4) for _ in range(6)]
    cursor = CursorCopy(topic.chain, EARLIEST)
    answers = [OwnerUnavailableError("not now"), OwnerState(positions[1], positions[5])]
    relayed, asked, told = Relayed(), [], []

    async def state(through):
        asked.append(through)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def acked():
        return [(EARLIEST, positions[2]), (positions[3], positions[4])]

    async def batches():
        return [(positions[2], 0b11), (positions[3], 0b11)]

    async def run():
        view = SimpleNamespace(chain=topic.chain)
        owner = OwnerCursor(
            "s", view, cursor, SimpleNamespace(state=state, acked=acked, batches=batches), told.append, lambda _: None
        )
        async with asyncio.timeout(10):
            return await owner.take_over(relayed)

    assert asyncio.run(run()).mark_delete == positions[1]
    assert asked == [relayed, relayed]
    assert told == [positions[5]]
    assert cursor.mark_delete == positions[2]
    assert cursor.batches == [(positions[3], 0b11)]
    assert [position for position in positions if not cursor.is_acked(position)] == [positions[3], positions[5]]
