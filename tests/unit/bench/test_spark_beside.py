"""Figures of the benches of Spark that are made beside others: their tables, and where they are put."""

from __future__ import annotations

import pytest

from bench.spark import beside, common, paired, scale


def turn(side, owner_cpu, p99, cores=beside.SHARED):
    read = 0.0 if side in {beside.BASELINE, beside.BUSY} else 3e9
    return beside.SideMeasurement(side, cores, 30.0, 30_000, owner_cpu, 3.0, 30.0, 1.0, p99, read)


def test_an_owner_is_compared_with_itself_alone():
    turns = [
        turn(side, owner, 5.0 + owner)
        for side in beside.SIDES
        for owner in ((6.0, 6.0, 6.6) if side == beside.BASELINE else (6.06, 6.12, 6.18))
    ]
    baseline, spark, *more = beside.table(turns).splitlines()[2:]
    assert len(more) == 2
    assert baseline.startswith("| all shared | no reads | - | 200 (200 to 220) µs | +0.0% |")
    assert spark.startswith("| all shared | Spark at full speed | 100 MB/s | 204 (202 to 206) µs | +2.0% |")
    assert "| 11.12 (11.06 to 11.18) ms | 20% | 10% | 100% |" in spark


def test_workers_and_plans_are_medians():
    reads = [scale.Read(workers, 2.0 / workers, 3.0, 1.0) for workers in (1, 2) for _ in range(3)]
    assert scale.workers_table(reads, 1_000_000).splitlines()[2:] == [
        "| 1 | 500,000 | 512 | 250,000 | 3.0 s | 1.0 s |",
        "| 2 | 1,000,000 | 1,024 | 250,000 | 3.0 s | 1.0 s |",
    ]
    plans = [scale.Plan(what, seconds, 0.5, 1000) for what in scale.PLANS for seconds in (1.0, 2.0, 4.0)]
    assert scale.plans_table(plans).splitlines()[2] == "| a batch | 2.00 s (1.00 to 4.00) | 0.50 s | 1,000 |"


@pytest.mark.parametrize("name", ["spark", "beside", "paired", "workers", "topics"])
def test_the_document_has_a_place_for_each(name):
    text = common.DOCUMENT.read_text()
    made = common.inserted(text, name, "MADE\n")
    assert f"<!-- {name}: made by" in made
    assert f" -->\nMADE\n<!-- end of {name} -->" in made
    assert common.inserted(made, name, "MADE") == made
    assert made.count("<!--") == text.count("<!--")


def test_pairs_tell_small_changes_where_all_goes_up_and_down():
    """The machine is twice as fast in some pairs; within each the load adds 1 %."""
    speeds = [100.0, 200.0] * 15
    pairs = paired.Pairs("Spark reads", "all shared", tuple((speed, speed * 1.01) for speed in speeds))
    assert pairs.alone == 150.0
    assert pairs.change == pytest.approx(0.01)
    assert 0.0005 < pairs.margin < 0.002
    assert paired.table([pairs]).splitlines()[-1] == (
        f"| all shared | Spark reads | 30 | 150 µs | +1.0% ± {pairs.margin:.1%} |"
    )
