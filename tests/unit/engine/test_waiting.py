import asyncio
import gc

import pytest
from readonly_engine.waiting import await_shared, wait_until_done

CROWD = 20_000


async def turns():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_all_get_the_result_or_the_error():
    for settle in (lambda one: one.set_result(1), lambda one: one.set_exception(OSError("no"))):
        awaited = asyncio.get_running_loop().create_future()
        tasks = [asyncio.create_task(await_shared(awaited)) for _ in range(3)] + [
            asyncio.create_task(wait_until_done(awaited))
        ]
        await turns()
        settle(awaited)
        *results, end = await asyncio.gather(*tasks, return_exceptions=True)
        assert end is None
        assert [str(one) for one in results] == (["no"] * 3 if awaited.exception() else ["1"] * 3)
        assert await asyncio.gather(await_shared(awaited), return_exceptions=True) == results[:1], "it is done already"


async def test_who_gives_up_does_not_end_it_for_others():
    awaited = asyncio.get_running_loop().create_future()
    gone, stays = [asyncio.create_task(await_shared(awaited)) for _ in range(2)]
    await turns()
    gone.cancel()
    await turns()
    awaited.set_result(1)
    assert await stays == 1


async def test_what_is_cancelled_is_cancelled_for_all():
    awaited = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(await_shared(awaited))
    await turns()
    awaited.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_after_all_have_given_up_is_not_logged(caplog):
    async def fail():
        await gate.wait()
        raise OSError("no")

    gate = asyncio.Event()
    awaited = asyncio.create_task(fail())
    waiter = asyncio.create_task(await_shared(awaited))
    await turns()
    waiter.cancel()
    await turns()
    gate.set()
    await turns()
    del awaited, waiter
    gc.collect()
    assert "never retrieved" not in caplog.text
