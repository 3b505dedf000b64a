"""Results of the matrix of releases: one cell for each release and suite, kept in a JSON file."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devstack.common.results import save_results

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Cell:
    """Result of one suite on one release.

    Attributes:
        release: release of Pulsar.
        suite: name of the suite.
        command: the command, which repeats the run.
        date: its day in UTC, such as 2026-11-25.
        seconds: its duration.
        passed: whether its exit status was 0.
        figures: counts of its report.
        machine: processors and Python of its machine; empty in older files.
    """

    release: str
    suite: str
    command: str
    date: str
    seconds: float
    passed: bool
    figures: str
    machine: str = ""


def load(path: Path) -> list[Cell]:
    """Return the kept cells; none if there is no file."""
    if not path.exists():
        return []
    return [Cell(**row) for row in json.loads(path.read_text(encoding="utf-8"))]


def merge(kept: list[Cell], cell: Cell) -> list[Cell]:
    """Return the cells with a new result, which replaces that of the same release and suite."""
    return [each for each in kept if (each.release, each.suite) != (cell.release, cell.suite)] + [cell]


def save(path: Path, cells: list[Cell]) -> None:
    """Write the cells, sorted, so that a new result changes its own lines only."""
    rows = sorted((dataclasses.asdict(cell) for cell in cells), key=lambda row: (row["release"], row["suite"]))
    save_results(path, rows)
