"""When a topic's pushed entries go to its only consumer at once, and what the topic's parts learn of them (wire/splice.py).

The decision is made after an entry that took the usual way. Each event that concerns the topic ends the splice: the parts of
the topic then are as if all entries had taken the usual way. Until then they lag behind, except for the end of the ledger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from readonly_engine.topic.entries import TopicEntry
from readonly_engine.topic.position import Position
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.splice import make_splice

if TYPE_CHECKING:
    from readonly_engine.broker.fanout.groups import FanoutGroup
    from readonly_engine.broker.fanout.tail_fanout import TailFanout
    from readonly_engine.broker.tail.splicing import Splicing
    from readonly_engine.owner.connection import OwnerConnection
    from readonly_engine.topic.log import TopicLog
    from readonly_engine.wire.splice import Splice

MAX_SKIPPED: Final = 64
"""Most entries that take the usual way after splices that have delivered nothing: each of them costs without a gain."""

SHARED_SKIPPED: Final = 15
"""Entries that take the usual way before the next attempt, where several consumers read the topic."""


class PushedTail(Protocol):
    """The owner's consumer that pushes the entries."""

    def on_entries(self, entries: list[Entry]) -> None:
        """Deliver entries the usual way."""

    def on_spliced(self, last: Position, messages: int, size: int) -> None:
        """Count entries that have bypassed the usual way.

        Args:
            last: the last one.
            messages: number of their messages.
            size: their bytes.
        """


class TailSplice:
    """The splice of one topic: begins, is flushed and ends.

    Args:
        log_: the topic's log.
        fanout: the topic's fan-out.
        splicing: what all splices share.
        tail: the owner's consumer.

    Attributes:
        running: whether entries may bypass the usual way.
        skip: number of entries before the next attempt to begin; the caller counts it down.
    """

    __slots__ = (
        "_fanout",
        "_group",
        "_log",
        "_skip",
        "_splice",
        "_splicing",
        "_tail",
        "_used",
        "running",
        "skip",
    )

    def __init__(self, log_: TopicLog, fanout: TailFanout, splicing: Splicing, tail: PushedTail) -> None:
        self._log = log_
        self._fanout = fanout
        self._splicing = splicing
        self._tail = tail
        self._splice: Splice | None = None  # most topics are idle
        self._group: FanoutGroup | None = None
        self._skip = self.skip = 0
        self._used = False
        self.running = False

    @property
    def following(self) -> Position:
        """The position of the next entry."""
        assert self._splice is not None
        return Position(self._splice.ledger_id, self._splice.entry_id + 1)

    @property
    def wanted(self) -> bool:
        """Whether the next attempt to begin could succeed: entries must then not wait for others behind them."""
        return not self.skip and make_splice is not None and self._fanout.sole_member() is not None

    def begin(self, connection: OwnerConnection, pushing_id: int, last: Position, messages: int, size: float) -> None:
        """Let entries bypass the usual way from now on, if only one consumer waits for them, and nothing else does.

        Args:
            connection: the connection on which the owner pushes.
            pushing_id: id of the owner's consumer there.
            last: the last pushed entry, which took the usual way.
            messages: number of messages that the owner may push before its consumer acts.
            size: bytes of entries that it may push.
        """
        member = self._fanout.sole_member()
        if member is None or make_splice is None:
            self.skip = SHARED_SKIPPED if self._fanout.shared or make_splice is None else 0
            return
        messages = min(messages, member.permits)
        if messages <= 0:
            return
        ledger = self._log.begin_splice(last, self, self._fanout.on_tail_batch)
        if ledger is None:
            return
        if self._splice is None:
            self._splice = make_splice(self._tail.on_entries)
        consumer_id, partition, epoch, exposed = member.key
        self._splice.start(member.writer, ledger, *last, consumer_id, partition, epoch, exposed, messages, int(size))
        self._group = group = member.group
        group.splice = self
        connection.splice(pushing_id, self._splice, self._splicing)
        self.running, self._used = True, False

    @property
    def lags(self) -> bool:
        """Whether entries have bypassed the usual way since the last `flush`."""
        return self._splice is not None and self._splice.last is not None

    def flush(self) -> None:
        """Pass on the last entry that has bypassed the usual way, and the counts of all."""
        assert self._splice is not None
        assert self._group is not None
        taken = self._splice.take()
        if taken is None:
            return
        stored, entries, messages, size, frame_bytes = taken
        entry_id = self._splice.entry_id
        batch = self._log.on_spliced(TopicEntry(Entry(self._splice.ledger_id, entry_id, entry_id, 0, stored)))
        self._fanout.on_spliced(batch)
        self._group.count_spliced(entries, messages, frame_bytes, batch.following)
        self._tail.on_spliced(batch.last, messages, size)
        self._used = True

    def end(self) -> None:
        """Let all entries take the usual way from now on."""
        if not self.running:
            return
        assert self._splice is not None
        assert self._group is not None
        self.running = False
        self.flush()
        self._splice.stop()
        self._log.splice_ended()
        self._group.splice = None
        self._group = None
        self._skip = self.skip = 0 if self._used else min(2 * self._skip + 1, MAX_SKIPPED)
