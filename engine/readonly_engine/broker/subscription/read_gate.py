"""Transactions and delivery (PIP-31): a subscription gets no entries from an open transaction on, and none of an aborted one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.wire.entry_view import summarize

if TYPE_CHECKING:
    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.position import Position
    from readonly_engine.topic.transactions import TopicTransactions


class TransactionReadGate:
    """Filters the entries of one subscription by the state of their transactions.

    It costs nothing before the first message of a transaction, unless an open transaction may have messages before the
    subscription's start.

    Args:
        transactions: transactions of the topic.
    """

    __slots__ = ("_start", "_transactions")

    def __init__(self, transactions: TopicTransactions) -> None:
        self._transactions = transactions
        self._start: Position | None = None

    def check_open_transactions(self, following: Position, start: Position) -> None:
        """Find open transactions with messages before the start of the subscription, which it never reads.

        Args:
            following: the position after the last one up to which the owner lets consumers read: no earlier message is of an open
                transaction.
            start: the first position that the subscription reads.
        """
        if self._start is None and following < start:
            self._start = following

    def allows(self, position: Position) -> bool:
        """Return whether plain entries up to a position can be delivered without `readable`."""
        return self._start is None and self._transactions.allows(position)

    def readable(self, entries: list[TopicEntry]) -> list[TopicEntry]:
        """Return the entries before the first open transaction. Callers filter those of aborted ones by `aborted`.

        If entries do not show their transactions, the owner decides.
        """
        if self._start is None:
            if not summarize(entries)[2]:
                self._start = next((entry.position for entry in entries if entry.in_transaction), None)
            if self._start is None:
                return self._transactions.permitted(entries)
        index = self._transactions.index(self._start)
        self._transactions.advance(index, entries[-1].position)
        decided = [entry for entry in entries if entry.position < index.limit]
        return self._transactions.permitted(decided) if decided else []

    def aborted(self, entry: TopicEntry) -> bool:
        """Return whether an entry belongs to an aborted transaction."""
        return (
            entry.txn is not None
            and self._start is not None
            and self._transactions.index(self._start).aborted(entry.txn)
        )
