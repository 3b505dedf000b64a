"""Transactions of a topic (PIP-31): aborted messages, and the max read position."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple, Protocol

from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.topic.max_read_position import MaxReadPosition
from readonly_engine.topic.position import EARLIEST, Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.log import TopicLog

log = logging.getLogger(__name__)

SCAN_ENTRIES = 100
"""Entries in one read of the search for markers."""

FEED_ENTRIES = 1000
"""Cached entries that are indexed in one iteration of the event loop."""

RETRY_S = (0.1, 5.0)

MAX_PUSHED = 1000
"""Number of transactions of a topic that are remembered as pushed, the latest ones. Those of others wait for their markers."""

ASK_OWNER_S = (1.0, 30.0)
"""First and longest interval between requests to the owner about an open transaction. Most end sooner."""


class OwnerTransaction(NamedTuple):
    """A transaction's state in a topic's owner (TransactionInBufferStats).

    Attributes:
        open: whether the owner holds messages for it.
        aborted: whether the owner has it as aborted. If neither is set, the owner delivers the transaction's messages.
        last_entry: the topic's last entry, read afterwards; None unless the transaction is unknown to the owner.
    """

    open: bool
    aborted: bool
    last_entry: Position | None = None


class TransactionOwner(Protocol):
    """Questions to the owner of a topic."""

    async def last_message(self) -> Position | None:
        """Return the last message that the owner delivers; None without an answer."""

    async def max_read_position(self) -> Position | None:
        """Return the owner's exact max read position; None without an answer."""

    async def transaction(self, txn: tuple[int, int]) -> OwnerTransaction | None:
        """Return the state of a transaction (most and least significant bits of the id); None without an answer."""


class TransactionIndex:
    """Index of the transactions with messages from one position on, fed with every entry since then.

    A transaction is open from its first message to its marker. Consumers read nothing from the first message of the first open
    transaction on (TopicTransactionBuffer.getMaxReadPosition), and no message of an aborted one.

    Its size is bounded by the open transactions, and those aborted in ledgers that are not trimmed yet.

    Args:
        start: the first entry to be fed. No transaction with messages before it may be open.
        aborted: transactions that are known to be aborted, each with the last ledger that may have messages of it.

    Attributes:
        scan: the search for markers, while it is under way.
        question: the requests to the owner about the first open transaction, while they are under way.
    """

    def __init__(self, start: Position, aborted: Mapping[tuple[int, int], int] | None = None) -> None:
        self.start = start
        self.next = start
        self._open: dict[tuple[int, int], Position] = {}  # in the order of their first messages
        self._aborted = dict(aborted or {})  # with the ledger of their marker, or of a later message
        self.scan: asyncio.Task[None] | None = None
        self.question: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        """End its search and its requests."""
        for task in (self.scan, self.question):
            if task is not None:
                task.cancel()

    @property
    def first_open(self) -> Position | None:
        """The first message of the first open transaction; None without one."""
        return next(iter(self._open.values()), None)

    @property
    def first_open_transaction(self) -> tuple[int, int] | None:
        """The id of the first open transaction; None without one."""
        return next(iter(self._open), None)

    def is_first_open(self, txn: tuple[int, int]) -> bool:
        """Return whether a transaction is the first open one."""
        return self.first_open_transaction == txn

    @property
    def limit(self) -> Position:
        """Consumers may read the entries before it: all transactions there have ended, with a known outcome."""
        return self.first_open or self.next

    @property
    def open_transactions(self) -> int:
        """Number of open transactions."""
        return len(self._open)

    def aborted(self, txn: tuple[int, int]) -> bool:
        """Whether a transaction with messages before the limit was aborted."""
        return txn in self._aborted

    def feed(self, entries: Iterable[TopicEntry]) -> None:
        """Index the next entries: in order, without a gap. Entries that were fed before are skipped."""
        for entry in entries:
            position = entry.position
            if position < self.next:
                continue
            self.next = Position(position.ledger_id, position.entry_id + 1)
            txn = entry.txn
            if txn is None:
                continue
            if not entry.marker:
                # A message after the end of an aborted transaction is aborted too; after a commit it opens the transaction anew.
                if txn in self._aborted:
                    self._aborted[txn] = position.ledger_id
                else:
                    self._open.setdefault(txn, position)
            else:
                self._open.pop(txn, None)
                if entry.aborts:
                    self._aborted[txn] = position.ledger_id

    def end(self, txn: tuple[int, int], *, aborted: bool) -> None:
        """End an open transaction without its marker, according to the owner; the marker may be before the start."""
        if self._open.pop(txn, None) is not None and aborted:
            self._aborted[txn] = self.next.ledger_id

    def end_pushed(self, pushed: Mapping[tuple[int, int], Position]) -> None:
        """End open transactions of which the owner has pushed a message: an owner pushes messages of committed ones only.

        Args:
            pushed: position of the last pushed message of each. A later message under the same id opens the transaction anew.
        """
        if not pushed:
            return
        for txn in [txn for txn, first in self._open.items() if txn in pushed and first <= pushed[txn]]:
            del self._open[txn]

    def trimmed(self, first_ledger: int) -> None:
        """Forget transactions that were aborted before a ledger: the earlier ledgers were removed with their messages."""
        if any(ledger_id < first_ledger for ledger_id in self._aborted.values()):
            self._aborted = {txn: ledger for txn, ledger in self._aborted.items() if ledger >= first_ledger}


class TopicTransactions:
    """The transactions of one topic, for all its subscriptions: reads ahead of them in search of markers, on demand.

    Costs nothing until a subscription reads a message of a transaction, or the cluster is known to have transactions. Then the
    owner is asked at the tail (MaxReadPosition).

    Args:
        log_: the topic.
        owner: the questions to its owner.
    """

    __slots__ = ("_indexes", "_last_allowed", "_limit", "_log", "_owner", "_pushed", "_waiting")

    def __init__(self, log_: TopicLog, owner: TransactionOwner) -> None:
        self._log = log_
        self._owner = owner
        # What follows is made at its first use: most topics have no transactions.
        self._limit: MaxReadPosition | None = None
        self._last_allowed = EARLIEST
        self._pushed: OrderedDict[tuple[int, int], Position] | None = None
        self._indexes: tuple[TransactionIndex, ...] = ()
        self._waiting: dict[Callable[[], None], None] | None = None

    @property
    def used(self) -> bool:
        """Whether the topic has messages of transactions, according to the reads so far."""
        return bool(self._indexes) or (self._limit is not None and self._limit.held)

    @property
    def open_transactions(self) -> int:
        """Number of open transactions, according to the reads so far."""
        return max((index.open_transactions for index in self._indexes), default=0)

    def call_on_move(self, waiting: Callable[[], None]) -> None:
        """Call `waiting` once, when the search or the owner has moved a limit."""
        if self._waiting is None:
            self._waiting = {}
        self._waiting[waiting] = None

    def awaited_by(self, waiting: Callable[[], None]) -> bool:
        """Return whether `waiting` will be called."""
        return self._waiting is not None and waiting in self._waiting

    def forget(self, waiting: Callable[[], None]) -> None:
        """Do not call `waiting` any more."""
        if self._waiting is not None:
            self._waiting.pop(waiting, None)

    def guard(self) -> None:
        """From now on, deliver nothing before the owner does: the cluster has transactions."""
        if self._limit is None:
            self._limit = MaxReadPosition(self._owner.last_message, self._owner.max_read_position, self._call_waiting)
            self._limit.notify(self._last_allowed)
            self._limit.active = True
            self._log.limit_dispatches(self._limit)

    def on_last_entry(self, position: Position) -> None:
        """Apply a max read position from the owner."""
        if self._limit is not None:
            self._limit.notify(position)
        elif position > self._last_allowed:
            self._last_allowed = position

    def on_pushed(self, entries: list[TopicEntry]) -> None:
        """Handle entries that the owner has delivered: consumers may read up to there, and their transactions are committed."""
        for entry in entries:
            txn = entry.txn
            if txn is not None:
                self._note_pushed(txn, entry.position)
        if self._limit is not None:
            self._limit.notify(entries[-1].position)

    def _note_pushed(self, txn: tuple[int, int], position: Position) -> None:
        if self._pushed is None:
            self._pushed = OrderedDict()
        self._pushed[txn] = position
        self._pushed.move_to_end(txn)
        if len(self._pushed) > MAX_PUSHED:
            self._pushed.popitem(last=False)

    def allows(self, position: Position) -> bool:
        """Whether the owner is known to deliver entries without a transaction up to this one."""
        return self._limit is None or self._limit.allows(position)

    def permitted(self, entries: list[TopicEntry]) -> list[TopicEntry]:
        """Return those of the next entries, at least one, that the owner would deliver now.

        The owner is asked about the others (see `call_on_move`).
        """
        limit, wanted = self._limit, entries[-1].position
        if limit is None or limit.allows(wanted):
            return entries
        limit.request(wanted, self._log.chain.limit or wanted)
        return [entry for entry in entries if limit.allows(entry.position)]

    def index(self, start: Position) -> TransactionIndex:
        """Return an index that is fed with every entry from a position on.

        This is the newest index that reaches back far enough; if an older one has caught up with it, the older one replaces it.
        """
        fitting = [index for index in self._indexes if index.start <= start]
        if not fitting:
            index = TransactionIndex(start)
            self._indexes += (index,)
            return index
        chosen = max(fitting, key=lambda index: index.start)
        caught_up = [index for index in fitting if index.start < chosen.start and index.next >= chosen.next]
        if caught_up:
            self._drop(chosen)
            chosen = max(caught_up, key=lambda index: index.start)
        return chosen

    def advance(self, index: TransactionIndex, wanted: Position) -> None:
        """Move an index's limit beyond a wanted position, now or later (see `call_on_move`)."""
        chain = self._log.chain
        if chain.ledger_ids:
            index.trimmed(chain.ledger_ids[0])
        fed = 0
        index.end_pushed(self._pushed or {})  # of entries that were fed before, as from bookies
        while index.limit <= wanted and index.scan is None and fed < FEED_ENTRIES:
            following = chain.at_or_after(index.next)
            entries = self._log.cached(following, SCAN_ENTRIES)
            self._feed(index, entries)
            fed += len(entries)
            if not entries:
                break
        if index.limit <= wanted and index.scan is None and chain.readable(chain.at_or_after(index.next)):
            index.scan = asyncio.create_task(self._scan(index, wanted))
            index.scan.add_done_callback(lambda task: self._scan_ended(index, task))
        txn = index.first_open_transaction
        if txn is not None and index.limit <= wanted and index.question is None:
            index.question = asyncio.create_task(self._find_end(index, txn))
            index.question.add_done_callback(lambda task: self._question_ended(index, task))

    def _feed(self, index: TransactionIndex, entries: list[TopicEntry]) -> None:
        index.feed(entries)
        index.end_pushed(self._pushed or {})

    def close(self) -> None:
        """Stop all searches and requests."""
        for index in self._indexes:
            index.cancel()
        if self._limit is not None:
            self._limit.close()
        self._waiting = None

    def _drop(self, index: TransactionIndex) -> None:
        self._indexes = tuple([one for one in self._indexes if one is not index])
        index.cancel()

    async def _scan(self, index: TransactionIndex, wanted: Position) -> None:
        """Read on until the limit is beyond the wanted position, or to the present end."""
        pause = RETRY_S[0]
        chain = self._log.chain
        while index.limit <= wanted and chain.readable(following := chain.at_or_after(index.next)):
            try:
                entries = await self._log.read(following, SCAN_ENTRIES)
            except BookKeeperError as error:
                log.warning(
                    "search for markers of transactions failed, retrying: topic=%s error=%s retry_s=%.1f",
                    self._log.topic,
                    error,
                    pause,
                )
                await asyncio.sleep(pause)
                pause = min(2 * pause, RETRY_S[1])
                continue
            pause = RETRY_S[0]
            self._feed(index, entries)

    def _scan_ended(self, index: TransactionIndex, task: asyncio.Task[None]) -> None:
        index.scan = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            log.error("search for markers of transactions ended: topic=%s", self._log.topic, exc_info=error)
            return
        self._call_waiting()

    async def _find_end(self, index: TransactionIndex, txn: tuple[int, int]) -> None:
        """Ask the owner about the first open transaction, until it has ended.

        A producer may store a message of a transaction after the marker, if the transaction timed out meanwhile. An owner keeps
        the ids of aborted transactions and skips such messages (TopicTransactionBuffer.handleTransactionMessage). An index that
        begins after the marker has the transaction as open, and no other marker follows.

        An owner that has lost its snapshots does not know the transaction, and delivers the message. So does this broker, after
        two such replies, and if no marker was found up to the topic's end at the time of the first.
        """
        pause = ASK_OWNER_S[0]
        unknown_at: Position | None = None
        await asyncio.sleep(pause)
        while index.is_first_open(txn):
            known = await self._owner.transaction(txn)
            if not index.is_first_open(txn):
                return
            ended = known is not None and not known.open
            if known is not None and ended and (known.aborted or (unknown_at is not None and index.next > unknown_at)):
                log.info(
                    "transaction has ended without a marker: topic=%s transaction=(%d, %d) aborted=%s",
                    self._log.topic,
                    *txn,
                    known.aborted,
                )
                index.end(txn, aborted=known.aborted)
                self._call_waiting()
                following = index.first_open_transaction
                if following is None:
                    return
                txn, unknown_at, pause = following, None, ASK_OWNER_S[0]  # often late too: ask without a pause
                continue
            unknown_at = (unknown_at or known.last_entry) if known is not None and ended else None
            self.advance(index, index.limit)
            await asyncio.sleep(pause)
            pause = min(2 * pause, ASK_OWNER_S[1])

    def _question_ended(self, index: TransactionIndex, task: asyncio.Task[None]) -> None:
        index.question = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            log.error("requests about transactions failed: topic=%s", self._log.topic, exc_info=error)
            return
        self._call_waiting()

    def _call_waiting(self) -> None:
        waiting = self._waiting
        for call in list(waiting or ()):
            if waiting and call in waiting:  # an earlier one may have closed a later one
                del waiting[call]
                call()
