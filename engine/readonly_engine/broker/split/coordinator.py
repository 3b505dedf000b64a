"""The coordinator of a split subscription: leases disjoint runs of entries to the members. Pure; time is an argument.

It reads no entries. It knows which entries there are (the chain), which are acked (the cursor), and which members have. What a
member gives back is leased again at once. What a lost member had is leased again at the end of its lease, after the owner's
cursor was read: the member may have acked until then.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from readonly_engine.broker.dispatch.delayed import DelayedDeliveryTracker
from readonly_engine.broker.split.leases import (
    LEASE_S,
    MAX_HELD_RANGES,
    MAX_RANGES,
    MAX_WANTED,
    RUN_ENTRIES,
    TURN_ENTRIES,
    Grant,
    Run,
    counted_runs,
    counts_of,
    ranges_of,
    runs_of,
)
from readonly_engine.broker.split.member_leases import MemberLeases, MemberState
from readonly_engine.topic.position import Position, PositionRanges

if TYPE_CHECKING:
    from readonly_engine.broker.dispatch.cursor import CursorReplica
    from readonly_engine.broker.split.leases import Deferred, Report
    from readonly_engine.topic.chain import LedgerChain


@dataclass(slots=True)
class _Member(MemberState):
    """A member as the coordinator knows it.

    Attributes:
        held: its leased entries.
        priority: priority level of its consumers that can take entries.
        wanted: number of entries that they can take.
        unacked: its number of delivered unacked messages, with the entries that were leased since it counted.
        granted: number of entries that were leased to it on this connection.
    """

    held: PositionRanges = field(default_factory=PositionRanges)
    priority: int = 0
    wanted: int = 0
    unacked: int = 0
    granted: int = 0


class Coordinator(MemberLeases[_Member]):
    """Leases the entries of one subscription.

    Args:
        epoch: identifies this coordinator among all that the subscription ever has; above 0.
        chain: the topic's ledgers.
        cursor: the cursor, as the owner has it, with the acks of all members.
        max_unacked: limit of delivered unacked messages of the subscription; 0 for none.
        counts: entries with redelivery counts that this broker knows from an earlier coordinator.
    """

    indivisible = False

    def __init__(
        self,
        epoch: int,
        chain: LedgerChain,
        cursor: CursorReplica,
        max_unacked: int = 0,
        counts: tuple[Run, ...] = (),
    ) -> None:
        super().__init__(epoch)
        self._chain = chain
        self._cursor = cursor
        self._max_unacked = max_unacked or sys.maxsize
        self._blocked = False
        self._room = 0
        self._served = ""
        self._next = cursor.first_unacked()
        self._free = PositionRanges()
        self._counts = counts_of(counts)
        self._delayed = DelayedDeliveryTracker()
        self._unknown = PositionRanges()
        self._refreshing = PositionRanges()

    def follow(self, max_unacked: int) -> None:
        """Apply a limit of unacked messages that has changed; 0 for none."""
        self._max_unacked = max_unacked or sys.maxsize

    # Members

    def _new_member(self) -> _Member:
        return _Member()

    def _on_joined(self, member: _Member) -> None:
        member.wanted = member.granted = 0

    def report(self, name: str, report: Report, now: float) -> bool:
        """Handle a report.

        Args:
            name: the member.
            report: its report.
            now: the time.

        Returns:
            False if it is for another coordinator, and ignored: others may have its entries by now. The member must begin again.
        """
        member = self._reporting(name, report.epoch)
        if member is None:
            return False
        held = None if report.held is None else ranges_of(report.held)
        if held is not None and held.without(member.held):
            return False  # it has been away for longer than its lease
        self._ack(report.acked)
        member.held = member.held.without(ranges_of(report.acked))
        if held is not None:
            unknown = member.held.without(held)  # of a grant or a report that was lost
            self._unknown.add_ranges(unknown)
            member.held = member.held.without(unknown)
        returned = ranges_of(report.returned)
        given_back = member.held.common(returned)
        member.held = member.held.without(returned)
        self._free.add_ranges(given_back)
        for position, count in counts_of(report.returned).items():
            if position in given_back:
                self._counts[position] = count
        self._defer(member, report.deferred, now)
        under_way = max(member.granted - report.received, 0)
        member.priority = report.priority
        member.wanted = min(report.wanted, MAX_WANTED) - under_way
        member.unacked = report.unacked + under_way
        self._renew(member, report.number, now)
        return True

    def _defer(self, member: _Member, deferred: tuple[Deferred, ...], now: float) -> None:
        """Keep delayed entries that a member gives back."""
        if not deferred:
            return
        now_ms = int(now * 1000)
        for ledger_id, entry_id, due_ms in deferred:
            if (position := Position(ledger_id, entry_id)) in member.held:
                self._delayed.add(position, now_ms + due_ms)
        self._delayed.mark_unordered()  # only members know of entries without delay between them
        gone = PositionRanges()
        gone.add_ranges(
            (Position(one.ledger_id, one.entry_id - 1), Position(one.ledger_id, one.entry_id)) for one in deferred
        )
        member.held = member.held.without(gone)

    def disconnect(self, name: str) -> None:
        """Handle the end of a member's connection: its entries come back at the end of its lease, unless it returns."""
        super().disconnect(name)
        if (member := self._members.get(name)) is not None:
            member.wanted = 0

    def last_grant(self) -> Grant:
        """Return the grant for all members when this coordinator stops."""
        return Grant(self.epoch, 0, 0.0, self._cursor.mark_delete, counted_runs(self._counts, MAX_RANGES))

    def _on_left(self, name: str, member: _Member) -> None:  # noqa: ARG002
        self._unknown.add_ranges(member.held)  # what it had and did not give back, it may have acked

    def _ack(self, acked: tuple[Run, ...]) -> None:
        known = [run.range for run in acked if self._chain.holds(Position(run.ledger_id, run.last))]
        if known:
            self._cursor.load_acked_ranges(known)

    # The owner's cursor

    @property
    def needs_cursor(self) -> bool:
        """Whether the owner's cursor must be read before entries that have come back can be leased."""
        return bool(self._unknown)

    def reading_cursor(self) -> None:
        """Note the begin of a read of the owner's cursor."""
        self._refreshing.add_ranges(self._unknown)
        self._unknown = PositionRanges()

    def cursor_read(self) -> None:
        """Lease the entries that had come back before the read, which the cursor shows unacked."""
        self._free.add_ranges(self._refreshing)
        self._refreshing = PositionRanges()

    # Time

    def next_timer(self, own: str = "") -> float | None:
        """Return the time of the next `on_timer`: a lease of another member ends, or a delayed entry is due."""
        due, end = self._delayed.next_timer(), super().next_timer(own)
        return end if due is None else min(due / 1000, sys.maxsize if end is None else end)

    def on_timer(self, now: float, own: str = "") -> list[str]:
        """Take back what lost members have, as MemberLeases does, and lease the delayed entries that are due."""
        due = [position for position, _ in self._delayed.on_timer(int(now * 1000))]
        if due:
            self._free.add_ranges((Position(one.ledger_id, one.entry_id - 1), one) for one in due)
        return super().on_timer(now, own)

    # Leases

    def grants(self, now: float, valid_until: float) -> dict[str, Grant]:
        """Return the next grants, one for each member that gets entries or waits for an answer.

        Args:
            now: the time.
            valid_until: end of this broker's claim, which no lease outlasts.
        """
        if now >= valid_until:
            return {}
        names = self._in_turn()
        leases: dict[str, list[Run]] = {name: [] for name in names}
        self._check_limit()
        for priority in sorted({self._members[name].priority for name in names}):
            self._lease([name for name in names if self._members[name].priority == priority], leases)
        grants = {}
        for name, runs in leases.items():
            member = self._members[name]
            if not runs and not member.answered:
                continue
            for run in runs:
                member.held.add_range(*run.range)
            valid_s = min(LEASE_S, valid_until - now)
            grants[name] = Grant(self.epoch, member.answered, valid_s, self._cursor.mark_delete, tuple(runs))
            member.answered = 0
        return grants

    def _lease(self, ready: list[str], leases: dict[str, list[Run]]) -> None:
        """Lease entries to members of one priority level, in turn, until they can take no more."""
        while ready and not self._blocked and self._room > 0:
            for name in list(ready):
                member = self._members[name]
                run = None
                room = min(member.wanted, TURN_ENTRIES, self._room)
                if room > 0 and len(leases[name]) < min(MAX_HELD_RANGES - len(member.held), MAX_RANGES):
                    run = self._take(room)
                if run is None:
                    ready.remove(name)
                    continue
                self._served = name
                leases[name].append(run)
                member.wanted -= run.entries
                member.granted += run.entries
                member.unacked += run.entries
                self._room -= run.entries
            self._check_limit()

    def _in_turn(self) -> list[str]:
        """Return the members for leases, the one after the last served first: few new entries must not all go to one of them."""
        names = self.members
        begin = names.index(self._served) + 1 if self._served in names else 0
        return names[begin:] + names[:begin]

    def _check_limit(self) -> None:
        """Block at the limit of unacked messages, until fewer than half are unacked (maxUnackedMessagesPerSubscription)."""
        unacked = sum(member.unacked for member in self._members.values())
        self._room = self._max_unacked - unacked
        self._blocked = unacked >= (self._max_unacked // 2 if self._blocked else self._max_unacked)

    def _take(self, count: int) -> Run | None:
        """Take at most `count` entries for a lease: first those that came back; None without any."""
        while self._free:
            lower, upper = next(iter(self._free))
            first = self._cursor.next_unacked(Position(lower.ledger_id, lower.entry_id + 1))
            if first > upper or not self._chain.readable(first):
                self._forget_free(lower, upper)
                continue
            end = Position(first.ledger_id, first.entry_id + min(count, RUN_ENTRIES) - 1)
            last = self._cursor.unacked_until(first, min(upper, end))
            redeliveries = self._counts.get(first, 0)
            if self._counts:
                last = self._same_count(first, last, redeliveries)
            self._forget_free(lower, last)
            return Run(first.ledger_id, first.entry_id, last.entry_id, redeliveries)
        if self._delayed.full:
            return None
        first = self._next = self._cursor.next_unacked(self._next)
        found = self._chain.run(first, min(count, RUN_ENTRIES) if self._counts else count)
        if found is None:
            return None
        last = self._cursor.unacked_until(first, Position(first.ledger_id, found[1]))
        redeliveries = self._counts.get(first, 0)
        if self._counts:
            last = self._same_count(first, last, redeliveries)
            self._forget_counts(first, last)
        self._next = self._chain.after(last)
        return Run(first.ledger_id, first.entry_id, last.entry_id, redeliveries)

    def _same_count(self, first: Position, last: Position, redeliveries: int) -> Position:
        """Return the last of the entries with the same redelivery count as the first."""
        for entry_id in range(first.entry_id + 1, last.entry_id + 1):
            if self._counts.get(Position(first.ledger_id, entry_id), 0) != redeliveries:
                return Position(first.ledger_id, entry_id - 1)
        return last

    def _forget_free(self, lower: Position, upper: Position) -> None:
        taken = PositionRanges()
        taken.add_range(lower, upper)
        self._free = self._free.without(taken)
        if self._counts:
            self._forget_counts(Position(upper.ledger_id, lower.entry_id + 1), upper)

    def _forget_counts(self, first: Position, last: Position) -> None:
        for entry_id in range(first.entry_id, last.entry_id + 1):
            self._counts.pop(Position(first.ledger_id, entry_id), None)

    # Statistics

    def held_by(self, name: str) -> tuple[Run, ...]:
        """Return the leased entries of a member, which it has not reported as acked."""
        member = self._members.get(name)
        return () if member is None else runs_of(member.held)
