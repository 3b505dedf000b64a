"""LongPollSchedule against a model of a bookie that drops polls as BookKeeper does (TransientLedgerInfo, Watchable)."""

import heapq
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.bookkeeper.tail_state import POLL_S, LongPollSchedule

EPSILON = 1e-6


class Clock:
    """Scheduled events, in the order of their times."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap = []
        self._number = count()

    def after(self, seconds, action) -> None:
        heapq.heappush(self._heap, (self.now + seconds, next(self._number), action))

    def run(self, until) -> None:
        while self._heap and self._heap[0][0] <= until:
            self.now, _, action = heapq.heappop(self._heap)
            action()
        self.now = until


class Bookie:
    """One ledger at a bookie: `lac` is the LAC in memory, None before the first request. Entry N carries `carried[N]`."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.carried = []
        self.lac = None
        self.known = False
        self.rises = []
        self._waiting = []

    def add(self, lac, lag=0.0) -> None:
        """Answer the waiting polls `lag` after a rise of the LAC."""
        self.carried.append(lac)
        if self.known:
            self._rise(lac, lag)

    def read_lac(self) -> int:
        self.known = True
        return self.carried[-1]

    def read(self) -> None:
        self.known = True
        if self.lac is None:
            self._rise(self.carried[-1], 0.0)

    def poll(self, previous, wait, answer) -> None:
        self.known = True
        if wait == 0 or (self.lac is not None and self.lac > previous):
            self.read()
            answer(self.lac)
            return
        open_poll = [previous, answer]
        self._waiting.append(open_poll)
        self.clock.after(wait, lambda: self._expire(open_poll))

    def _expire(self, open_poll) -> None:
        _, answer = open_poll
        if answer is not None:
            if open_poll in self._waiting:
                self._waiting.remove(open_poll)
            open_poll[1] = None
            self.read()
            answer(self.lac)

    def _rise(self, lac, lag) -> None:
        if self.lac is None or lac > self.lac:
            self.lac = lac
            self.rises.append((self.clock.now, lac))
            self.clock.after(lag, lambda: self._tell(lac))
            if not lag:
                self.clock.run(self.clock.now)

    def _tell(self, lac) -> None:
        waiting, self._waiting = self._waiting, []
        for open_poll in waiting:
            previous, answer = open_poll
            if lac > previous and answer is not None:
                open_poll[1] = None
                answer(self.lac)


class Tail:
    """Polls continuously, by the schedule."""

    def __init__(self, bookie: Bookie, choose) -> None:
        self.bookie = bookie
        self.choose = choose
        self.lac = -1
        self.heard = []
        self.asked = 0

    def start(self) -> None:
        self.take(self.bookie.read_lac())
        self.ask()

    def ask(self) -> None:
        self.asked += 1
        self.bookie.poll(*self.choose.next(self.lac), self.answered)

    def answered(self, lac) -> None:
        self.choose.on_lac(lac)
        self.take(lac)
        self.ask()

    def take(self, lac) -> None:
        if lac > self.lac:
            self.lac = lac
            self.heard.append((self.bookie.clock.now, lac))


class Naive:
    """Polls above the highest LAC, with the longest timeout."""

    def next(self, lac):
        return lac, POLL_S[1]

    def on_lac(self, lac) -> None:
        pass


def scene(choose):
    clock = Clock()
    bookie = Bookie(clock)
    return clock, bookie, Tail(bookie, choose)


def test_the_model_forgets_a_poll_when_it_learns_its_lac():
    clock, bookie, tail = scene(Naive())
    for lac in (-1, 0, 1):
        bookie.add(lac)
    tail.start()
    bookie.read()
    clock.run(1)
    bookie.add(2)
    clock.run(9)
    assert tail.lac == 1, "the poll waits out its time"
    clock.run(POLL_S[1])
    assert tail.lac == 2


@given(
    before=st.integers(1, 5),
    steps=st.lists(st.one_of(st.just("add"), st.just("read"), st.floats(0.01, 30), st.integers(0, 2)), max_size=30),
)
def test_a_bookie_that_tells_at_once_forgets_no_poll(before, steps):
    """With any reads of others, and any LAC from elsewhere: an owner may confirm up to the last entry."""
    clock, bookie, tail = scene(LongPollSchedule(above_own=True))
    for entry_id in range(before):
        bookie.add(entry_id - 1)
    tail.start()
    for step in steps:
        if step == "add":
            bookie.add(len(bookie.carried) - 1)
        elif step == "read":
            bookie.read()
        elif isinstance(step, float):
            clock.run(clock.now + step)
        else:
            tail.take(len(bookie.carried) - 1 - step)
        assert tail.lac >= bookie.lac


@given(
    lags=st.lists(st.floats(0.001, POLL_S[0]), min_size=1, max_size=30),
    gaps=st.lists(st.one_of(st.floats(0, 0.1), st.floats(0, 30)), min_size=30, max_size=30),
    above_own=st.booleans(),
)
def test_whatever_the_lags_the_news_come_a_moment_later_at_most(lags, gaps, above_own):
    clock, bookie, tail = scene(LongPollSchedule(above_own=above_own))
    bookie.add(-1)
    tail.start()
    for number, lag in enumerate(lags):
        clock.run(clock.now + gaps[number])
        bookie.add(number, lag)
    clock.run(clock.now + 2 * POLL_S[0])
    for at, lac in bookie.rises[1:]:
        assert min(when for when, heard in tail.heard if heard >= lac) <= at + POLL_S[0] + EPSILON


def test_a_poll_waits_longer_the_longer_nothing_has_come():
    polls = LongPollSchedule(above_own=True)
    assert polls.next(3) == (3, 0.0), "the bookie has not told its own LAC"
    polls.on_lac(3)
    assert [polls.next(3) for _ in range(4)] == [(3, 0.5), (3, 2.0), (3, 8.0), (3, POLL_S[1])]
    polls.on_lac(4)
    assert polls.next(4) == (4, POLL_S[0])
    assert polls.next(4) == (4, 4 * POLL_S[0])


@pytest.mark.parametrize(("above_own", "previous"), [(True, 4), (False, 7)])
def test_what_a_bookie_does_not_know_yet_is_not_waited_for_where_it_has_every_entry(above_own, previous):
    polls = LongPollSchedule(above_own=above_own)
    polls.on_lac(4)
    assert polls.next(7)[0] == previous
    polls.on_lac(9)
    assert polls.next(7)[0] == 7
    polls.on_lac(3)
    assert polls.next(9)[0] == 9, "an answer that was overtaken by another one"


def test_a_bookie_that_may_have_been_restarted_is_asked_without_a_wait():
    polls = LongPollSchedule(above_own=True)
    polls.on_lac(4)
    polls.forget()
    assert polls.next(4) == (4, 0.0)
