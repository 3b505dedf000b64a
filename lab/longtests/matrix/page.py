"""The matrix as a table of docs/reference/releases.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from longtests.matrix.suites import SUITES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtests.matrix.cells import Cell

BEGIN: Final = "<!-- matrix: written by make -C lab matrix -->"
END: Final = "<!-- end of matrix -->"


def table(cells: Sequence[Cell]) -> list[str]:
    """Return the table, with a row for each cell, by release and in the order of SUITES."""
    order = {suite.name: index for index, suite in enumerate(SUITES)}
    rows = sorted(cells, key=lambda cell: (cell.release, order.get(cell.suite, len(order))))
    return [
        "| release | suite | date | result | minutes | figures | command |",
        "|---|---|---|---|---:|---|---|",
        *(
            f"| {cell.release} | {cell.suite} | {cell.date} | {'passed' if cell.passed else '**failed**'} "
            f"| {cell.seconds / 60:.1f} | {cell.figures} | `{cell.command}` |"
            for cell in rows
        ),
    ]
