"""Holds of dispatches, against an owner that holds messages whose entries do not show their transactions."""

from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.topic.dispatch_hold import MAX_HOLD_S, DispatchHold
from readonly_engine.topic.max_read_position import MaxReadPositionSchedule
from readonly_engine.topic.position import EARLIEST, Position

STEP_S = 0.001


def at(entry_id):
    return Position(1, entry_id)


def decide(hold, notified, tail, limit, now):
    return hold.decide(at(notified), at(notified + 1), at(tail), limit, now)


def test_what_the_owner_allows_is_not_held():
    hold = DispatchHold()
    assert decide(hold, 3, 7, at(7), 100) == at(7)
    assert decide(hold, 3, 7, at(8), 100) == at(7)
    assert (hold.pending, hold.next_timer()) == (False, None)


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


def test_a_silent_owner_holds_a_dispatch_for_a_limited_time():
    hold = DispatchHold()
    assert decide(hold, 3, 7, at(5), 100) is None
    assert decide(hold, 3, 8, at(5), 100 + MAX_HOLD_S - STEP_S) is None
    assert decide(hold, 3, 8, at(5), 100 + MAX_HOLD_S) == at(5)
    assert decide(hold, 5, 8, at(5), 100 + MAX_HOLD_S) is None, "a new dispatch, a new hold"
    assert decide(hold, 5, 8, at(5), 100 + 2 * MAX_HOLD_S) == at(8)


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
