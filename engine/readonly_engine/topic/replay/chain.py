"""The ledgers of a topic up to the last released entry: a pure state machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_engine.small_map import SmallMap
from readonly_engine.topic.chain import NONE_READABLE, ChainedLedger, LedgerChain
from readonly_engine.topic.position import Position

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.wire.ledgers import LedgerMetadata
    from readonly_engine.wire.managed_ledger_pb2 import ManagedLedgerInfo

NOTHING: Final = Position(-1, -1)
"""No entry is released."""


class ReleasedChain(LedgerChain):
    """Shows the ledgers up to the last released entry; `stored` has all of them.

    A ledger of which some entries are not released looks open, so that the topic may grow there.

    Args:
        on_stored: called after every change of the stored ledgers.
    """

    def __init__(self, on_stored: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._stored = LedgerChain()
        self._end = NOTHING
        self._on_stored = on_stored

    @property
    def stored(self) -> LedgerChain:
        """All ledgers, released or not."""
        return self._stored

    @property
    def end(self) -> Position:
        """The last released entry; NOTHING for none."""
        return self._end

    def release(self, last: Position) -> bool:
        """Release the entries up to a stored one; ignore an earlier one than before. Return whether more may be read."""
        if last <= self._end:
            return False
        same_ledger, self._end = last.ledger_id == self._end.ledger_id, last
        before = self.limit
        if same_ledger and last.ledger_id in self._ledgers:
            self._show_ledger(last.ledger_id)  # each entry is released so: the work must not grow with the ledgers
            if self._first_open in {None, last.ledger_id}:
                self._first_open = None if self._ledgers[last.ledger_id].closed else last.ledger_id
            self._show_terminated()
        else:
            self._show()
        return self.limit != before

    def restart(self) -> None:
        """Release nothing any more: the clock has jumped."""
        self._end = NOTHING
        self._show()

    def topic_changed(self, info: ManagedLedgerInfo | None) -> None:
        """Apply the topic's list of ledgers; None if the topic does not exist (any more)."""
        self._stored.topic_changed(info)
        self._show()
        self._on_stored()

    def ledger_changed(self, ledger_id: int, metadata: LedgerMetadata) -> None:
        """Apply a ledger's own metadata."""
        self._stored.ledger_changed(ledger_id, metadata)
        self._show()
        self._on_stored()

    def lac_advanced(self, ledger_id: int, lac: int) -> bool:
        """Apply a LAC of an open ledger; return False: more may be read after its release only."""
        if self._stored.lac_advanced(ledger_id, lac):
            self._on_stored()
        return False

    def lost(self, start: Position, end: Position) -> int:
        """Return the number of entries between two positions in removed ledgers, released or not."""
        return self._stored.lost(start, end)

    def _show(self) -> None:
        self.exists = self._stored.exists
        self._ledgers, order = SmallMap(), []
        for ledger_id in self._stored.ledger_ids:
            if ledger_id > self._end.ledger_id:
                break
            order.append(ledger_id)
            self._show_ledger(ledger_id)
        self._order = tuple(order)
        self._first_open = next((one for one in self._order if not self._ledgers[one].closed), None)
        self._show_terminated()

    def _show_ledger(self, ledger_id: int) -> None:
        ledger = self._stored.ledger(ledger_id)
        assert ledger is not None
        last, closed = ledger.last_readable, ledger.closed
        if ledger_id == self._end.ledger_id and last > self._end.entry_id:
            last, closed = max(self._end.entry_id, NONE_READABLE), False
        self._ledgers[ledger_id] = ChainedLedger(ledger_id, last, closed)

    def _show_terminated(self) -> None:
        self.terminated = self._stored.terminated and self.limit == self._stored.limit
