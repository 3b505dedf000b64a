"""What filters exclude, by Spark's own classes; what they do not say, they do not exclude."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as spark
from readonly_engine.topic.position import EARLIEST, Position
from readonly_spark.plan.filters import Selection, selection_of
from readonly_spark.plan.topic_state import ReadableLedger, TopicState

T = "persistent://public/default/t"
STATE = TopicState(T, (ReadableLedger(5, 9, 100), ReadableLedger(8, 4, 50), ReadableLedger(12, 2, 30, closed=False)))
MOMENT = datetime(2026, 11, 25, 12, 0, 0, 500, UTC)
MS = 1_795_608_000_000


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], Selection()),
        ([spark.EqualTo(("topic",), T)], Selection(topics=frozenset({T}))),
        ([spark.In(("topic",), (T, "b")), spark.In(("topic",), ("b", "c"))], Selection(topics=frozenset({"b"}))),
        ([spark.In(("topic",), (T, None))], Selection()),
        ([spark.EqualTo(("partition",), 3)], Selection(partitions=frozenset({3}))),
        ([spark.IsNull(("partition",))], Selection(partitions=frozenset({-1}))),
        ([spark.GreaterThan(("partition",), 3)], Selection()),
        ([spark.GreaterThan(("ledgerId",), 6)], Selection(first_ledger=6)),
        ([spark.LessThanOrEqual(("ledgerId",), 8)], Selection(last_ledger=8)),
        ([spark.EqualTo(("ledgerId",), 6)], Selection(first_ledger=6, last_ledger=6)),
        ([spark.In(("ledgerId",), (6, 9)), spark.GreaterThanOrEqual(("ledgerId",), 7)], Selection(first_ledger=7, last_ledger=9)),
        ([spark.GreaterThanOrEqual(("publishTime",), MOMENT)], Selection(from_ms=MS)),
        ([spark.LessThan(("publishTime",), MOMENT)], Selection(to_ms=MS + 1)),
        ([spark.EqualTo(("publishTime",), MOMENT)], Selection(from_ms=MS, to_ms=MS + 1)),
        ([spark.EqualNullSafe(("publishTime",), None)], Selection()),
        ([spark.Not(spark.EqualTo(("topic",), T))], Selection()),
        ([spark.StringStartsWith(("topic",), "a"), spark.IsNotNull(("topic",))], Selection()),
        ([spark.EqualTo(("value", "topic"), T), spark.EqualTo(("key",), b"a")], Selection()),
    ],
)  # fmt: skip
def test_what_filters_leave(filters, expected):
    assert selection_of(filters) == expected


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        (Selection(), [T, f"{T}-partition-1", "persistent://public/default/u"]),
        (Selection(topics=frozenset({T})), [T, f"{T}-partition-1"]),
        (Selection(partitions=frozenset({1})), [f"{T}-partition-1"]),
        (Selection(partitions=frozenset({-1})), [T, "persistent://public/default/u"]),
        (Selection(topics=frozenset()), []),
    ],
)
def test_the_topics_that_are_left(selection, names):
    assert [
        name for name in (T, f"{T}-partition-1", "persistent://public/default/u") if selection.selects(name)
    ] == names


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (None, None, (EARLIEST, Position(12, 3))),
        (6, None, (Position(8, 0), Position(12, 3))),
        (8, 8, (Position(8, 0), Position(8, 5))),
        (None, 11, (EARLIEST, Position(8, 5))),
        (13, None, (Position(12, 0), Position(12, 3))),
        (None, 4, (EARLIEST, EARLIEST)),
        (6, 7, (Position(8, 0), Position(8, 0))),
    ],
)
def test_ledgers_that_are_left_exist(first, last, expected):
    found = Selection(first_ledger=first, last_ledger=last).range_of(STATE, EARLIEST, STATE.latest)
    assert found == expected
    assert STATE.gap(*found) is None
    assert STATE.end_gap(*found) is None


@given(st.integers(0, 15), st.integers(0, 15), st.integers(0, 15))
def test_no_entry_of_the_ledgers_is_left_out(first, last, compacted_to):
    state = TopicState(
        T, STATE.ledgers, compacted=ReadableLedger(20, 3, 10, compacted=True), horizon=Position(compacted_to, 1)
    )
    for one in (STATE, state):
        start, end = Selection(first_ledger=first, last_ledger=last).range_of(one, one.earliest, one.latest)
        if one.compacted is not None:  # entries of ledgers that were trimmed since
            for ledger_id in range(first, min(last, compacted_to) + 1):
                assert start <= Position(ledger_id, 0) < end or ledger_id > one.latest.ledger_id
        for ledger in one.ledgers:
            if first <= ledger.ledger_id <= last:
                assert start <= Position(ledger.ledger_id, 0)
                assert Position(ledger.ledger_id, ledger.last) < end
