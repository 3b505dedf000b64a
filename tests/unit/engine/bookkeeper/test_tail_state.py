import pytest
from readonly_engine.bookkeeper.tail_state import (
    EXPLICIT_LAC_WAIT_S,
    IDLE_S,
    PROBE_S,
    RETURN_S,
    STEADY_S,
    IdleProbe,
    PollTarget,
)

ORDER = ["near", "far", "farther"]


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
