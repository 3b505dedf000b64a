"""The table of bookie reads."""

from __future__ import annotations

from bench.reads import Reads, table


def test_a_row_says_how_often_each_entry_was_read():
    assert table([Reads("backlog", 200, 1.00049)]).splitlines()[2:] == ["| backlog | 200 | 1.000 |"]
