"""Limits of concurrent requests to one bookie."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.bookkeeper.request_budget import RequestBudget


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_requests_beyond_a_limit_wait_in_order():
    room = RequestBudget(max_requests=3, max_bytes=100)
    await room.admit(60)
    big, small = (asyncio.create_task(room.admit(size)) for size in (50, 10))
    await settle()
    assert not big.done()
    assert not small.done()  # it would fit, but the other one came first
    room.release(60)
    await settle()
    assert big.done()
    assert small.done()
    many = asyncio.create_task(room.admit(0, 2))
    await settle()
    assert not many.done()
    room.release(50)
    await settle()
    assert many.done()


@given(st.lists(st.tuples(st.sampled_from(["ask", "end", "cancel"]), st.integers(0, 150)), max_size=40))
def test_limits_hold_and_nothing_is_lost_by_cancelling(steps):
    async def scene():
        room = RequestBudget(max_requests=3, max_bytes=100)
        tasks = []
        for step, number in steps:
            if step == "ask":
                tasks.append((asyncio.create_task(room.admit(number)), number))
            elif tasks:
                task, size = tasks.pop(number % len(tasks))
                if step == "cancel" and not task.done():
                    task.cancel()  # in any state, also just after its admission and before it runs
                elif task.done():
                    room.release(size)
                else:
                    tasks.append((task, size))
            if number % 2:
                await settle()
            assert room.requests <= 3
            assert room.bytes <= 100 or room.requests == 1
        await settle()
        while tasks:
            ended = [entry for entry in tasks if entry[0].done()]
            assert ended, "some wait although nothing is under way"
            for entry in ended:
                tasks.remove(entry)
                room.release(entry[1])
            await settle()
        assert (room.requests, room.bytes) == (0, 0)

    asyncio.run(scene())
