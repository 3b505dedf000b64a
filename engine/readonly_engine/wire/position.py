"""Where an entry of a topic stands."""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    """An entry of a topic; ordered as the log is. Entry -1 stands before the first entry of its ledger."""

    ledger_id: int
    entry_id: int

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"
