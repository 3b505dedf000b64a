"""How many permits an owner gets, by a player of its dispatcher."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.tail.permits import PACED_ABOVE, SINGLE_BELOW, WINDOW, PermitPacer

INTERVAL_S = 0.005
"""Flush interval and round trip."""


class Owner:
    """An owner that reads all waiting entries at once when it gets permits, and sends each later entry as it comes."""

    def __init__(self, window=WINDOW, messages=1):
        self.pacer = PermitPacer(window, 0.0)
        self.messages = messages
        self.now, self.waiting, self.sends, self.flows, self.delivered, self.delays = 0.0, [], 0, 1, 0, []
        self.permits = self.pacer.begin(0.0)
        self.grant_at, self.wanted = None, 0

    def publish(self, at):
        if self.grant_at is not None and self.grant_at <= at:
            self.now, self.grant_at = self.grant_at, None
            self.give()
        self.now = at
        self.waiting.append(at)
        self.send()

    def settle(self):
        while self.grant_at is not None:
            self.now, self.grant_at = self.grant_at, None
            self.give()

    def give(self):
        self.flows += 1
        if self.pacer.paced:
            self.pacer.granted()
        self.permits += self.wanted
        self.send()

    def send(self):
        if self.permits <= 0 or not self.waiting:
            return
        sent = self.waiting[: self.permits]
        del self.waiting[: len(sent)]
        self.delays += [self.now - at for at in sent]
        self.sends += 1
        self.permits -= len(sent) * self.messages
        self.delivered += len(sent)
        wanted = self.pacer.on_delivered(len(sent), len(sent) * self.messages, self.permits, self.now)
        if wanted:
            self.wanted = wanted
            if self.pacer.paced:
                self.grant_at = self.now + INTERVAL_S
            else:
                self.give()


def play(rate, seconds, owner=None):
    owner = owner or Owner()
    begin = owner.now
    for number in range(int(rate * seconds)):
        owner.publish(begin + number / rate)
    return owner


def test_few_messages_come_one_by_one_with_few_flows():
    owner = play(100, 20)
    assert owner.sends == owner.delivered == 2000
    assert owner.flows <= 2000 / (WINDOW / 2) + 1
    assert max(owner.delays) == 0


def test_many_messages_come_in_groups_without_much_delay():
    owner = play(1000, 1)
    owner.sends = owner.flows = owner.delivered = 0
    owner.delays = []
    play(1000, 4, owner)
    assert owner.delivered > 3980
    assert owner.sends < owner.delivered / 3
    assert owner.flows < owner.delivered / 4
    assert max(owner.delays) < 4 * INTERVAL_S


def test_a_jump_of_the_rate_is_followed():
    owner = play(500, 1)
    play(5000, 1, owner)
    owner.delays = []
    play(5000, 1, owner)
    assert max(owner.delays) < 4 * INTERVAL_S


def test_groups_end_when_messages_are_few_again():
    owner = play(1000, 2)
    assert owner.pacer.paced
    play(10, 10, owner)
    assert not owner.pacer.paced
    owner.delays = []
    play(10, 10, owner)
    assert max(owner.delays) == 0


def test_a_steady_rate_between_both_bounds_does_not_change_the_mode_back_and_forth():
    owner, modes = play(PACED_ABOVE * 2, 1), []
    for _ in range(50):
        play((PACED_ABOVE + SINGLE_BELOW) / 2, 0.1, owner)
        modes.append(owner.pacer.paced)
    assert len([one for one, other in pairwise(modes) if one != other]) <= 1


def test_batches_need_permits_for_all_their_messages():
    owner = Owner(messages=30)
    play(600, 3, owner)
    owner.settle()
    assert owner.delivered == 1800
    assert owner.sends < 1800 / 2


@given(
    st.lists(st.tuples(st.floats(0, 0.2), st.integers(1, 300)), min_size=1, max_size=60),
    st.integers(1, 400),
    st.integers(1, 50),
)
def test_no_entry_waits_for_ever(steps, window, messages):
    owner = Owner(window, messages)
    published = 0
    for pause, count in steps:
        at = owner.now + pause
        for _ in range(count):
            owner.publish(at)
        published += count
        assert owner.permits <= max(window, 1)
    for _ in range(published):
        owner.settle()
        if not owner.waiting:
            break
    assert owner.delivered == published
