"""Positions of entries in a topic."""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    """Position of an entry, in the order of the log. Entry -1 is before the first entry of its ledger."""

    ledger_id: int
    entry_id: int

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"
