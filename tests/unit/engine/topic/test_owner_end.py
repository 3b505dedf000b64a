"""How far an owner counts the entries of its topic."""

import asyncio
from contextlib import closing

from readonly_engine.topic import owner_end
from readonly_engine.topic.owner_end import OwnerEnd
from readonly_engine.topic.position import Position

from tests.support.ledgers import chain_of


def play(scene, answers, last=9):
    """Run a scene with an owner that gives these answers, then the last one again and again."""
    asked = []

    async def ask():
        asked.append(answers[min(len(asked), len(answers) - 1)])
        if asked[-1] == "silent":
            await asyncio.Event().wait()
        return asked[-1]

    async def run():
        with closing(OwnerEnd(chain_of(1, lac=last), ask)) as end:
            await asyncio.wait_for(scene(end), 10)

    asyncio.run(run())
    return asked


async def until(called, count):
    while len(called) < count:
        await asyncio.sleep(0)


def test_entries_are_counted_up_to_what_the_owner_has_reported():
    async def scene(end):
        assert not end.counts(Position(1, 0))
        end.confirm(Position(1, 4))
        end.confirm(Position(1, 2))
        assert end.counts(Position(1, 4))
        assert not end.counts(Position(1, 5))
        assert end.counts(Position(1, 10)), "nobody can have got it"
        assert end.counts(Position(2, 0))

    assert play(scene, [None]) == [], "the owner is not asked in vain"


def test_calls_wait_for_their_entries_and_share_the_requests():
    called = []

    async def scene(end):
        for entry in (7, 5, 6):
            end.call_when_counted(Position(1, entry), lambda entry=entry: called.append(entry))
        await until(called, 3)

    asked = play(scene, [None, Position(1, 4), Position(1, 6), Position(1, 7)])
    assert called == [5, 6, 7]
    assert len(asked) == 4


def test_an_owner_that_does_not_answer_ends_the_wait_in_time(monkeypatch):
    monkeypatch.setattr(owner_end, "ASK_TIMEOUT_S", 0.01)
    monkeypatch.setattr(owner_end, "LONGEST_WAIT_S", 0.05)
    called = []

    async def scene(end):
        end.call_when_counted(Position(1, 7), lambda: called.append(7))
        await until(called, 1)

    for answer in ("silent", None, Position(1, 3)):
        called.clear()
        play(scene, [answer])
        assert called == [7]


def test_the_number_of_waiting_calls_is_bounded(monkeypatch):
    monkeypatch.setattr(owner_end, "MAX_WAITING", 2)
    called = []

    async def scene(end):
        for entry in (5, 6, 7):
            end.call_when_counted(Position(1, entry), lambda entry=entry: called.append(entry))
        assert called == [7], "it is not held"

    play(scene, [None])


def test_a_topic_that_is_closed_makes_all_waiting_calls():
    called = []

    async def scene(end):
        end.call_when_counted(Position(1, 7), lambda: called.append(7))
        end.close()
        assert called == [7]

    play(scene, [None])
