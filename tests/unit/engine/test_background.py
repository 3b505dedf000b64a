"""Work that goes on although something nobody expected has happened."""

from __future__ import annotations

import asyncio
import logging

from readonly_engine import background


def test_a_loop_that_fails_begins_again_and_says_so(monkeypatch, caplog):
    monkeypatch.setattr(background, "RESTART_DELAY_S", 0)
    began = []

    async def work():
        began.append(len(began))
        if len(began) < 3:
            raise KeyError("surprise")

    async def run():
        async with asyncio.timeout(5):
            await background.run_forever(work, "the work")

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert began == [0, 1, 2]
    said = [record for record in caplog.records if "the work failed unexpectedly" in record.message]
    assert len(said) == 2
    assert all("surprise" in str(record.exc_info[1]) for record in said)


def test_who_holds_it_ends_it():
    async def run():
        begun = asyncio.Event()

        async def work():
            begun.set()
            await asyncio.Event().wait()

        task = background.run_forever(work, "the work")
        async with asyncio.timeout(5):
            await begun.wait()
            task.cancel()
            await asyncio.wait([task])
        return task

    assert asyncio.run(run()).cancelled()
