"""Cost at the owner brokers, and the advice that follows."""

from dataclasses import replace

import pytest
from readonly_engine.sizing.advice import Suitability, reason_against
from readonly_engine.sizing.estimate import Case
from readonly_engine.sizing.owner_cost import (
    bytes_alone,
    bytes_with_pool,
    cpu_alone,
    cpu_with_pool,
    pushed_messages,
    relayed_acks,
)
from readonly_engine.sizing.plan import make_plan
from readonly_engine.sizing.report import as_table
from readonly_engine.sizing.workload import Policy, Subscriptions, SubscriptionType, TopicLoad, Workload

READER, SHARED, EXCLUSIVE = SubscriptionType.READER, SubscriptionType.SHARED, SubscriptionType.EXCLUSIVE


def topic(*subscriptions, rate=1000.0, size=1024, topics=1.0, **more) -> TopicLoad:
    return TopicLoad(topics, rate, rate * size, 1.0, subscriptions, **more)


def plan_of(*loads, policy=Policy()):  # noqa: B008 - frozen
    return make_plan(Workload(loads), policy)


READERS, SLOW = topic(Subscriptions(READER, 100)), topic(Subscriptions(READER, 50), rate=10)
ACKED = topic(Subscriptions(SHARED, 1, 100), rate=5000)
BACKLOG = topic(Subscriptions(READER, 1), rate=0, catch_up_bytes=1024e3, entry_bytes=1024.0)


@pytest.mark.parametrize(
    ("load", "processes", "alone", "with_pool"),
    [
        (READERS, 1, 100 * 190 + 100_000 * 8.3, 0),  # a wake for 100 entries, and 8.3 us for each delivery
        (SLOW, 3, 10 * 190 + 500 * 26, 10 * 190 + 30 * 26),  # the owner pushes 3 copies instead of 50
        (ACKED, 1, 100 * 190 + 5000 * 3.95 + 1000 * 30 + 5000 * 8.2, 1000 * 30 + 5000 * 8.2),  # acks are left
        (BACKLOG, 1, 1000 * (22 + 0.62), 0),
    ],
)
def test_cpu_by_hand(load, processes, alone, with_pool):
    work = Workload((load,))
    assert cpu_alone(work, Case.EXPECTED) == pytest.approx(alone)
    assert cpu_with_pool(work, processes, Case.EXPECTED) == pytest.approx(with_pool)


def test_bytes_pushes_and_acks_by_hand():
    readers, slow = Workload((READERS,)), Workload((SLOW,))
    assert (bytes_alone(readers), bytes_with_pool(readers, 1)) == (100 * (1_024_000 + 100_000), 0)
    assert (pushed_messages(slow, 3), bytes_with_pool(slow, 3)) == (30, 3 * (10_240 + 1000))
    assert relayed_acks(Workload((ACKED,)), Case.EXPECTED) == 5000


def test_subscriptions_that_pass_through_are_left():
    passing = Subscriptions(EXCLUSIVE, 2, 1, "entry filter")
    work = Workload((topic(passing),))
    assert cpu_alone(work, Case.EXPECTED) == cpu_with_pool(work, 5, Case.EXPECTED) > 0
    assert bytes_alone(work) == bytes_with_pool(work, 5) > 0
    assert make_plan(work, Policy()).owner.passing.expected == 2


def test_a_backlog_by_hand():
    work = Workload((topic(Subscriptions(READER, 1), rate=0, catch_up_bytes=1024e3, entry_bytes=1024.0),))
    assert cpu_alone(work, Case.EXPECTED) == pytest.approx(1000 * (22 + 0.62))
    assert cpu_with_pool(work, 1, Case.EXPECTED) == 0


@pytest.mark.parametrize(
    ("load", "reason"),
    [
        (topic(), "no consumers"),
        (topic(Subscriptions(EXCLUSIVE, 3, 1, "entry filter")), "all subscriptions pass through (entry filter)"),
        (topic(Subscriptions(READER, 5), rate=0), "no messages"),
        (topic(Subscriptions(READER, 1)), "one subscription, and the owner pushes its messages"),
        (topic(Subscriptions(READER, 1), catch_up_bytes=1e6), ""),
        (topic(Subscriptions(READER, 2)), ""),
        (topic(Subscriptions(READER, 1), size=100_000), ""),  # 100 MB/s, which the owner does not push
    ],
)
def test_reasons_against_a_pool(load, reason):
    assert reason_against(load) == reason


def test_low_rates_do_not_suit():
    advice = plan_of(topic(Subscriptions(READER, 10), rate=1)).advice
    assert advice.suits is Suitability.NO
    assert advice.reasons[0] == "The rates are low: the relief is below 0.05 cores and 1 MB/s."


def test_topics_that_should_not_be_bound_are_named():
    good = replace(topic(Subscriptions(READER, 100)), name="a")
    bad = [replace(topic(Subscriptions(READER, 1)), name=f"b{index}") for index in range(7)]
    limits = plan_of(good, *bad).advice.limits
    assert limits[-1].startswith(
        "Do not bind 7 of the topics: b0 (one subscription, and the owner pushes its messages), b1"
    )
    assert limits[-1].endswith(" and 2 more.")


def test_names_of_topics_do_not_control_the_terminal():
    good = replace(topic(Subscriptions(READER, 100)), name="a")
    bad = replace(topic(Subscriptions(READER, 1)), name="b\x1b[2J\u202e" + 5000 * "x")
    text = as_table(plan_of(good, bad))
    assert "b\\x1b[2J\\u202e" in text
    assert {one for one in text if not one.isprintable()} == {"\n"}
    assert len(text) < 6000


def test_limits():
    found = plan_of(topic(Subscriptions(SHARED, 1, 100), rate=300_000)).advice.limits
    assert any("need" in one and "a Shared subscription" in one for one in found)
    assert any(one.startswith("One broker serves") for one in found)
    assert any("local cursors" in one for one in plan_of(topic(Subscriptions(EXCLUSIVE, 10_000))).advice.limits)
    assert any("pass through" in one for one in plan_of(topic(Subscriptions(READER, 1, 1, "x"))).advice.limits)
    endless = TopicLoad(1e7, 1e6, 1e9, 1.0, (Subscriptions(READER, 1e7),))
    assert any(one.startswith("No number of processes") for one in plan_of(endless).advice.limits)
    noted = make_plan(Workload((topic(),), notes=("A note.",)), Policy())
    assert noted.advice.limits == ("A note.",)
