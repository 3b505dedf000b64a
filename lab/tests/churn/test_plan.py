"""The plan of `make -C lab churn`."""

import pytest

from longtests.churn.plan import MOST, TYPES, Plan, make_plan

PLAN = make_plan(7, 600, topics=2, brokers=3)


def test_a_seed_repeats_the_plan_and_another_makes_another():
    assert make_plan(7, 600, topics=2, brokers=3) == PLAN
    assert make_plan(8, 600, topics=2, brokers=3).steps != PLAN.steps


def test_all_types_are_there_plain_moved_and_with_stock_clients():
    for wanted in ({}, {"seeks": True}, {"stock": True}):
        of_kind = {
            subscription.type
            for subscription in PLAN.subscriptions
            if (subscription.seeks, subscription.stock) == (wanted.get("seeks", False), wanted.get("stock", False))
        }
        assert of_kind == set(TYPES)
    assert {subscription.type for subscription in PLAN.subscriptions if subscription.cumulative} == {
        "Exclusive",
        "Failover",
    }
    assert len({subscription.name for subscription in PLAN.subscriptions}) == len(PLAN.subscriptions)


def test_each_minute_has_a_kill_and_an_unload_of_each_topic():
    for minute in range(10):
        steps = [step for step in PLAN.steps if 60 * minute <= step.at < 60 * (minute + 1)]
        assert sum(step.action == "kill" for step in steps) == 1
        assert sorted(step.number for step in steps if step.action == "unload") == [0, 1]
    assert {step.number for step in PLAN.steps if step.action == "kill"} == {0, 1, 2}
    assert not [step for step in make_plan(7, 600, topics=2, brokers=0).steps if step.action == "kill"]


def test_a_short_run_has_one_kill_and_one_unload():
    actions = [step.action for step in make_plan(1, 30, topics=1, brokers=3).steps]
    assert (actions.count("kill"), actions.count("unload")) == (1, 1)


@pytest.mark.parametrize("subscription", PLAN.subscriptions, ids=lambda subscription: subscription.name)
def test_consumers_come_before_they_go_and_there_are_never_too_many(subscription):
    assert_in_order(PLAN, subscription)


def assert_in_order(plan: Plan, subscription) -> None:
    here: set[int] = set()
    gone: set[int] = set()
    for step in plan.steps:
        if step.subscription != subscription.name:
            continue
        if step.action == "open":
            assert step.number not in here | gone
            here.add(step.number)
            assert len(here) <= MOST[subscription.type]
        elif step.action == "seek":
            assert subscription.seeks
            assert here
        else:
            assert step.action == "close" or not subscription.stock
            here.remove(step.number)
            gone.add(step.number)
