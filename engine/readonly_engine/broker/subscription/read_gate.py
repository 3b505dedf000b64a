"""What transactions let one subscription deliver: nothing from an open one on, and nothing of an aborted one (PIP-31)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from readonly_engine.broker.dispatch.cursor import CursorReplica
    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.position import Position
    from readonly_engine.topic.transactions import TopicTransactions


class TransactionReadGate:
    """Costs nothing until a message of a transaction is met, or one may be open that the subscription will never read.

    Args:
        transactions: of the topic.
        chain: its ledgers.
        cursor: where the subscription stands.
    """

    __slots__ = ("_chain", "_cursor", "_start", "_transactions")

    def __init__(self, transactions: TopicTransactions, chain: LedgerChain, cursor: CursorReplica) -> None:
        self._transactions = transactions
        self._chain = chain
        self._cursor = cursor
        self._start: Position | None = None

    def check_open_transactions(self, last: Position) -> None:
        """Find transactions that are open when the subscription starts, with messages before it that it will never read.

        Args:
            last: the owner lets consumers read up to here, so no transaction with messages up to here is open.
        """
        following = self._chain.after(last)
        if self._start is None and following < self._cursor.first_unacked():
            self._start = following

    def allows(self, position: Position) -> bool:
        """Whether plain entries up to a position can go out without a look at them."""
        return self._start is None and self._transactions.allows(position)

    def readable(self, entries: list[TopicEntry]) -> list[TopicEntry]:
        """Those of the next entries that consumers may get or that are filtered: what lies before the first open transaction.

        Where entries do not tell of their transactions, the owner does.
        """
        if self._start is None:
            self._start = next((entry.position for entry in entries if entry.in_transaction), None)
            if self._start is None:
                return self._transactions.permitted(entries)
        index = self._transactions.index(self._start)
        self._transactions.advance(index, entries[-1].position)
        decided = [entry for entry in entries if entry.position < index.limit]
        return self._transactions.permitted(decided) if decided else []

    def aborted(self, entry: TopicEntry) -> bool:
        """Whether an entry is of a transaction that was aborted."""
        return (
            entry.txn is not None
            and self._start is not None
            and self._transactions.index(self._start).aborted(entry.txn)
        )
