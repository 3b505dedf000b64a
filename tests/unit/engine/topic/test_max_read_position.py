"""The owner's max read position: entries are allowed only after the owner's reply, and all of them once it would allow them."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.topic.max_read_position import EXACT_S, MaxReadPosition, MaxReadPositionSchedule
from readonly_engine.topic.position import EARLIEST, Position

DEADLINE_S = 10


def at(entry_id):
    return Position(1, entry_id)


def test_nothing_is_asked_while_nobody_waits():
    asking = MaxReadPositionSchedule()
    assert asking.next_timer() is None
    asking.answered(at(5), 0)
    asking.request(at(5), at(9), 1)
    assert asking.next_timer() is None
    assert asking.limit == at(5)


def test_an_answer_that_does_not_cover_what_is_waited_for_leads_to_the_exact_question_and_to_longer_and_longer_waits():
    asking, now = MaxReadPositionSchedule(), 100.0
    asking.request(at(3), at(3), now)
    asking.on_timer(now)
    asking.answered(at(1), now)
    waits = []
    for _ in range(12):
        due = asking.next_timer()
        waits.append(due - now)
        now = due
        assert asking.on_timer(now)
        asking.answered(at(1), now, exact=True)
    assert waits[0] == pytest.approx(EXACT_S[0])
    assert waits == sorted(waits)
    assert waits[-1] == pytest.approx(EXACT_S[1])
    assert asking.held


@given(st.lists(st.tuples(st.sampled_from(["write", "hold", "release", "wait"]), st.floats(0, 0.2)), max_size=40))
def test_every_entry_is_let_through_as_soon_as_the_owner_lets_it_and_never_before(steps):
    """The owner holds entries back from some point on, or nothing; its last message is never beyond its exact limit."""
    asking, now, tail, held_from = MaxReadPositionSchedule(), 100.0, 0, None

    def limit():
        return tail if held_from is None else held_from - 1

    def ask_until(end):
        nonlocal now
        while (due := asking.next_timer()) is not None and due <= end:
            now = max(now, due)
            exact = asking.on_timer(now)
            asking.answered(at(limit()), now, exact=exact)
            assert asking.limit <= at(limit())
        now = end

    for step, seconds in steps:
        if step == "write":
            tail += 1
        elif step == "hold" and held_from is None:
            tail += 1
            held_from = tail
        elif step == "release":
            held_from = None
        asking.request(at(tail), at(tail), now)
        assert asking.limit <= at(tail)
        ask_until(now + seconds)
    held_from = None
    ask_until(now + 2 * EXACT_S[1])
    assert asking.limit == (at(tail) if steps else EARLIEST)
    assert asking.next_timer() is None


class Owner:
    """The max read position, and the requests so far."""

    def __init__(self):
        self.last = self.exact = EARLIEST
        self.asked = []
        self.moved = asyncio.Event()
        self.limit = MaxReadPosition(self.say_last, self.say_exact, self.moved.set)
        self.limit.active = True
        self.answers = []
        self.limit.on_answer = self.answers.append

    async def say_last(self):
        self.asked.append("last")
        return self.last

    async def say_exact(self):
        self.asked.append("exact")
        return self.exact

    async def lets(self, position):
        async with asyncio.timeout(DEADLINE_S):
            while not self.limit.allows(position):
                self.moved.clear()
                await self.moved.wait()


async def test_entries_wait_for_the_owner_and_those_who_wait_are_told():
    owner = Owner()
    assert not owner.limit.allows(at(2))
    owner.limit.request(at(2), at(2))
    owner.last = at(2)
    await owner.lets(at(2))
    assert owner.asked == ["last"]
    assert (owner.answers, owner.limit.limit) == ([at(2)], at(2))
    owner.limit.request(at(3), at(3))
    owner.exact = at(3)  # a marker, which is no message
    await owner.lets(at(3))
    assert owner.asked[-1] == "exact"
    owner.limit.request(at(4), at(4))
    owner.limit.notify(at(4))  # by itself
    await owner.lets(at(4))
    assert EARLIEST in owner.answers[-2:], "it answers no request"
    owner.limit.close()


async def test_where_the_exact_question_has_no_answer_the_other_is_asked_again():
    owner = Owner()
    owner.exact = None
    owner.limit.request(at(2), at(2))
    async with asyncio.timeout(DEADLINE_S):
        while "exact" not in owner.asked:
            await asyncio.sleep(0)
    owner.last = at(2)
    await owner.lets(at(2))
    assert not owner.limit.held
    owner.limit.close()
