"""The matrix as a table, and its problems."""

from pathlib import Path
from typing import Any

import pytest

from longtests.compat import table
from longtests.compat.cells import Cell, Matrix, Notes, Verdict
from longtests.compat.differences import REASONS
from longtests.compat.registry import Scenario
from longtests.compat.session import Session

CLIENTS = ("java-4.0.0", "go-0.14.0")


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference that has a reason, with one client."""
    monkeypatch.setitem(REASONS, ("commit", "go"), "Go is like that.")


def _nothing(_: Session) -> Any:
    return None


def _matrix(**rows: tuple[Cell, Cell]) -> Matrix:
    scenarios = [Scenario(name, "Theme", f"The row {name}", _nothing) for name in rows]
    matrix = Matrix(scenarios, CLIENTS, seconds=120.0)
    for name, cells in rows.items():
        for client, cell in zip(CLIENTS, cells, strict=True):
            matrix.cells[name, client] = cell
    return matrix


EQUAL, OFFERED_NOT = Cell(Verdict.EQUAL), Cell(Verdict.NOT_OFFERED)
DIFFERENT = Cell(Verdict.DIFFERENT, "owner 1; pool 2")
BROKEN = Cell(Verdict.BROKEN, "at the owner: no")


def test_signs_columns_and_totals() -> None:
    lines = table.table(_matrix(a=(EQUAL, OFFERED_NOT), b=(Cell(Verdict.EQUAL, tries=2), DIFFERENT)))
    assert lines[0].startswith("2 features, 2 clients: 2 cells equal (1 of them at a second try)")
    assert lines[0].endswith("2 minutes.")
    assert "| feature | Java 4.0.0 | Go 0.14.0 |" in lines
    assert "| The row a | = | not offered |" in lines
    assert "| The row b [1] | =² | **≠** |" in lines
    assert lines[-1] == "1. No reason is known: a defect."


def test_the_note_of_a_row_says_why() -> None:
    lines = table.table(_matrix(commit=(EQUAL, DIFFERENT), seek_id=(EQUAL, Cell(Verdict.QUIRK))))
    assert "| The row commit [1] | = | **≠** |" in lines
    assert "| The row seek_id [2] | = | (=) |" in lines
    assert lines[-2].startswith("1. Go is like that.")
    assert lines[-1].startswith("2. Go's older client")


def test_no_two_empty_lines_follow_each_other() -> None:
    lines = table.table(_matrix(a=(EQUAL, EQUAL)))
    assert all(line or before for line, before in zip(lines[1:], lines, strict=False))


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ({"a": (EQUAL, OFFERED_NOT)}, []),
        ({"a": (EQUAL, DIFFERENT)}, ["a, go-0.14.0: different: owner 1; pool 2"]),
        ({"a": (BROKEN, EQUAL)}, ["a, java-4.0.0: fails at the owner: at the owner: no"]),
        ({"commit": (EQUAL, DIFFERENT)}, []),
        ({"commit": (DIFFERENT, DIFFERENT)}, ["commit, java-4.0.0: different: owner 1; pool 2"]),
        (
            {"commit": (EQUAL, EQUAL)},
            ["commit, go-0.14.0: it has a reason, but no longer a difference"],
        ),
        ({"commit": (EQUAL, OFFERED_NOT)}, []),
        ({"commit": (EQUAL, BROKEN)}, ["commit, go-0.14.0: fails at the owner: at the owner: no"]),
        ({"consumer_metadata": (DIFFERENT, DIFFERENT)}, []),
        (
            {"seek_id": (EQUAL, EQUAL)},
            ["seek_id, go-0.14.0: it is right, although a defect of the client is declared"],
        ),
        ({"seek_id": (EQUAL, Cell(Verdict.QUIRK))}, []),
    ],
)
def test_what_is_wrong(rows: dict[str, tuple[Cell, Cell]], wrong: list[str]) -> None:
    assert table.unexplained(_matrix(**rows)) == wrong


def test_the_table_is_put_between_its_marks(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
    for _ in range(2):
        table.write(document, ["new"])
        assert document.read_text() == f"before\n{table.BEGIN}\nnew\n{table.END}\nafter\n"


def test_a_run_goes_on_from_the_notes_of_another(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    notes = Notes(path, resume=False)
    assert notes.cells() == {}
    notes.add("a", "go-0.14.0", DIFFERENT)
    notes.add("b", "go-0.14.0", EQUAL)
    notes.add("a", "go-0.14.0", Cell(Verdict.EQUAL, "", 1.5, tries=2, first="owner 1; pool 2"))
    assert Notes(path, resume=True).cells() == {
        ("a", "go-0.14.0"): Cell(Verdict.EQUAL, "", 1.5, tries=2, first="owner 1; pool 2"),
        ("b", "go-0.14.0"): EQUAL,
    }
    assert Notes(path, resume=False).cells() == {}
