"""The table of `make owner-kill`."""

from __future__ import annotations

from tests.churn.owner_kill import BEGIN, DOCUMENT, END, Outcome, longest_gap, table


def test_the_longest_gap_counts_the_edges_and_nothing_outside():
    assert longest_gap([1.0, 11.0, 12.0, 15.0, 99.0], 10.0, 20.0) == 5.0
    assert longest_gap([10.5, 14.5, 15.0], 10.0, 16.0) == 4.0
    assert longest_gap([], 10.0, 20.0) == 10.0


def test_a_way_has_the_longest_gap_of_each_run():
    runs = [Outcome((0.5, 2.0), 90, 100), Outcome((0.25, 0.75), 100, 100)]
    (row,) = table({"way": runs})[2:]
    assert row == "| way | 2 | 2.00 s, 0.75 s | 0.62 s | 95% of the requested messages |"


def test_the_document_has_a_place_for_the_table():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text.index(BEGIN) < text.index(END)
