"""Copy of a subscription's cursor. The owner's cursor is authoritative.

With acks of single messages of a batch the copy has the bits of the unacked messages, as ManagedCursorImpl with
acknowledgmentAtBatchIndexLevelEnabled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_engine.topic.position import LATEST, Position, PositionRanges

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from readonly_engine.topic.chain import LedgerChain

_NOTHING: Final[frozenset[Position]] = frozenset()
_NO_BATCHES: Final[dict[Position, int]] = {}
_NO_RANGES: Final = PositionRanges()
"""Those of cursors without any; nothing is added here."""

MAX_RANGES_WITH_UNKNOWN: Final = 10_000
"""Number of acked ranges above which acks of entries in unknown ledgers are ignored."""


class CursorReplica:
    """Mark-delete position and the acked ranges after it.

    Args:
        chain: the topic's ledgers, which define the order of positions.
        mark_delete: initial mark-delete position.

    Attributes:
        mark_delete: all entries up to this position are acked.
        owner_mark_delete: mark-delete position that the owner has reported last.
    """

    __slots__ = ("_acked", "_chain", "_unacked", "_withheld", "mark_delete", "owner_mark_delete")

    def __init__(self, chain: LedgerChain, mark_delete: Position) -> None:
        self._chain = chain
        self._acked = _NO_RANGES
        self._unacked = _NO_BATCHES
        self._withheld: set[Position] | frozenset[Position] = _NOTHING  # shared, because few subscriptions have any
        self.mark_delete = self.owner_mark_delete = mark_delete

    def load_acked_ranges(self, ranges: Iterable[tuple[Position, Position]]) -> None:
        """Add acked ranges (lower, upper] of the owner's cursor, such as its individuallyDeletedMessages."""
        self._make_ranges()
        self._acked.add_ranges((max(lower, self.mark_delete), upper) for lower, upper in ranges)
        self._advance()
        self._unacked = {
            batch: bits
            for batch, bits in self._unacked.items()
            if batch > self.mark_delete and batch not in self._acked
        }

    def load_batches(self, batches: Iterable[tuple[Position, int]]) -> None:
        """Add partly acked batches of an earlier consumer, with the bits of their unacked messages."""
        for position, unacked in batches:
            if unacked and not self.is_acked(position):
                self._set_unacked(position, unacked & self._unacked.get(position, unacked))

    def _set_unacked(self, position: Position, bits: int) -> None:
        if self._unacked is _NO_BATCHES:
            self._unacked = {}
        self._unacked[position] = bits

    @property
    def batches(self) -> list[tuple[Position, int]]:
        """The partly acked batches, with the bits of their unacked messages."""
        return list(self._unacked.items())

    @property
    def has_batches(self) -> bool:
        """Whether there are partly acked batches."""
        return bool(self._unacked)

    def unacked_bits(self, position: Position) -> int:
        """Return the bits of the unacked messages of a partly acked batch; 0 for any other entry."""
        return self._unacked.get(position, 0) if self._unacked else 0

    def is_acked(self, position: Position) -> bool:
        """Return whether an entry is acked, or withheld in a transaction, so that it must not be delivered."""
        return position <= self.mark_delete or position in self._acked or position in self._withheld

    def withhold(self, position: Position) -> None:
        """Withhold an entry that is acked in a transaction from delivery until the transaction ends."""
        if isinstance(self._withheld, frozenset):
            self._withheld = set()
        self._withheld.add(position)

    def release(self, position: Position) -> None:
        """Stop withholding an entry after the end of the transaction."""
        if isinstance(self._withheld, set):
            self._withheld.discard(position)

    def accepts_ack(self, position: Position, *, cumulative: bool = False) -> bool:
        """Return whether a client's ack counts. The owner ignores acks of entries after its last (ManagedCursorImpl.asyncDelete).

        The broker delivers only entries that are in the chain, so honest clients ack no others. An ack of a future entry would
        prevent its delivery to every consumer of the subscription. Entry -1 stands for the beginning of a ledger; others below 0
        for nothing.
        """
        if cumulative:
            return position.entry_id >= -1 and not self._chain.beyond(position)
        if not self._chain.holds(position):
            return False
        return len(self._acked) < MAX_RANGES_WITH_UNKNOWN or self._chain.ledger(position.ledger_id) is not None

    def ack(self, position: Position) -> None:
        """Ack one entry."""
        self._unacked.pop(position, None)
        if position > self.mark_delete:
            self._make_ranges()
            self._acked.add(position)
            self._advance()

    def ack_entries(self, entries: Sequence[tuple[int, int]], *, delivered: bool = False) -> None:
        """Ack complete entries for a client.

        Args:
            entries: ledger id and entry id of each, mostly consecutive.
            delivered: whether all were delivered; if not, they are checked as by `accepts_ack`.
        """
        if len(entries) == 1 and self._ack_next(*entries[0]):
            return
        ack_run = self._add_run if delivered else self._ack_range
        if self._unacked:
            for entry in entries:
                self._unacked.pop(Position(*entry), None)
        ledger_id, first = entries[0]
        last = first
        for ledger, entry_id in entries:
            if entry_id == last + 1 and ledger == ledger_id:
                last = entry_id
            elif entry_id != last or ledger != ledger_id:
                ack_run(ledger_id, first, last)
                ledger_id, first, last = ledger, entry_id, entry_id
        ack_run(ledger_id, first, last)
        self._advance()

    def _ack_next(self, ledger_id: int, entry_id: int) -> bool:
        """Ack the entry right after the mark-delete position, if nothing else is acked; return False without effect otherwise."""
        mark_delete = self.mark_delete
        if ledger_id != mark_delete[0] or entry_id != mark_delete[1] + 1 or self._unacked or self._acked:
            return False
        ledger = self._chain.ledger(ledger_id)
        if ledger is None or entry_id > ledger.last_readable:
            return False
        self.mark_delete = Position(ledger_id, entry_id)
        return True

    def ack_partially(self, position: Position, unacked: int) -> int:
        """Ack single messages of a batch.

        Args:
            position: the batch.
            unacked: bits of the messages that this ack leaves unacked.

        Returns:
            Bits of the messages that all acks together leave unacked; 0 if the entry is acked now.
        """
        if self.is_acked(position):
            return 0
        left = unacked & self._unacked.get(position, unacked)
        if left:
            self._set_unacked(position, left)
        else:
            self.ack(position)
        return left

    def ack_cumulative_partially(self, position: Position, unacked: int) -> None:
        """Ack all entries before a batch, and its messages without a bit in `unacked`. An earlier ack of more messages stays."""
        self.ack_cumulative(before_entry(position))
        before = self._unacked.get(position)
        if unacked and not self.is_acked(position) and (before is None or _lowest_bit(unacked) > _lowest_bit(before)):
            self._set_unacked(position, unacked)

    def ack_cumulative(self, position: Position) -> None:
        """Ack all entries up to and including this position."""
        if position > self.mark_delete:
            self.mark_delete = position
            self._acked.remove_up_to(position)
            self._advance()
            if self._unacked:
                self._unacked = {batch: bits for batch, bits in self._unacked.items() if batch > self.mark_delete}

    @property
    def sparse(self) -> bool:
        """Whether `is_acked` differs from a comparison with the mark-delete position."""
        return bool(self._withheld) or bool(self._acked)

    def nothing_acked_after(self, position: Position) -> bool:
        """Return True if no entry at or after a position is acked, even partly. May return False if the check is expensive."""
        return self.nothing_acked_in(position, LATEST)

    def nothing_acked_in(self, first: Position, last: Position) -> bool:
        """As `nothing_acked_after`, for the entries from `first` to `last`."""
        if self._withheld or self._unacked or first <= self.mark_delete:
            return False
        return not self._acked.any_between(Position(first.ledger_id, first.entry_id - 1), last)

    @property
    def acked_ranges(self) -> int:
        """Number of acked ranges after the mark-delete position, which `unacked_up_to` goes through."""
        return len(self._acked)

    @property
    def has_acked_ranges(self) -> bool:
        """Whether entries after the mark-delete position are acked."""
        return bool(self._acked)

    def next_unacked(self, position: Position) -> Position:
        """Return the first unacked position at or after a position, which need not exist (any more)."""
        while True:
            position = self._chain.at_or_after(position)
            if position <= self.mark_delete:
                position = self._chain.after(self.mark_delete)
                continue
            upper = position if position in self._withheld else self._acked.upper_of(position)
            if upper is None:
                return position
            position = self._chain.after(upper)

    def unacked_until(self, position: Position, limit: Position) -> Position:
        """Return the last of the consecutive unacked positions from an unacked one on, at most `limit`."""
        lower = next(self._acked.after(position), (limit, limit))[0]
        return min(lower, limit)

    def acked_beyond(self, position: Position) -> PositionRanges:
        """Return the acked ranges after a position, without acks in open transactions. Takes O(ranges), not O(entries)."""
        acked = PositionRanges()
        acked.add_ranges([(position, self.mark_delete), *self._acked.after(max(position, self.mark_delete))])
        return acked

    @property
    def acked_after_mark_delete(self) -> tuple[tuple[Position, Position], ...]:
        """The acked ranges (lower, upper] after the mark-delete position, without acks in open transactions."""
        return self._acked.copy_after(self.mark_delete)

    def unacked_up_to(self, position: Position) -> int:
        """Return the number of readable unacked entries up to a position."""
        count = self._chain.distance(self.mark_delete, position)
        for lower, upper in self._acked:
            if lower < position:
                count -= self._chain.distance(lower, min(upper, position))
        return max(0, count)

    def first_unacked(self) -> Position:
        """Return the first unacked position of the topic."""
        return self.next_unacked(self._chain.after(self.mark_delete))

    def _ack_range(self, ledger_id: int, first: int, last: int) -> None:
        ledger = self._chain.ledger(ledger_id)
        if ledger is not None:
            last = min(last, ledger.last_readable)
        elif not self.accepts_ack(Position(ledger_id, last)):
            return
        self._add_run(ledger_id, first, last)

    def _add_run(self, ledger_id: int, first: int, last: int) -> None:
        upper = Position(ledger_id, last)
        if upper > self.mark_delete:
            self._make_ranges()
            self._acked.add_range(max(self.mark_delete, Position(ledger_id, first - 1)), upper)

    def _make_ranges(self) -> None:
        if self._acked is _NO_RANGES:
            self._acked = PositionRanges()

    def _advance(self) -> None:
        """Move the mark-delete position over the acked ranges right after it."""
        while self._acked:
            upper = self._acked.upper_of(self._chain.after(self.mark_delete))
            if upper is None:
                return
            self.mark_delete = upper
            self._acked.remove_up_to(upper)


def before_entry(position: Position) -> Position:
    """Return the mark-delete position of which an entry is the next one in its ledger."""
    return Position(position.ledger_id, max(position.entry_id, 0) - 1)


def _lowest_bit(bits: int) -> int:
    """Return the index of the lowest set bit, plus 1; 0 for no bit."""
    return (bits & -bits).bit_length()
