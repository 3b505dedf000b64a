from __future__ import annotations

import pytest
from readonly_engine.bookkeeper.tail_state import (
    EXPLICIT_LAC_WAIT_S,
    IDLE_S,
    PROBE_S,
    QUICK_S,
    RETURN_S,
    STALL_S,
    STEADY_S,
    ArrivalRate,
    IdleProbe,
    PollTarget,
)

ORDER = ["near", "far", "farther"]


def test_the_best_bookie_leads():
    assert PollTarget(ORDER, 0).bookie == "near"


def test_a_leader_that_fails_is_followed_by_the_best_that_has_not_failed():
    target = PollTarget(ORDER, 0)
    target.failed("far", ORDER, 1)
    assert target.bookie == "near", "it was not the target who failed"
    target.failed("near", ORDER, 2)
    assert target.bookie == "farther"
    target.answered("near")
    target.failed("farther", ORDER, 3)
    assert target.bookie == "near"


def test_where_all_have_failed_the_next_one_tries():
    target = PollTarget(ORDER, 0)
    for bookie in ("far", "farther"):
        target.failed(bookie, ORDER, 1)
    target.failed("near", ORDER, 2)
    assert target.bookie == "far"
    target.failed("far", ORDER, 3)
    assert target.bookie == "near"


def test_a_bookie_alone_goes_on_leading():
    target = PollTarget(["only"], 0)
    target.failed("only", ["only"], 1)
    assert target.bookie == "only"


def test_who_knew_more_leads_where_nobody_told_of_it_in_time():
    target = PollTarget(ORDER, 0)
    assert not target.overdue("far", 5, 6, 1), "the target told of it"
    assert not target.overdue("near", 5, 5, 1), "it is the target itself"
    assert target.bookie == "near"
    assert target.overdue("far", 5, 5, 1)
    assert target.bookie == "far"


def test_the_best_one_leads_again_some_time_after_a_change():
    target = PollTarget(ORDER, 0)
    target.overdue("far", 5, 5, 10)
    target.switch_to_best(lambda: ORDER, 9.9 + RETURN_S[0])
    assert target.bookie == "far"
    target.switch_to_best(lambda: ORDER, 10 + RETURN_S[0])
    assert target.bookie == "near"
    asked = []
    target.switch_to_best(lambda: asked.append(0) or ORDER, 10 + RETURN_S[0] + 1)
    assert asked == [], "the order is not worked out at every poll"


def test_the_best_one_leads_again_later_and_later_while_it_is_late_again_and_again():
    target, now, pauses = PollTarget(ORDER, 0), 100.0, []
    for _ in range(8):
        target.overdue("far", 5, 5, now)
        left_at = now
        while target.bookie != "near":
            now += 0.5
            target.switch_to_best(lambda: ORDER, now)
        pauses.append(now - left_at)
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
    target.overdue("far", 5, 5, now + STEADY_S)
    target.switch_to_best(lambda: ORDER, now + STEADY_S + RETURN_S[0])
    assert target.bookie == "near", "it was in time for a while"


def test_one_that_failed_does_not_lead_again_before_it_has_answered():
    target = PollTarget(ORDER, 0)
    target.failed("near", ORDER, 0)
    target.switch_to_best(lambda: ORDER, RETURN_S[1])
    assert target.bookie == "far"
    target.answered("near")
    target.switch_to_best(lambda: ORDER, 2 * RETURN_S[1])
    assert target.bookie == "near"


@pytest.mark.parametrize(("explicit", "wait"), [(False, IDLE_S), (True, EXPLICIT_LAC_WAIT_S)])
def test_one_look_after_a_rest_is_enough_where_nothing_is_left_unconfirmed(explicit, wait):
    rest = IdleProbe(100)
    assert rest.flows(100 + IDLE_S * 0.9)
    assert not rest.flows(100 + IDLE_S * 1.1)
    assert not rest.due(100 + wait * 0.9, explicit=explicit)
    assert rest.next(explicit=explicit) == 100 + wait
    assert rest.due(100 + wait, explicit=explicit)
    rest.probed(101, 101.1, unconfirmed=False)
    assert rest.next(explicit=explicit) is None
    assert not rest.due(1e9, explicit=explicit)
    rest.on_answer(200)
    assert rest.due(200 + wait, explicit=explicit)


def test_an_entry_left_unconfirmed_is_looked_for_less_and_less_often():
    rest = IdleProbe(0)
    now, pauses = 1.0, []
    for _ in range(12):
        assert rest.due(now, explicit=False)
        rest.probed(now, now, unconfirmed=True)
        pauses.append(rest.next(explicit=False) - now)
        assert not rest.due(now + pauses[-1] / 2, explicit=False)
        now += pauses[-1]
    assert pauses[:3] == pytest.approx([PROBE_S[0], 2 * PROBE_S[0], 4 * PROBE_S[0]])
    assert pauses[-1] == pytest.approx(PROBE_S[1])
    rest.on_answer(now)
    rest.probed(now + 1, now + 1, unconfirmed=True)
    assert rest.next(explicit=False) == pytest.approx(now + 1 + PROBE_S[0]), "at first it is quick again"


def test_what_is_heard_during_a_look_asks_for_another():
    rest = IdleProbe(0)
    rest.on_answer(5.5)
    rest.probed(5.4, 5.6, unconfirmed=False)
    assert rest.next(explicit=False) == 5.5 + IDLE_S


def quick_after(gaps, entries=1, rest=0.0):
    flow, now = ArrivalRate(), 0.0
    flow.on_entries(1, now)
    for gap in gaps:
        now += gap
        flow.on_entries(entries, now)
    return flow.quick(now + rest)


def test_entries_that_come_one_after_another_are_quick_after_some_of_them():
    assert not ArrivalRate().quick(0.0)
    assert not quick_after([QUICK_S / 2] * 5)
    assert quick_after([QUICK_S / 2] * 40)
    assert not quick_after([2 * QUICK_S] * 1000)


def test_several_that_come_together_count_each():
    assert quick_after([3 * QUICK_S] * 10, entries=4)
    assert not quick_after([3 * QUICK_S] * 100, entries=2)


@pytest.mark.parametrize("rest", [1.0, 3600.0])
def test_after_a_rest_they_are_waited_for_again_and_however_long_it_was_it_is_forgotten_as_soon(rest):
    assert quick_after([QUICK_S / 2] * 40, rest=STALL_S / 2)
    assert not quick_after([QUICK_S / 2] * 40, rest=STALL_S)
    assert not quick_after([QUICK_S / 2] * 40 + [rest])
    assert quick_after([QUICK_S / 2] * 40 + [rest] + [QUICK_S / 2] * 40)


def test_it_takes_much_slower_entries_to_be_waited_for_again():
    assert quick_after([QUICK_S / 2] * 40 + [2 * QUICK_S] * 100)
    assert not quick_after([QUICK_S / 2] * 40 + [5 * QUICK_S] * 100)
