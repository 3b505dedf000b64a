"""The table of the storage bench."""

from __future__ import annotations

from bench.storage import BEGIN, DOCUMENT, END, ENGINE, Result, insert, summarize, table


def took(entries, size, wall, cpu):
    return {"entries": entries, "bytes": entries * size, "wall_s": wall, "cpu_s": cpu}


def test_figures_are_medians_of_the_rounds():
    rounds = [took(1000, 1000, wall, cpu) for wall, cpu in ((1.0, 0.5), (4.0, 0.1), (2.0, 0.2))]
    assert summarize("s", "c", rounds) == Result("s", "c", 5000.0, 5.0, 0.5)


def test_the_engine_is_ahead_by_its_entries_per_cpu_second():
    lines = table([Result("s", ENGINE, 3000.0, 30.0, 9.0), Result("s", "java", 2000.0, 20.0, 8.0)]).splitlines()
    assert lines[2:] == ["| s | engine | 3,000 | 30 | 9 |  |", "| s | java | 2,000 | 20 | 8 | 1.50 |"]


def test_the_table_replaces_the_one_before_and_nothing_else():
    once = insert(f"before\n{BEGIN}\nold\n{END}\nafter\n", "new")
    assert once == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    assert insert(once, "new") == once
    assert insert(DOCUMENT.read_text(encoding="utf-8"), "a new table").count(f"{BEGIN}\na new table\n{END}\n") == 1
