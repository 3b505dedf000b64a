"""Acks before a move of keys, which the owner may have answered and ignored."""

import asyncio

from readonly_engine.broker.split import acks_in_force
from readonly_engine.broker.split.acks_in_force import put_in_force, receipt_in_force
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.topic.position import Position

from tests.support.waiting import until


async def test_a_receipt_waits_until_ignored_acks_are_sent_again(monkeypatch):
    monkeypatch.setattr(acks_in_force, "BACKOFF_S", (0.0, 0.0))
    ignored = {Position(3, 8), Position(3, 9)}
    answered, asked, sent, may_send = [], [], [], asyncio.Event()

    async def ask():
        asked.append(len(ignored))
        if len(asked) == 1:
            raise OwnerUnavailableError("it moves")
        return sorted(ignored)

    async def send(entries):
        sent.append(entries)
        await may_send.wait()
        ignored.clear()

    receipt = receipt_in_force(
        lambda: bool(answered), lambda: put_in_force("topic=t subscription=s", ask, send), asyncio.create_task
    )
    assert not receipt()
    await asyncio.sleep(0)
    assert asked == [], "the owner has not answered yet"
    answered.append(True)
    assert not receipt()
    await until(lambda: sent)
    assert not receipt()
    may_send.set()
    await until(receipt)
    assert sent == [[Position(3, 8), Position(3, 9)]]
    assert asked == [2, 2, 0]
