"""What is kept of objects and read ahead. The store is a few lines in memory: no real one answers when the test says so."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.tiered.errors import TieredStorageError
from readonly_engine.tiered.ranged import RangedObject
from readonly_engine.tiered.windows import READ_AHEAD_WINDOWS, WindowCache

DATA = bytes(range(256)) * 2


class InMemory:
    def __init__(self, data=DATA):
        self.data = data
        self.asked = []
        self.failing = False
        self.under_way = self.most_under_way = 0
        self.open = asyncio.Event()
        self.open.set()

    async def read(self, _key, start, end):
        self.asked.append((start, end))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await self.open.wait()
        self.under_way -= 1
        if self.failing:
            raise TieredStorageError("away")
        return self.data[start:end]


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_window_is_read_once_however_many_want_it_and_one_who_gives_up_ends_nothing():
    store, windows = InMemory(), WindowCache(100, 1000)
    store.open.clear()
    asking = [asyncio.create_task(windows.get(store, "k", 1)) for _ in range(3)]
    await settle()
    asking[0].cancel()
    store.open.set()
    assert await asyncio.gather(*asking[1:]) == [DATA[100:200]] * 2
    assert await windows.get(store, "k", 1) == DATA[100:200]
    assert store.asked == [(100, 200)]
    assert (windows.requests, windows.bytes_read) == (1, 100)


async def test_the_windows_used_longest_ago_make_room():
    store, windows = InMemory(), WindowCache(100, 250)
    for number in (0, 1, 0, 2):
        await windows.get(store, "k", number)
    assert len(windows) == 2
    await windows.get(store, "k", 0)
    assert len(store.asked) == 3, "it was used since, and kept"
    await windows.get(store, "k", 1)
    assert len(store.asked) == 4


async def test_a_window_that_could_not_be_read_is_read_again():
    store, windows = InMemory(), WindowCache(100, 1000)
    store.failing = True
    with pytest.raises(TieredStorageError, match="away"):
        await windows.get(store, "k", 0)
    await settle()
    assert len(windows) == 0
    store.failing = False
    assert await windows.get(store, "k", 0) == DATA[:100]


async def test_who_reads_in_order_is_read_ahead_for_and_who_jumps_is_not():
    store, windows = InMemory(), WindowCache(100, 1000)
    ranged = RangedObject(store, "k", windows)
    assert await ranged.window(50, 512) == (DATA[:100], 0)
    await settle()
    assert sorted(store.asked) == [(number * 100, number * 100 + 100) for number in range(READ_AHEAD_WINDOWS + 1)]
    store.asked.clear()
    other = RangedObject(store, "other", windows)
    assert await other.window(310, 350) == (DATA[300:350], 300)
    await settle()
    assert store.asked == [(300, 400)]
    store.asked.clear()
    assert await other.window(400, 450) == (DATA[400:450], 400)
    await settle()
    assert store.asked == [(400, 500)], "nothing behind the end is read ahead"


async def test_what_is_longer_than_some_windows_is_read_by_itself_and_not_kept():
    store, windows = InMemory(), WindowCache(100, 1000)
    assert await RangedObject(store, "k", windows).read(30, 480) == DATA[30:480]
    assert (store.asked, len(windows)) == ([(30, 480)], 0)


@given(st.integers(1, 200), st.integers(0, 600), st.integers(1, 300))
def test_any_range_is_what_the_object_has_there(size, start, length):
    async def run():
        ranged = RangedObject(InMemory(), "k", WindowCache(size, 1000))
        assert await ranged.read(start, start + length) == DATA[start : start + length]

    asyncio.run(run())
