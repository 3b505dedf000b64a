"""Speculative reads, with replicas as futures that the test completes."""

import asyncio

import pytest
from readonly_engine.bookkeeper.errors import BookieUnavailableError
from readonly_engine.bookkeeper.speculative_read import AllFailedError, speculative_read

from tests.support.waiting import until

NEVER_S = 60.0


class Stage:
    def __init__(self, timeout_s=NEVER_S):
        loop = asyncio.get_running_loop()
        self.asked = []
        self.slow = []
        self.answers = {bookie: loop.create_future() for bookie in "abc"}
        self.race = asyncio.create_task(speculative_read("abc", self.ask, lambda _: timeout_s, self.slow.append))

    async def ask(self, bookie):
        self.asked.append(bookie)
        return await self.answers[bookie]

    async def until_asked(self, bookies):
        await until(lambda: self.asked == list(bookies))


@pytest.mark.parametrize("winner", "abc")
async def test_one_that_is_slow_is_overtaken_or_not(winner):
    stage = Stage(timeout_s=0.01)
    await stage.until_asked("abc")
    assert stage.slow == ["a", "b"]
    stage.answers[winner].set_result(winner)
    assert await stage.race == winner
    await asyncio.sleep(0)
    assert all(answer.cancelled() for bookie, answer in stage.answers.items() if bookie != winner)


async def test_all_failures_are_told():
    stage = Stage()
    for bookie in "abc":
        stage.answers[bookie].set_exception(BookieUnavailableError(f"{bookie} is down"))
    with pytest.raises(AllFailedError, match="a: a is down; b: b is down; c: c is down") as caught:
        await stage.race
    assert [bookie for bookie, _ in caught.value.failures] == ["a", "b", "c"]
    with pytest.raises(AllFailedError):
        await speculative_read([], stage.ask, lambda _: NEVER_S, stage.slow.append)


async def test_a_mistake_of_ours_is_not_taken_for_a_failure_of_the_bookie():
    stage = Stage()
    stage.answers["a"].set_exception(KeyError("mistake"))
    with pytest.raises(KeyError):
        await stage.race
    assert stage.asked == ["a"]


async def test_whoever_gives_up_cancels_what_is_under_way():
    stage = Stage(timeout_s=0.01)
    await stage.until_asked("abc")
    stage.race.cancel()
    await asyncio.wait([stage.race])
    await asyncio.sleep(0)
    assert all(answer.cancelled() for answer in stage.answers.values())
