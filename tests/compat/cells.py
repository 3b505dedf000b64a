"""The cells of the matrix, and the notes of a run, from which another one can go on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.compat.registry import Scenario


class Verdict(Enum):
    """What a cell says."""

    EQUAL = "equal"
    DIFFERENT = "different"
    QUIRK = "the same at both, but not right: the client's own fault"
    NOT_OFFERED = "not offered by this client"
    BROKEN = "fails at the owner"


@dataclass(frozen=True, slots=True)
class Cell:
    """One scenario with one client.

    Attributes:
        verdict: what came of it.
        detail: for people: how the two differ, or what went wrong.
        seconds: for both targets together.
        tries: 2 and more when the first try was not as expected.
        first: the detail of the try before, when there was one.
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
        seconds: the whole run; 0 when it went on with another one.
    """

    scenarios: Sequence[Scenario]
    clients: Sequence[str]
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)
    seconds: float = 0.0


class Notes:
    """What has come of a run so far, line by line in a file.

    Args:
        path: the file.
        resume: whether to take over what is in it; else it begins anew.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        self._path = path
        if not resume:
            path.unlink(missing_ok=True)

    def cells(self) -> dict[tuple[str, str], Cell]:
        """The cells noted so far, the last of each."""
        if not self._path.exists():
            return {}
        cells = {}
        for line in self._path.read_text().splitlines():
            note = json.loads(line)
            scenario, client, verdict = note.pop("scenario"), note.pop("client"), Verdict[note.pop("verdict")]
            cells[scenario, client] = Cell(verdict, **note)
        return cells

    def add(self, scenario: str, client: str, cell: Cell) -> None:
        """Note a cell."""
        note = {**asdict(cell), "scenario": scenario, "client": client, "verdict": cell.verdict.name}
        with self._path.open("a") as notes:
            notes.write(json.dumps(note) + "\n")
