"""Limit of the unanswered SUBSCRIBEs of one owner: it grows with fast answers."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.owner.subscribe_throttle import (
    FAST_ANSWER_S,
    LIMITS,
    SLOW_ANSWER_S,
    SubscribeThrottle,
    ThrottleWindow,
)


def filled(limit):
    window = ThrottleWindow()
    window.limit = limit
    while window.acquire():
        pass
    return window


def test_a_full_window_opens_when_half_is_answered():
    window = filled(1000)
    assert window.unanswered == 1000
    for _ in range(499):
        assert not window.release(FAST_ANSWER_S)
        assert not window.acquire()
    assert window.release(FAST_ANSWER_S)
    for _ in range(500):
        assert window.acquire()
    assert not window.acquire()


def test_fast_answers_raise_the_limit_and_slow_ones_lower_it():
    window = ThrottleWindow()
    for _ in range(10_000):
        window.acquire()
        window.release(FAST_ANSWER_S / 2)
    assert window.limit == LIMITS[1]
    window.acquire()
    window.release((FAST_ANSWER_S + SLOW_ANSWER_S) / 2)
    assert window.limit == LIMITS[1]
    for _ in range(10_000):
        window.acquire()
        window.release(SLOW_ANSWER_S + 1)
    assert window.limit == LIMITS[0]


@given(st.lists(st.sampled_from(["enter", "soon", "late"]), max_size=300))
def test_an_empty_window_is_open(steps):
    window, inside = ThrottleWindow(), 0
    window.limit = 7
    for step in steps:
        if step == "enter":
            inside += window.acquire()
        elif inside:
            window.release(0.0 if step == "soon" else SLOW_ANSWER_S + 1)
            inside -= 1
        assert window.unanswered == inside <= LIMITS[1]
    while inside:
        window.release(0.0)
        inside -= 1
    assert window.acquire()


async def test_a_caller_cancelled_as_it_gets_a_slot_releases_it(monkeypatch):
    monkeypatch.setattr("readonly_engine.owner.subscribe_throttle.LIMITS", (1, 1))
    waves = SubscribeThrottle()

    async def go():
        async with waves.slot():
            await asyncio.sleep(0)

    async with waves.slot():
        waiting = [asyncio.create_task(go()) for _ in range(3)]
        await asyncio.sleep(0)
    waiting[0].cancel()  # it has its turn, and does not know yet
    async with asyncio.timeout(5):
        ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(ended[0], asyncio.CancelledError)
    assert ended[1:] == [None, None]
    with pytest.raises(ValueError, match="released"):
        async with waves.slot():
            raise ValueError("released all the same")
    async with waves.slot():
        pass
