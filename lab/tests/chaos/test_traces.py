"""Detection of each kind of left-over resource, and of growth."""

import copy
from xml.etree import ElementTree as ET

import pytest

from longtests.chaos.curves import Panel, draw
from longtests.chaos.samples import LEAST, Sample, growing, trends
from longtests.chaos.traces import FILES, MEMORY_MB, TASKS, Traces, compare

BEFORE = Traces(
    memory_mb={"ro-0": 60},
    files={"ro-0": 19},
    tasks={"ro-0": 4},
    clients={"ro-0": 0},
    to_owners={"ro-0": 0},
    to_bookies={"ro-0": 0},
    watches=9,
    sessions=1,
)


def test_nothing_is_left() -> None:
    assert compare(BEFORE, copy.deepcopy(BEFORE)) == []


@pytest.mark.parametrize(
    ("name", "left", "told"),
    [
        ("memory_mb", {"ro-0": 60 + MEMORY_MB + 1}, "MB of memory"),
        ("files", {"ro-0": 19 + FILES + 1}, "open files"),
        ("tasks", {"ro-0": 4 + TASKS + 1}, "tasks"),
        ("clients", {"ro-0": 1}, "clients, topics and claims"),
        ("to_owners", {"ro-0": 3}, "connections to owners"),
        ("to_bookies", {"ro-0": 13}, "connections to bookies"),
        ("watches", 100, "watches at ZooKeeper"),
        ("sessions", 2, "2 sessions of 1 brokers"),
        ("records", ["/pulsar-readonly/pools/chaos/claims/x"], "record"),
        ("at_owners", ["t: s: c0"], "at the owner"),
        ("orphans", ["bookie-0 <- ro-0"], "orphan connection"),
    ],
)
def test_each_trace_is_found(name: str, left: object, told: str) -> None:
    after = copy.deepcopy(BEFORE)
    setattr(after, name, left)
    (found,) = compare(BEFORE, after)
    assert told in found


def test_a_series_that_grows_is_found_and_a_flat_one_with_peaks_is_not() -> None:
    flat = [100.0 + (40 if n % 7 == 0 else n % 3) for n in range(90)]
    assert growing("memory", flat, 15.0) == ""
    assert "memory grows: " in growing("memory", [100.0 + 2 * n for n in range(90)], 15.0)
    assert growing("memory", [100.0 + 2 * n for n in range(LEAST - 1)], 15.0) == ""


def test_trends_look_at_each_broker_and_the_latency() -> None:
    samples = [
        Sample(n * 5.0, node, 100.0, 20.0 + n * (node == "ro-1"), 5.0) for n in range(90) for node in ("ro-0", "ro-1")
    ]
    latencies = {minute: [0.01 if minute < 30 else 2.0] for minute in range(45)}
    found = trends(samples, latencies)
    assert [text.partition(" grows")[0] for text in found] == ["files of ro-1", "latency"]


def test_the_picture_is_well_formed() -> None:
    panels = [Panel("memory, MB", {"a&b": [(0.0, 1.0), (10.0, 3.0)], "c": []}), Panel("latency", {"all": [(0.5, 0.0)]})]
    root = ET.fromstring(draw("10 minutes <x>", panels, 10.0))
    assert len(root.findall("{http://www.w3.org/2000/svg}polyline")) == 3
