"""How arrivals of a replay are judged."""

from __future__ import annotations

import pytest

from longtests.replay.arrivals import ReceivedMessage, judge
from longtests.replay.recording import BUSY, PARTITIONS, SPAN_MS, TOPICS, Recording, plan

RECORDED = Recording(("a",), 0, [0, 10, 20, 30], [0, 1, 0, 1])
CLOCK = (0.0, 1000.0, 10.0)
IN_TIME = [
    ReceivedMessage(0, 1000.0),
    ReceivedMessage(1, 1001.0),
    ReceivedMessage(2, 1002.0),
    ReceivedMessage(3, 1003.0),
]


@pytest.mark.parametrize(
    ("arrivals", "defects"),
    [
        (IN_TIME, (0, 0, 0, 0)),
        (IN_TIME[:3], (1, 0, 0, 0)),
        ([*IN_TIME, IN_TIME[0]], (0, 0, 1, 0)),
        ([IN_TIME[2], IN_TIME[0], IN_TIME[1], IN_TIME[3]], (0, 0, 0, 1)),
        ([IN_TIME[1], IN_TIME[0], IN_TIME[2], IN_TIME[3]], (0, 0, 0, 0)),
    ],
)
def test_each_defect_is_counted(arrivals, defects):
    found = judge(RECORDED, range(4), arrivals, CLOCK)
    assert (found.lost, found.foreign, found.twice, found.disordered) == defects


def test_messages_of_another_time_are_foreign_and_defects():
    found = judge(RECORDED, {0, 1, 2}, IN_TIME, None)
    assert (found.lost, found.foreign, found.wrong, found.drift_ms) == (0, 1, 1, ())


def test_drift_counts_from_the_clock_and_order_across_partitions_from_later_messages():
    late = [IN_TIME[0], ReceivedMessage(2, 1002.0), ReceivedMessage(1, 1006.0), ReceivedMessage(3, 1007.0)]
    found = judge(RECORDED, range(4), late, CLOCK)
    assert (found.drift_ms, found.across_ms) == ((2.0, 5.0, 5.0), (4.0, 4.0))
    killed = judge(RECORDED, range(4), late, CLOCK, until_ms=1001.0)
    assert (killed.drift_ms, killed.across_ms) == ((0.0, 0.0, 5.0), (0.0, 0.0)), "only the worst is of all"


def test_a_recording_is_a_week_with_a_busy_minute_for_each_speed():
    made = plan(100, 1_000_000, 1)
    assert len(made.times) == 100 + sum(busy.count for busy in BUSY.values())
    assert made.times == sorted(made.times)
    assert made.times[-1] < 1_000_000 + SPAN_MS
    assert set(made.partitions) == set(range(TOPICS * PARTITIONS))
    for speed, busy in BUSY.items():
        begin = made.begin_ms + busy.begin_ms
        assert len(made.between(begin, begin + busy.span_ms)) >= busy.count
        assert busy.span_ms / speed == 60_000
