"""Transactions of a topic (PIP-31): which messages are committed, and how far consumers may read."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.topic.max_read_position import MaxReadPosition
from readonly_engine.topic.position import Position

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.log import TopicLog

log = logging.getLogger(__name__)

SCAN_ENTRIES = 100
"""Entries that are read at once in search of markers."""

FEED_ENTRIES = 1000
"""Entries out of the cache that are looked into in one turn of the event loop."""

RETRY_S = (0.1, 5.0)

ASK_OWNER_S = (1.0, 30.0)
"""First and longest pause before the owner is asked whether a transaction is open. Most end sooner."""


class OwnerTransaction(NamedTuple):
    """What a topic's owner knows of a transaction (TransactionInBufferStats).

    Attributes:
        open: whether it keeps messages back for it.
        aborted: whether it knows that it was aborted; without both, it delivers the transaction's messages.
        last_entry: the topic's last entry, known after that; None unless the owner does not know the transaction.
    """

    open: bool
    aborted: bool
    last_entry: Position | None = None


class TransactionIndex:
    """Knows of the transactions with messages from one position on, because it was shown every entry since then.

    A transaction is open from its first message to its marker. Consumers read nothing from the first message of the first open
    transaction on (TopicTransactionBuffer.getMaxReadPosition), and no message of an aborted one.

    What it keeps is bounded by the transactions that are open, and those aborted in ledgers that are not trimmed yet.

    Args:
        start: the first entry that it will be shown. No transaction with messages before it may be open.
    """

    def __init__(self, start: Position) -> None:
        self.start = start
        self.next = start
        self._open: dict[tuple[int, int], Position] = {}  # in the order of their first messages
        self._aborted: dict[tuple[int, int], int] = {}  # with the ledger of their marker, or of a later message

    @property
    def first_open(self) -> Position | None:
        """The first message of the first open transaction; None where none is open."""
        return next(iter(self._open.values()), None)

    @property
    def first_open_transaction(self) -> tuple[int, int] | None:
        """The id of the first open transaction; None where none is open."""
        return next(iter(self._open), None)

    def is_first_open(self, txn: tuple[int, int]) -> bool:
        """Return whether a transaction is the first open one."""
        return self.first_open_transaction == txn

    @property
    def limit(self) -> Position:
        """Consumers may read what lies before it: all transactions there have ended, and how they did is known."""
        return self.first_open or self.next

    @property
    def open_transactions(self) -> int:
        """How many transactions are open."""
        return len(self._open)

    def aborted(self, txn: tuple[int, int]) -> bool:
        """Whether a transaction with messages before the limit was aborted."""
        return txn in self._aborted

    def feed(self, entries: Iterable[TopicEntry]) -> None:
        """Show it the next entries: in order, without a gap; those that it has seen are left out."""
        for entry in entries:
            position = entry.position
            if position < self.next:
                continue
            self.next = Position(position.ledger_id, position.entry_id + 1)
            txn = entry.txn
            if txn is None:
                continue
            if not entry.marker:
                # A message that arrives after the end of an aborted transaction belongs to it; after a commit it opens it anew.
                if txn in self._aborted:
                    self._aborted[txn] = position.ledger_id
                else:
                    self._open.setdefault(txn, position)
            else:
                self._open.pop(txn, None)
                if entry.aborts:
                    self._aborted[txn] = position.ledger_id

    def end(self, txn: tuple[int, int], *, aborted: bool) -> None:
        """End an open transaction without its marker: the owner says so, and the marker may be before the start."""
        if self._open.pop(txn, None) is not None and aborted:
            self._aborted[txn] = self.next.ledger_id

    def trimmed(self, first_ledger: int) -> None:
        """The ledgers before this one are gone, and the messages of transactions that were aborted there with them."""
        if any(ledger_id < first_ledger for ledger_id in self._aborted.values()):
            self._aborted = {txn: ledger for txn, ledger in self._aborted.items() if ledger >= first_ledger}


class TopicTransactions:
    """The transactions of one topic, for all its subscriptions: reads ahead of them in search of markers, as far as they need.

    Costs nothing until a subscription meets a message of a transaction, or the cluster is known to have transactions at all: then
    the owner is asked at the tail, see MaxReadPosition.

    Args:
        log_: the topic.
        last_message: asks the owner for the last message that it delivers; None where it does not say.
        exact_limit: asks it how far exactly it lets consumers read; None where it does not say.
        ask_transaction: asks it about a transaction (most and least significant bits of the id); None where it does not say.
    """

    def __init__(
        self,
        log_: TopicLog,
        last_message: Callable[[], Awaitable[Position | None]],
        exact_limit: Callable[[], Awaitable[Position | None]],
        ask_transaction: Callable[[tuple[int, int]], Awaitable[OwnerTransaction | None]],
    ) -> None:
        self._log = log_
        self._ask_transaction = ask_transaction
        self._questions: dict[TransactionIndex, asyncio.Task[None]] = {}
        self._max_read_position = MaxReadPosition(last_message, exact_limit, self._notify_listeners)
        self._indexes: list[TransactionIndex] = []
        self._scans: dict[TransactionIndex, asyncio.Task[None]] = {}
        self._listeners: set[Callable[[], None]] = set()

    @property
    def used(self) -> bool:
        """Whether the topic has messages of transactions, as far as anybody has read."""
        return bool(self._indexes) or self._max_read_position.held

    @property
    def open_transactions(self) -> int:
        """How many transactions are open, as far as was read."""
        return max((index.open_transactions for index in self._indexes), default=0)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call when a read ahead has found something."""
        self._listeners.add(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Call no more."""
        self._listeners.discard(listener)

    def guard(self) -> None:
        """From now on deliver nothing before the owner does: the cluster has transactions."""
        self._max_read_position.active = True

    @property
    def guarded(self) -> bool:
        """Whether the owner must be asked before anything is delivered."""
        return self._max_read_position.active

    def on_last_entry(self, position: Position) -> None:
        """The owner has said that consumers may read up to a position."""
        self._max_read_position.notify(position)

    def allows(self, position: Position) -> bool:
        """Whether the owner would deliver entries that are in no transaction, up to this one, as far as is known."""
        return self._max_read_position.allows(position)

    def permitted(self, entries: list[TopicEntry]) -> list[TopicEntry]:
        """Those of the next entries, of which there is one at least, that the owner would deliver now.

        For the others it is asked: when it permits more the listeners are called.
        """
        limit = self._max_read_position
        wanted = entries[-1].position
        if limit.allows(wanted):
            return entries
        limit.request(wanted, self._log.chain.limit or wanted)
        return [entry for entry in entries if limit.allows(entry.position)]

    def index(self, start: Position) -> TransactionIndex:
        """An index that was shown every entry from a position on, or will be.

        The newest that reaches back far enough, unless an older one has caught up with it: then the older one serves both.
        """
        fitting = [index for index in self._indexes if index.start <= start]
        if not fitting:
            index = TransactionIndex(start)
            self._indexes.append(index)
            return index
        chosen = max(fitting, key=lambda index: index.start)
        caught_up = [index for index in fitting if index.start < chosen.start and index.next >= chosen.next]
        if caught_up:
            self._drop(chosen)
            chosen = max(caught_up, key=lambda index: index.start)
        return chosen

    def advance(self, index: TransactionIndex, wanted: Position) -> None:
        """Make an index's limit move beyond a wanted position, now or later: then the listeners are called."""
        chain = self._log.chain
        if chain.ledger_ids:
            index.trimmed(chain.ledger_ids[0])
        fed = 0
        while index.limit <= wanted and index not in self._scans and fed < FEED_ENTRIES:
            following = chain.at_or_after(index.next)
            entries = self._log.cached(following, SCAN_ENTRIES)
            index.feed(entries)
            fed += len(entries)
            if not entries:
                break
        if index.limit <= wanted and index not in self._scans and chain.readable(chain.at_or_after(index.next)):
            scan = self._scans[index] = asyncio.create_task(self._scan(index, wanted))
            scan.add_done_callback(lambda task: self._scan_ended(index, task))
        txn = index.first_open_transaction
        if txn is not None and index.limit <= wanted and index not in self._questions:
            question = self._questions[index] = asyncio.create_task(self._find_end(index, txn))
            question.add_done_callback(lambda task: self._question_ended(index, task))

    def close(self) -> None:
        """Read no more."""
        for task in (*self._scans.values(), *self._questions.values()):
            task.cancel()
        self._max_read_position.close()
        self._listeners.clear()

    def _drop(self, index: TransactionIndex) -> None:
        self._indexes.remove(index)
        for task in (self._scans.get(index), self._questions.get(index)):
            if task is not None:
                task.cancel()

    async def _scan(self, index: TransactionIndex, wanted: Position) -> None:
        """Read on until the wanted position is decided, or to the end that there is now."""
        pause = RETRY_S[0]
        chain = self._log.chain
        while index.limit <= wanted and chain.readable(following := chain.at_or_after(index.next)):
            try:
                entries = await self._log.read(following, SCAN_ENTRIES)
            except BookKeeperError as error:
                log.warning(
                    "%s: markers of transactions are searched: %s; trying again in %.1f s",
                    self._log.topic,
                    error,
                    pause,
                )
                await asyncio.sleep(pause)
                pause = min(2 * pause, RETRY_S[1])
                continue
            pause = RETRY_S[0]
            index.feed(entries)

    def _scan_ended(self, index: TransactionIndex, task: asyncio.Task[None]) -> None:
        self._scans.pop(index, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            log.error("%s: the search for markers of transactions failed", self._log.topic, exc_info=error)
            return
        self._notify_listeners()

    async def _find_end(self, index: TransactionIndex, txn: tuple[int, int]) -> None:
        """Ask the owner about the first open transaction, until it has ended.

        A producer may store a message of a transaction that timed out meanwhile, behind the transaction's marker. An owner keeps
        the ids of aborted transactions and skips such messages (TopicTransactionBuffer.handleTransactionMessage). An index that
        begins behind the marker takes the transaction for an open one, and no other marker follows.

        An owner that has lost its snapshots does not know the transaction, and delivers the message. So does this broker, once
        the owner has said so twice and no marker was found up to the end that the topic had the first time.
        """
        pause = ASK_OWNER_S[0]
        unknown_at: Position | None = None
        await asyncio.sleep(pause)
        while index.is_first_open(txn):
            known = await self._ask_transaction(txn)
            if not index.is_first_open(txn):
                return
            ended = known is not None and not known.open
            if known is not None and ended and (known.aborted or (unknown_at is not None and index.next > unknown_at)):
                log.info(
                    "%s: transaction (%d, %d) has ended without a marker here, aborted: %s",
                    self._log.topic,
                    *txn,
                    known.aborted,
                )
                index.end(txn, aborted=known.aborted)
                self._notify_listeners()
                following = index.first_open_transaction
                if following is None:
                    return
                txn, unknown_at, pause = following, None, ASK_OWNER_S[0]  # often late too: ask at once
                continue
            unknown_at = (unknown_at or known.last_entry) if known is not None and ended else None
            self.advance(index, index.limit)
            await asyncio.sleep(pause)
            pause = min(2 * pause, ASK_OWNER_S[1])

    def _question_ended(self, index: TransactionIndex, task: asyncio.Task[None]) -> None:
        self._questions.pop(index, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            log.error("%s: the owner cannot be asked about transactions", self._log.topic, exc_info=error)
            return
        self._notify_listeners()

    def _notify_listeners(self) -> None:
        for listener in list(self._listeners):
            listener()
