"""The coordinator of a split Key_Shared subscription: leases slots of keys to the members. Pure; time is an argument.

Consistent hashing over the consumers of all members assigns the slots, as on one broker, or their own ranges of hashes do
(STICKY). A slot moves in this order: its member
is told to leave it, dispatches nothing more of it, and releases it when its consumers have acked what they have (PIP-379, over
several brokers). Only then the next member may use it, which reads the owner's cursor first. A lost member's slots are free at
the end of its lease.

If the order of a key may be ignored (allow_out_of_order_delivery), a member releases a slot at once, and reports which of its
entries its consumers have. The others pass these over. When one is acked or comes back, the member reports it no more. Then the
present member of its slot reads the owner's cursor, and dispatches the entry unless it is acked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from readonly_engine.broker.dispatch.leased_keys import make_ring
from readonly_engine.broker.split.keys import (
    MAX_ALL_PENDING,
    MAX_CONSUMERS,
    MAX_HASH_RANGES,
    KeyConsumer,
    KeyGrant,
    KeyPolicy,
)
from readonly_engine.broker.split.leases import LEASE_S, MAX_COUNTS
from readonly_engine.broker.split.member_leases import MemberLeases, MemberState

if TYPE_CHECKING:
    from readonly_engine.broker.split.keys import KeyReport, LocalConsumer
    from readonly_engine.broker.split.leases import Run
    from readonly_engine.topic.position import Position


@dataclass(slots=True)
class _Member(MemberState):
    """A member as the coordinator knows it.

    Attributes:
        slots: the slots that it may use, or has not released.
        leaving: those of them that it was told to leave.
        wanted: the slots of its consumers on the ring.
        changed: whether it must get its slots again.
        reported: whether it has reported on this connection, and can get slots.
        counts: entries with redelivery counts that it must get.
        pending: entries that its consumers have of slots that it has released (out of order).
        knows_pending: whether it has got what consumers of others have of such slots.
    """

    slots: int = 0
    leaving: int = 0
    wanted: int = 0
    changed: bool = True
    reported: bool = False
    counts: tuple[Run, ...] = ()
    pending: frozenset[Position] = frozenset()
    knows_pending: bool = True


class KeyCoordinator(MemberLeases[_Member]):
    """Leases the slots of one subscription.

    Args:
        epoch: identifies this coordinator among all that the subscription ever has; above 0.
        counts: entries with redelivery counts that this broker knows from an earlier coordinator.
        policy: that of all consumers.

    Attributes:
        indivisible: whether one broker must serve the subscription, because it has too many consumers, or ranges of hashes.
    """

    def __init__(self, epoch: int, counts: tuple[Run, ...] = (), policy: KeyPolicy = KeyPolicy()) -> None:  # noqa: B008
        super().__init__(epoch)
        self._policy = policy
        self._counts = counts[:MAX_COUNTS]
        self.indivisible = False
        self._consumers: tuple[KeyConsumer, ...] = ()
        self._due = False  # whether `grants` may have something: it is asked at each turn of the event loop

    def follow(self, max_unacked: int) -> None:
        """Ignore it: each member has its part of the limit."""

    # Members

    def _new_member(self) -> _Member:
        return _Member(counts=self._counts)

    def _on_joined(self, member: _Member) -> None:
        member.reported, member.changed = False, True
        member.knows_pending = not self._policy.any_order
        self._due = True

    def report(self, name: str, report: KeyReport, now: float) -> bool:
        """Handle a report.

        Returns:
            False if it does not count: it is for another coordinator. The member must begin again.
        """
        member = self._reporting(name, report.epoch)
        if member is None:
            return False
        if report.held is not None:
            if report.held & ~member.slots:
                return False  # it has been away for longer than its lease
            self._free(member, member.slots & ~report.held)  # of a grant or a report that was lost
        self._free(member, report.released & member.leaving)
        if report.consumers is not None:
            self._place(name, report.consumers)
        if report.counts:  # for the next broker of the slots, which gets them after this
            for other in self._members.values():
                if other is not member:
                    other.counts = (*other.counts, *report.counts)[:MAX_COUNTS]
            self._counts = report.counts
        if report.pending is not None:
            self._note_pending(member, frozenset(report.pending))
        member.reported = self._due = True
        self._renew(member, report.number, now)
        return True

    def last_grant(self) -> KeyGrant:
        """Return the grant for all members when this coordinator stops."""
        return KeyGrant(self.epoch, 0, 0.0, counts=self._counts)

    def _on_left(self, name: str, member: _Member) -> None:
        self._note_pending(member, frozenset())
        self._due = True
        self._place(name, ())

    def _note_pending(self, member: _Member, pending: frozenset[Position]) -> None:
        """Note what the consumers of a member have of slots that it has released, which others must not dispatch."""
        if pending == member.pending:
            return
        member.pending = pending
        for other in self._members.values():
            other.knows_pending = other.knows_pending and other is member
        if sum(len(one.pending) for one in self._members.values()) > MAX_ALL_PENDING:
            self.indivisible = True

    def _pending_of_others(self, member: _Member) -> tuple[Position, ...]:
        others = (one.pending for one in self._members.values() if one is not member)
        return tuple(sorted(set().union(*others)))

    def _free(self, member: _Member, slots: int) -> None:
        member.slots &= ~slots
        member.leaving &= ~slots

    def _place(self, name: str, consumers: tuple[LocalConsumer, ...]) -> None:
        """Put the consumers of a member on the ring, after the present ones, unless there are too many."""
        local = {consumer.number for consumer in consumers}
        placed = [one for one in self._consumers if one.member != name or one.number in local]
        known = {one.number for one in placed if one.member == name}
        ranges = [one.ranges for one in placed] + [new.ranges for new in consumers if new.number not in known]
        if len(ranges) > MAX_CONSUMERS or sum(map(len, ranges)) > MAX_HASH_RANGES:
            self.indivisible = True
            return
        taken_by: dict[str, set[int]] = {}
        for one in placed:
            taken_by.setdefault(one.name, set()).add(one.index)
        for consumer in consumers:
            if consumer.number not in known:
                taken = taken_by.setdefault(consumer.name, set())
                index = next(index for index in range(len(taken) + 1) if index not in taken)
                taken.add(index)
                placed.append(KeyConsumer(name, consumer.number, consumer.name, index, consumer.ranges))
        if tuple(placed) != self._consumers:
            self._consumers = tuple(placed)
            self._assign()

    def _assign(self) -> None:
        """Compute the slots of all members after a change of the consumers."""
        numbers = {name: number for number, name in enumerate(self._members)}
        present = [one for one in self._consumers if one.member in numbers]
        wanted = make_ring(present, sticky=self._policy.sticky).slots(
            [numbers[one.member] for one in present], len(numbers)
        )
        for (_, member), slots in zip(self._members.items(), wanted, strict=True):
            member.wanted, member.changed = slots, True

    # The owner's cursor, which each member reads

    needs_cursor = False

    def reading_cursor(self) -> None:
        """Ignore it."""

    def cursor_read(self) -> None:
        """Ignore it."""

    # Leases

    def grants(self, now: float, valid_until: float) -> dict[str, KeyGrant]:
        """Return the next grants, one for each member whose slots change, or which waits for an answer.

        Args:
            now: the time.
            valid_until: end of this broker's claim, which no lease outlasts.
        """
        if now >= valid_until or not self._due:
            return {}
        self._due = False
        used = 0
        for member in self._members.values():
            used |= member.slots
        grants = {}
        for name, member in self._members.items():
            if not (member.connected and member.reported):
                continue
            member.leaving |= member.slots & ~member.wanted
            gained = member.wanted & ~used
            member.slots |= gained
            if member.knows_pending and not (gained or member.changed or member.answered or member.counts):
                continue
            state: tuple[tuple[KeyConsumer, ...] | None, int] = (None, 0)
            if gained or member.changed:
                state = (self._consumers, member.slots & ~member.leaving)
            pending = None if member.knows_pending else self._pending_of_others(member)
            valid_s = min(LEASE_S, valid_until - now)
            grants[name] = KeyGrant(self.epoch, member.answered, valid_s, *state, member.counts, pending)
            member.answered, member.changed, member.counts, member.knows_pending = 0, False, (), True
        return grants
