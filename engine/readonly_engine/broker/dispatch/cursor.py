"""The engine's copy of a subscription's cursor: what is acked, and what comes next. The owner's own is the truth.

Of a batch single messages can be acked: then the copy has the bits of those that are not, as ManagedCursorImpl does where
acknowledgmentAtBatchIndexLevelEnabled is set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_engine.topic.position import Position, PositionRanges

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from readonly_engine.topic.chain import LedgerChain

_NOTHING: Final[frozenset[Position]] = frozenset()

MAX_RANGES_WITH_UNKNOWN: Final = 10_000
"""Ranges of acked entries, beyond which acks of entries in unknown ledgers are not kept."""


class CursorReplica:
    """Mark-delete position and the acked positions behind it.

    Args:
        chain: the topic's ledgers, which say what follows what.
        mark_delete: everything up to here is acked.

    Attributes:
        mark_delete: everything up to here is acked.
        owner_mark_delete: up to here the owner has said that everything is acked.
    """

    __slots__ = ("_acked", "_chain", "_unacked", "_withheld", "mark_delete", "owner_mark_delete")

    def __init__(self, chain: LedgerChain, mark_delete: Position) -> None:
        self._chain = chain
        self._acked = PositionRanges()
        self._unacked: dict[Position, int] = {}
        self._withheld: set[Position] | frozenset[Position] = _NOTHING  # one for all: few subscriptions have any
        self.mark_delete = self.owner_mark_delete = mark_delete

    def load_acked_ranges(self, ranges: Iterable[tuple[Position, Position]]) -> None:
        """Take what is acked at the owner: ranges (lower, upper], such as its individually deleted messages."""
        self._acked.add_ranges((max(lower, self.mark_delete), upper) for lower, upper in ranges)
        self._advance()
        self._unacked = {
            batch: bits
            for batch, bits in self._unacked.items()
            if batch > self.mark_delete and batch not in self._acked
        }

    def load_batches(self, batches: Iterable[tuple[Position, int]]) -> None:
        """Take what others know of batches that are acked in part: the bits of the messages that are not."""
        for position, unacked in batches:
            if unacked and not self.is_acked(position):
                self._unacked[position] = unacked & self._unacked.get(position, unacked)

    @property
    def batches(self) -> list[tuple[Position, int]]:
        """The batches that are acked in part, with the bits of the messages that are not."""
        return list(self._unacked.items())

    def unacked_bits(self, position: Position) -> int:
        """Of a batch that is acked in part, the messages that are not, as bits; 0 for one that is not acked at all."""
        return self._unacked.get(position, 0) if self._unacked else 0

    def is_acked(self, position: Position) -> bool:
        """Whether the entry must not be delivered any more, or not now."""
        return position <= self.mark_delete or position in self._acked or position in self._withheld

    def withhold(self, position: Position) -> None:
        """An entry is acked in a transaction, which may be aborted: until it ends the entry is not delivered."""
        if isinstance(self._withheld, frozenset):
            self._withheld = set()
        self._withheld.add(position)

    def release(self, position: Position) -> None:
        """The transaction has ended."""
        if isinstance(self._withheld, set):
            self._withheld.discard(position)

    def accepts_ack(self, position: Position, *, cumulative: bool = False) -> bool:
        """Whether a client's ack counts: the owner ignores one of a later entry than its last (ManagedCursorImpl.asyncDelete).

        A broker delivers no entry before the chain knows it, so an honest client acks none either. An ack of an entry that is
        still to come would keep it from every consumer of the subscription.
        """
        if cumulative:
            return not self._chain.beyond(position)
        if not self._chain.holds(position):
            return False
        return len(self._acked) < MAX_RANGES_WITH_UNKNOWN or self._chain.ledger(position.ledger_id) is not None

    def ack(self, position: Position) -> None:
        """One entry is acked."""
        self._unacked.pop(position, None)
        if position > self.mark_delete:
            self._acked.add(position)
            self._advance()

    def ack_entries(self, entries: Sequence[tuple[int, int]], *, delivered: bool = False) -> None:
        """Take a client's ack of whole entries.

        Args:
            entries: ledger and entry of each, mostly in a row.
            delivered: whether the entries are known to have been delivered; otherwise see `accepts_ack`.
        """
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

    def ack_partially(self, position: Position, unacked: int) -> int:
        """Messages of a batch are acked.

        Args:
            position: the batch.
            unacked: the messages that this ack leaves, as bits.

        Returns:
            The messages that are left after all acks, as bits; with 0 the entry is acked.
        """
        if self.is_acked(position):
            return 0
        left = unacked & self._unacked.get(position, unacked)
        if left:
            self._unacked[position] = left
        else:
            self.ack(position)
        return left

    def ack_cumulative_partially(self, position: Position, unacked: int) -> None:
        """Every entry before a batch is acked, and of the batch all messages but these; an earlier ack went further or not."""
        self.ack_cumulative(Position(position.ledger_id, position.entry_id - 1))
        before = self._unacked.get(position)
        if unacked and not self.is_acked(position) and (before is None or _lowest_bit(unacked) > _lowest_bit(before)):
            self._unacked[position] = unacked

    def ack_cumulative(self, position: Position) -> None:
        """Every entry up to and including this one is acked."""
        if position > self.mark_delete:
            self.mark_delete = position
            self._acked.remove_up_to(position)
            self._advance()
            if self._unacked:
                self._unacked = {batch: bits for batch, bits in self._unacked.items() if batch > self.mark_delete}

    @property
    def sparse(self) -> bool:
        """Whether `is_acked` says more than a comparison with the mark-delete position."""
        return bool(self._withheld) or bool(self._acked)

    def nothing_acked_after(self, position: Position) -> bool:
        """Whether nothing at or after a position is acked, not in part either. May say no where it takes long to find out."""
        if self._withheld or self._unacked or position <= self.mark_delete:
            return False
        return not self._acked.any_after(Position(position.ledger_id, position.entry_id - 1))

    @property
    def has_acked_ranges(self) -> bool:
        """Whether entries behind the mark-delete position are acked."""
        return bool(self._acked)

    def next_unacked(self, position: Position) -> Position:
        """The first position at or after this one that is not acked; `position` itself need not exist (any more)."""
        while True:
            position = self._chain.at_or_after(position)
            if position <= self.mark_delete:
                position = self._chain.after(self.mark_delete)
                continue
            upper = position if position in self._withheld else self._acked.upper_of(position)
            if upper is None:
                return position
            position = self._chain.after(upper)

    def acked_beyond(self, position: Position) -> PositionRanges:
        """What is acked behind a position, not only in a transaction: O(holes), however much was acked."""
        acked = PositionRanges()
        acked.add_ranges([(position, self.mark_delete), *self._acked.after(max(position, self.mark_delete))])
        return acked

    def unacked_up_to(self, position: Position) -> int:
        """How many readable entries up to a position are not acked."""
        count = self._chain.distance(self.mark_delete, position)
        for lower, upper in self._acked:
            if lower < position:
                count -= self._chain.distance(lower, min(upper, position))
        return max(0, count)

    def first_unacked(self) -> Position:
        """Where delivery starts over."""
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
            self._acked.add_range(max(self.mark_delete, Position(ledger_id, first - 1)), upper)

    def _advance(self) -> None:
        """Move the mark-delete position over what is acked right behind it."""
        while self._acked:
            upper = self._acked.upper_of(self._chain.after(self.mark_delete))
            if upper is None:
                return
            self.mark_delete = upper
            self._acked.remove_up_to(upper)


def _lowest_bit(bits: int) -> int:
    """The index of the lowest bit that is set."""
    return (bits & -bits).bit_length()
