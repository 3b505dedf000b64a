"""The bench of the status page: its table of the CPU while nobody looks."""

from __future__ import annotations

from bench.scenarios.status_page import Load, _cells, quiet_table


def test_the_cpu_of_quiet_brokers_is_in_milliseconds_per_minute():
    before = {"looked": (0.001, 0.003, 0.002), "quiet": (0.002,)}
    after = {"looked": (0.004,), "quiet": (0.0, 0.001, 0.002)}
    assert quiet_table(before, after, 5000).splitlines() == [
        "| CPU in ms per minute, 5,000 topics, nobody looks | before the loads | after them |",
        "|---|---:|---:|",
        "| broker whose page was loaded | 120 (60 to 180) | 240 |",
        "| broker that nobody ever looked at | 120 | 60 (0 to 120) |",
    ]


def test_a_row_has_the_figures_in_the_order_of_the_columns():
    assert _cells([Load(1, 2, 3, 4, 5), Load(3, 2, 3, 4, 5), Load(2, 2, 3, 4, 5)]) == (
        "2.0 (1.0 to 3.0)",
        "2.0 (2.0 to 2.0)",
        "3.0 (3.0 to 3.0)",
        "4.0 (4.0 to 4.0)",
        "5.0 (5.0 to 5.0)",
    )
