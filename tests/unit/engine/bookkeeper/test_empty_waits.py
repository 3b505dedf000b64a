"""Waits for bookies without data: as short as asked for few ledgers, and at a bounded rate for very many."""

import asyncio
from types import SimpleNamespace

from readonly_engine.bookkeeper import empty_waits
from readonly_engine.bookkeeper.empty_waits import ASKS_PER_S, EmptyWaits


async def test_very_many_ledgers_together_ask_at_a_bounded_rate(monkeypatch):
    slept, gate = [], asyncio.Event()

    async def sleep(seconds):
        slept.append(seconds)
        await gate.wait()

    monkeypatch.setattr(empty_waits, "asyncio", SimpleNamespace(sleep=sleep))
    waits = EmptyWaits()
    many = [asyncio.ensure_future(waits.wait(0.5)) for _ in range(20_000)]
    last = asyncio.ensure_future(waits.wait(0.5))
    await asyncio.sleep(0)
    many[0].cancel()
    gate.set()
    await asyncio.gather(*many, last, return_exceptions=True)
    assert slept[:499] == [0.5] * 499
    assert slept[-1] == 20_001 / ASKS_PER_S
    assert waits.waiting == 0
