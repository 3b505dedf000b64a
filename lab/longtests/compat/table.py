"""The matrix of clients and features as a table of docs/reference/compatibility.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from longtests.compat.cells import Verdict
from longtests.compat.differences import SOMETIMES, quirk, reason

if TYPE_CHECKING:
    from pathlib import Path

    from longtests.compat.cells import Cell, Matrix

BEGIN: Final = "<!-- made by make -C lab compat: begin -->"
END: Final = "<!-- made by make -C lab compat: end -->"

_SIGNS: Final = {
    Verdict.EQUAL: "=",
    Verdict.DIFFERENT: "**≠**",
    Verdict.QUIRK: "(=)",
    Verdict.NOT_OFFERED: "not offered",
    Verdict.BROKEN: "**!**",
}


def unexplained(matrix: Matrix) -> list[str]:
    """Return problems: differences without a reason, rows that fail, reasons that do not apply."""
    wrong: list[str] = []
    for scenario in matrix.scenarios:
        for client in matrix.clients:
            cell = matrix.cells[scenario.name, client]
            why, fault = reason(scenario.name, client, matrix.cursors), quirk(scenario.name, client)
            if cell.verdict is Verdict.BROKEN or (cell.verdict is Verdict.DIFFERENT and not why):
                wrong.append(f"{scenario.name}, {client}: {cell.verdict.value}: {cell.detail}")
            if cell.verdict is Verdict.EQUAL and why and why not in SOMETIMES:
                wrong.append(f"{scenario.name}, {client}: it has a reason, but no longer a difference")
            if cell.verdict is Verdict.EQUAL and fault and fault not in SOMETIMES:
                wrong.append(f"{scenario.name}, {client}: it is right, although a defect of the client is declared")
    return wrong


def table(matrix: Matrix) -> list[str]:
    """Return the lines between BEGIN and END."""
    total = {verdict: sum(cell.verdict is verdict for cell in matrix.cells.values()) for verdict in Verdict}
    twice = sum(cell.tries > 1 and cell.verdict is Verdict.EQUAL for cell in matrix.cells.values())
    lines = [
        (
            f"{len(matrix.scenarios)} features, {len(matrix.clients)} clients: {total[Verdict.EQUAL]} cells equal"
            f" ({twice} of them at a second try), {total[Verdict.QUIRK]} equally wrong by a fault of the client,"
            f" {total[Verdict.DIFFERENT]} different,"
            f" {total[Verdict.NOT_OFFERED]} not offered by the client, {total[Verdict.BROKEN]} failed at the owner"
            + (f"; {matrix.seconds / 60:.0f} minutes." if matrix.seconds else ".")
        ),
        "",
    ]
    notes: list[str] = []
    theme = ""
    header = " | ".join(_column(client) for client in matrix.clients)
    for scenario in matrix.scenarios:
        if scenario.theme != theme:
            theme = scenario.theme
            lines += ["", f"### {theme}", "", f"| feature | {header} |", f"|---|{'---|' * len(matrix.clients)}"]
        cells = [matrix.cells[scenario.name, client] for client in matrix.clients]
        mark = ""
        faults = {
            _why(scenario.name, client, cell, matrix.cursors)
            for client, cell in zip(matrix.clients, cells, strict=True)
        } - {""}
        if faults:
            notes.append(" ".join(sorted(faults)))
            mark = f" [{len(notes)}]"
        lines.append(f"| {scenario.title}{mark} | {' | '.join(_cell(cell) for cell in cells)} |")
    if notes:
        lines += ["", "### Reasons of differences", "", *(f"{n}. {note}" for n, note in enumerate(notes, 1))]
    return [line for line, before in zip(lines, ["x", *lines], strict=False) if line or before]


def _why(scenario: str, client: str, cell: Cell, cursors: str) -> str:
    match cell.verdict:
        case Verdict.QUIRK:
            return quirk(scenario, client)
        case Verdict.DIFFERENT:
            return reason(scenario, client, cursors) or "No reason is known: a defect."
        case Verdict.BROKEN:
            return f"Not compared with {client} in this run: it failed at the owner, or its driver failed, twice."
        case _:
            return ""


def _cell(cell: Cell) -> str:
    return _SIGNS[cell.verdict] + ("²" if cell.tries > 1 and cell.verdict is Verdict.EQUAL else "")


def _column(client: str) -> str:
    language, _, version = client.partition("-")
    return f"{language.capitalize()} {version}"


def write(document: Path, lines: list[str]) -> None:
    """Write the lines to a page, between BEGIN and END."""
    text = document.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    document.write_text("\n".join([before + BEGIN, *lines, END]) + after)
