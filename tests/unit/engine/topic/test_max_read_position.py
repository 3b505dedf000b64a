"""The owner's max read position: no entry before the owner allows it, all of them once it does; holds of dispatches meanwhile."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.topic.dispatch_hold import MAX_HOLD_S, DispatchHold
from readonly_engine.topic.max_read_position import EXACT_S, MaxReadPosition, MaxReadPositionSchedule
from readonly_engine.topic.position import EARLIEST, Position

DEADLINE_S = 10


def at(entry_id):
    return Position(1, entry_id)


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


STEP_S = 0.001


def decide(hold, notified, tail, limit, now):
    return hold.decide(at(notified), at(notified + 1), at(tail), limit, now)


def test_a_dispatch_waits_for_an_answer_and_ends_at_the_limit():
    hold = DispatchHold()
    assert decide(hold, 3, 7, at(3), 100) is None
    assert hold.next_timer() == 100 + MAX_HOLD_S
    assert decide(hold, 3, 9, at(4), 100.1) is None, "the owner has not answered, and may allow more"
    hold.answered(at(6))
    assert decide(hold, 3, 9, at(4), 100.1) is None, "the request was earlier than the entry"
    hold.answered(at(7))
    assert decide(hold, 3, 9, at(8), 100.1) == at(8)
    assert not hold.pending


def test_a_limit_between_two_ledgers_allows_no_entry():
    hold = DispatchHold()
    notified, first, tail, limit = Position(1, 9), Position(2, 0), Position(2, 4), Position(2, -1)
    assert hold.decide(notified, first, tail, limit, 100) is None
    hold.answered(tail)
    assert hold.decide(notified, first, tail, limit, 100) == tail


class Topic:
    """A topic, its owner, and the dispatches, in simulated time. All written entries are readable."""

    def __init__(self):
        self.now, self.tail, self.notified = 100.0, 0, 0
        self.held_from = None
        self.silent = False
        self.hold, self.schedule = DispatchHold(), MaxReadPositionSchedule()
        self.schedule.answered(at(0), self.now)
        self.asked = 0
        self.dispatches = []  # last entry, whether the owner allowed it, seconds since its first entry was written
        self.written = {}

    @property
    def allowed(self):
        return at(self.tail if self.held_from is None else self.held_from - 1)

    def write(self, *, hidden=False):
        self.tail += 1
        self.written[self.tail] = self.now
        if hidden and self.held_from is None:
            self.held_from = self.tail

    def step(self):
        due = self.schedule.next_timer()
        if due is not None and due <= self.now:
            exact = self.schedule.on_timer(self.now)
            self.asked += 1
            if not self.silent:
                self.schedule.answered(self.allowed, self.now, exact=exact)
                self.hold.answered(self.schedule.awaited)
        if self.tail > self.notified:
            tail = at(self.tail)
            last = decide(self.hold, self.notified, self.tail, self.schedule.limit, self.now)
            if last is None:
                self.schedule.request(tail, tail, self.now)
            else:
                assert self.notified < last.entry_id <= self.tail
                waited = self.now - self.written[self.notified + 1]
                self.dispatches.append((last, last <= self.schedule.limit, waited))
                self.notified = last.entry_id
                if last > self.schedule.limit:
                    self.schedule.request(last, last, self.now)  # as a listener does
        self.now += STEP_S


@given(st.lists(st.tuples(st.sampled_from(["write", "hidden", "end", "silent", "back", "wait"]), st.integers(0, 300))))
def test_all_entries_are_dispatched_soon_and_as_allowed_only_if_the_owner_has_allowed_them(steps):
    topic = Topic()
    for step, count in [*steps, ("back", 0), ("end", 0), ("write", 1)]:
        if step in {"write", "hidden"}:
            topic.write(hidden=step == "hidden")
        elif step == "end":
            topic.held_from = None
        elif step in {"silent", "back"}:
            topic.silent = step == "silent"
        for _ in range(count):
            before = len(topic.dispatches)
            topic.step()
            for last, allowed, waited in topic.dispatches[before:]:
                assert not allowed or last <= topic.allowed, "allowed too early"
                assert waited <= MAX_HOLD_S * 2 + 2 * STEP_S
    while topic.notified < topic.tail:
        topic.step()
    assert topic.schedule.limit == EARLIEST or topic.schedule.limit <= topic.allowed
