"""The cells of the matrix, and the notes of a run, from which another run can resume."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from longtests.compat.registry import Scenario


class Verdict(Enum):
    """Result of a cell."""

    EQUAL = "equal"
    DIFFERENT = "different"
    QUIRK = "equal at both, but wrong: a defect of the client"
    NOT_OFFERED = "not offered by this client"
    BROKEN = "fails at the owner"


@dataclass(frozen=True, slots=True)
class Cell:
    """One scenario with one client.

    Attributes:
        verdict: its result.
        detail: text for people: the difference, or the error.
        seconds: duration for both targets.
        tries: 2 and more after a first try that was not as expected.
        first: detail of the try before; empty for none.
    """

    verdict: Verdict
    detail: str = ""
    seconds: float = 0.0
    tries: int = 1
    first: str = ""


@dataclass(slots=True)
class Matrix:
    """All cells.

    Attributes:
        scenarios: the rows.
        clients: the columns, by name.
        cells: by scenario's name and client.
        seconds: duration of the run; 0 for a resumed run.
        cursors: keeper of the pool's cursors.
    """

    scenarios: Sequence[Scenario]
    clients: Sequence[str]
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)
    seconds: float = 0.0
    cursors: str = "owner"


class Notes:
    """Results of a run so far, one per line of a file.

    Args:
        path: the file.
        resume: whether to keep the results in it; else it is emptied.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        self._path = path
        if not resume:
            path.unlink(missing_ok=True)

    def cells(self) -> dict[tuple[str, str], Cell]:
        """Return the cells in the file, the last one of each."""
        if not self._path.exists():
            return {}
        cells = {}
        for line in self._path.read_text().splitlines():
            note = json.loads(line)
            scenario, client, verdict = note.pop("scenario"), note.pop("client"), Verdict[note.pop("verdict")]
            cells[scenario, client] = Cell(verdict, **note)
        return cells

    def add(self, scenario: str, client: str, cell: Cell) -> None:
        """Add a cell."""
        note = {**asdict(cell), "scenario": scenario, "client": client, "verdict": cell.verdict.name}
        with self._path.open("a") as notes:
            notes.write(json.dumps(note) + "\n")
