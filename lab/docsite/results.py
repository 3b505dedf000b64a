"""Results that test runs have left in files: JSON beside the tests, and tables between marks in pages of docs/."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

UNKNOWN: Final = "not recorded"
"""For the day and the machine of results whose files have none."""

STAMP: Final = re.compile(r"<!-- run of (\d{4}-\d\d-\d\d); ([^>]+) -->\n")
"""The line of tests/support/stamp.py, after the first mark."""


class ResultsError(Exception):
    """A file of results is missing, or has another form."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a command wrote between its marks.

    Attributes:
        day: of the run, such as 2026-11-25; UNKNOWN if it is not recorded.
        machine: processors and Python; UNKNOWN if it is not recorded.
        note: text before the first table.
        tables: each with its rows of cells, the head first.
    """

    day: str
    machine: str
    note: str
    tables: tuple[tuple[tuple[str, ...], ...], ...]


def written(page: Path, mark: str) -> Written:
    """Return what stands between `<!-- MARK: written by ... -->` and `<!-- end of MARK -->`.

    Raises:
        ResultsError: the page does not have both marks.
    """
    form = rf"<!-- {re.escape(mark)}: (?:written|made) by [^>]*-->\n(.*?)\n?<!-- end of {re.escape(mark)} -->"
    found = re.search(form, _text(page), re.DOTALL)
    if found is None:
        raise ResultsError(f"{page.name}: there is no part between the marks of {mark!r}")
    day, machine, text = stamped(found[1])
    tables: list[list[tuple[str, ...]]] = []
    notes: list[str] = []
    inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
            if not tables and line:
                notes.append(line)
        elif not set(line) <= set("|-: "):
            if not inside:
                tables.append([])
            inside = True
            tables[-1].append(tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))))
    return Written(day, machine, " ".join(notes), tuple(tuple(rows) for rows in tables))


def stamped(text: str) -> tuple[str, str, str]:
    """Return the day and the machine of the first line, and the text after it; UNKNOWN and the whole text without such a line."""
    found = STAMP.match(text)
    return (found[1], found[2], text[found.end() :]) if found else (UNKNOWN, UNKNOWN, text)


def column(table: tuple[tuple[str, ...], ...], name: str, last: bool = False) -> list[str]:
    """Return the cells of a column.

    Args:
        table: the rows, the head first.
        name: its head.
        last: of several columns with this head, the last one.

    Raises:
        ResultsError: there is no such column, or a row is shorter.
    """
    places = [index for index, head in enumerate(table[0]) if head == name]
    if not places:
        raise ResultsError(f"a table has no column {name!r}; it has {', '.join(table[0])}")
    place = places[-1] if last else places[0]
    if any(len(row) <= place for row in table):
        raise ResultsError(f"a row of the table with the column {name!r} is too short")
    return [row[place] for row in table[1:]]


def total(cells: list[str]) -> int:
    """Return the sum of numbers such as `1,543`.

    Raises:
        ResultsError: a cell is no number.
    """
    try:
        return sum(int(cell.replace(",", "")) for cell in cells)
    except ValueError as error:
        raise ResultsError(f"a cell of a table is no number: {error}") from error


def records(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON file.

    Raises:
        ResultsError: it is missing, or no list of objects.
    """
    try:
        found = json.loads(_text(path))
    except ValueError as error:
        raise ResultsError(f"{path.name}: no JSON: {error}") from error
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ResultsError(f"{path.name}: must be a list of objects")
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ResultsError(f"{path.name}: {error.strerror}") from error
