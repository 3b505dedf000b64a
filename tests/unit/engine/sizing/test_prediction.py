"""The expected values of a plan beside the medians of the benches, shape by shape, and without the shape itself.

`pytest -rP tests/unit/engine/sizing/test_prediction.py` prints the tables; docs/reference/plan.md has them, too.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from readonly_engine.sizing import measured
from readonly_engine.sizing.estimate import Case, Estimate
from readonly_engine.sizing.owner_cost import cpu_alone
from readonly_engine.sizing.workload import Subscriptions, SubscriptionType, TopicLoad, Workload

from docsite import plan, prediction
from docsite.constants import CONSTANTS, MEMORY, OWNER, POOL, POOL_BACKLOG, Constant
from docsite.prediction import Comparison, is_source, solved, without

FIVE = (
    (POOL, "fan-out: 1,000 x 10/s, 1,024 B"),
    (POOL, "fan-out: 200 x 100/s, 16,384 B"),
    (POOL, "few-readers: 1,000 topics, 1,000 x 200/s, 1,024 B"),
    (POOL, "shared: 100 x 2,000/s, 1,024 B"),
    (MEMORY, "subscriptions: 10,000"),
    (OWNER, "fan-out: 200 x 100/s, 1,024 B"),
    (OWNER, "fan-out: 1,000 x 10/s, 1,024 B"),
)
"""Shapes that gave a constant; more than the five that a plan must have."""

OTHER_RUNS = (
    (POOL, "latency: 50 x 1,000/s, 1,024 B"),
    (POOL, "fan-out-5.0.0-M1: 200 x 100/s, 1,024 B"),
    (POOL, "growth: 50 x 1,000/s, 1,024 B"),
    (POOL_BACKLOG, "catch-up-5.0.0-M1: 1,024 B"),
    (OWNER, "fan-out-5.0.0-M1: 50 x 1,000/s, 1,024 B"),
    (OWNER, "growth: 1,000 x 20/s, 1,024 B"),
)
"""Shapes of other runs, of which no constant comes."""


def row_of(key) -> plan.PlanRow:
    (found,) = [one for one in plan.compared() if (one.of.quantity, one.of.shape) == key]
    return found


@pytest.mark.parametrize("key", FIVE, ids=str)
def test_a_plan_that_does_not_know_the_shape_is_within_the_margin(key):
    """Leave-one-out: its constants come from the other shapes."""
    row = row_of(key)
    assert row.source
    assert row.independent is not None
    assert row.independent / row.of.rounds.expected == pytest.approx(1, abs=prediction.MARGIN)


@pytest.mark.parametrize("key", OTHER_RUNS, ids=str)
def test_a_plan_is_within_the_margin_of_other_runs(key):
    row = row_of(key)
    assert not row.source
    assert abs(row.of.difference) <= prediction.MARGIN


def test_every_shape_that_is_not_close_is_on_the_page_with_a_reason():
    rows = plan.compared()
    sys.stdout.write("\n".join(map(str, (one.of for one in rows))))
    assert len(rows) > 80
    far = [one for one in rows if not one.close]
    assert far
    assert len(far) <= 20  # 17 when this was written: more of them is a worse model
    page = plan.page()
    assert all(one.of.shape in page and plan.reason(one) in page for one in far)


def test_with_all_constants_a_plan_is_close_but_for_what_the_output_names():
    """Of the owner's shapes that are not, `plan` names the deviation in its output."""
    far = {one.of.shape for one in plan.compared() if one.source and not one.of.is_close(one.of.planned)}
    assert far == {"shared: 100 x 2,000/s, 1,024 B"}


def test_a_shape_without_a_reason_is_an_error():
    row = plan.PlanRow(Comparison(POOL, "new: 1 x 1/s", Estimate(1e6, 1e6, 1e6), lambda _: 1.0), False, 1.0)
    assert not row.close
    with pytest.raises(ValueError, match=r"new: 1 x 1/s: the plan is not close, and docsite\.plan\.REASONS"):
        plan.reason(row)


def test_every_source_of_a_constant_is_a_shape_of_the_results():
    known = {(one.of.quantity, one.of.shape) for one in plan.compared()}
    for one in CONSTANTS:
        assert one.sources | one.substitutes <= known, one.name
        assert getattr(measured, one.name)


def test_a_solved_constant_gives_the_measurement():
    """And the constants are as before when it is done."""
    rows = prediction.pool_rows("fan-out")
    (row,) = [one for one in rows if one.shape == "fan-out: 1,000 x 10/s, 100 B"]
    constant = Constant("WRITE_US", frozenset())
    before = measured.WRITE_US
    value = solved(constant, row)
    assert measured.WRITE_US is before
    # 10,000 writes per second cost most of it
    assert value == pytest.approx(before.expected - (row.planned - row.rounds.expected) / 10_000, rel=0.01)


def test_a_plan_without_a_shape_does_not_use_it():
    """Were the shape ten times as expensive, the plan without it would be the same."""
    rows = prediction.all_rows()
    (place,) = [
        index for index, one in enumerate(rows) if (one.quantity, one.shape) == (OWNER, "fan-out: 200 x 100/s, 1,024 B")
    ]
    first = without(rows[place], rows)
    other = replace(rows[place], rounds=Estimate(*(10 * value for value in rows[place].rounds)))
    assert is_source(rows[place])
    assert without(other, [*rows[:place], other, *rows[place + 1 :]]) == first


@pytest.mark.parametrize("key", [(OWNER, "few-readers: 1 x 1,000/s, 1,024 B")], ids=str)
def test_a_shape_that_alone_gives_a_constant_has_no_independent_plan(key):
    row = row_of(key)
    assert (row.source, row.independent, row.close) == (True, None, False)
    assert plan.reason(row) == "No other shape has its constant."


@pytest.mark.parametrize(("factor", "close"), [(0.69, False), (0.71, True), (1.29, True), (1.31, False)])
def test_close_is_within_the_margin(factor, close):
    row = Comparison(POOL, "", Estimate(1e6, 1e6, 1e6), lambda _: 1e6 * factor)
    assert row.is_close(row.planned) is close


def test_a_hundredth_of_a_core_is_close_and_only_for_cpu_per_second():
    assert Comparison(OWNER, "", Estimate(1, 1, 1), lambda _: 0.0).is_close(10_001.0)
    assert not Comparison(OWNER, "", Estimate(1, 1, 1), lambda _: 0.0).is_close(10_002.0)
    assert not Comparison(MEMORY, "", Estimate(1, 1, 1), lambda _: 0.0).is_close(2.0)


def test_the_named_deviations_are_those_of_the_results():
    """`measured.OWNER_DEVIATIONS` beside the files, rounded to a tenth; a negative difference counts as none."""
    rows = [
        one.of for one in plan.compared() if one.of.quantity == OWNER and one.of.shape.startswith(("shared", "few"))
    ]
    found = [tuple(max(0.0, round(value / one.planned, 1)) for value in one.rounds) for one in rows]
    names = ["few-readers"] * 5 + ["shared"] * 3
    assert [one.shape.partition(":")[0] for one in rows] == names
    assert sorted(found) == sorted(tuple(one.measured) for one in measured.OWNER_DEVIATIONS)


@pytest.mark.parametrize(("rate", "batch", "planned"), [(5000, 1.0, 110e3), (5000, 5000 / 1361, 70e3)])
def test_acks_of_a_shared_subscription_are_grouped_and_a_batch_is_acked_once(rate, batch, planned):
    """Before, each message had its own ack: batches cost the owner as much as single messages."""
    load = TopicLoad(1, rate, rate * 1024, batch, (Subscriptions(SubscriptionType.SHARED, 1, 100),))
    assert cpu_alone(Workload((load,)), Case.EXPECTED) == pytest.approx(planned, rel=0.05)
