"""A member of a split Key_Shared subscription: serves its slots of keys, and reports. Pure; time is an argument."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from readonly_engine.broker.dispatch.leased_keys import LocalSelector, bits_of, make_ring
from readonly_engine.broker.split.keys import (
    MAX_ALL_PENDING,
    MAX_LOCAL_CONSUMERS,
    MAX_LOCAL_HASH_RANGES,
    MAX_PENDING,
    KeyReport,
    LocalConsumer,
)
from readonly_engine.broker.split.lease_clock import LeaseClock
from readonly_engine.broker.split.leases import MAX_COUNTS, RENEW_S, counted_runs, counts_of
from readonly_engine.topic.position import Position

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.broker.dispatch.consumer_state import ConsumerState
    from readonly_engine.broker.dispatch.cursor import CursorReplica
    from readonly_engine.broker.dispatch.leased_keys import LeasedKeyDispatcher
    from readonly_engine.broker.split.keys import KeyGrant
    from readonly_engine.broker.split.leases import Run
    from readonly_engine.broker.split.member import AckReceipt

SLOTS_S: Final = 0.1
"""Shortest time between two reports."""

MAX_GAPS: Final = 1_000
"""Acked ranges in the copy of the cursor at which, with the next report, the owner's cursor is read: it has the acks of all."""


class KeyMember(LeaseClock):
    """What one broker of a split Key_Shared subscription may serve, and what it reports to the coordinator.

    Args:
        name: its name.
        dispatcher: dispatches the entries of its slots.
        cursor: the copy of the cursor on this broker.
        receipt: makes a receipt for all acks of the consumers until now.
    """

    def __init__(
        self, name: str, dispatcher: LeasedKeyDispatcher, cursor: CursorReplica, receipt: Callable[[], AckReceipt]
    ) -> None:
        super().__init__()
        self._name = name
        self._dispatcher = dispatcher
        self._cursor = cursor
        self._make_receipt = receipt
        self._consumers: dict[int, ConsumerState] = {}
        self._last_consumer = 0
        self._placed: tuple[ConsumerState, ...] = ()
        self._slots = 0  # that it may use
        self._gained = 0  # those of them for which the owner's cursor must be read
        self._reading = 0  # those of them for which it is being read
        self._left = 0  # that it must leave, and has not released
        self._drained = 0  # those of them in the receipt
        self._receipt: AckReceipt | None = None
        self._pending = frozenset[Position]()  # what consumers have of slots that others use (out of order)
        self._pending_next = self._pending  # the same after the receipt
        self._pending_changed = False
        self._acked_due = -math.inf  # when those that are acked are reported at the earliest
        self._freed = frozenset[Position]()  # that consumers of others had: the owner's cursor must be read
        self._freeing = frozenset[Position]()  # those for which it is being read
        self._members = 1
        self._changed = True
        self._ranges_read = 0
        self._crowded = False

    # Consumers

    @property
    def outstanding(self) -> bool:
        """Whether a consumer has unacked messages."""
        return self._dispatcher.outstanding

    @property
    def hurries(self) -> bool:
        """Whether a report is due: a slot may be released, after an ack, or the consumers have changed."""
        return self._changed or bool(self._left)

    def add(self, consumer: ConsumerState) -> None:
        """Add a consumer, which gets slots by a later grant."""
        self._last_consumer += 1
        self._consumers[self._last_consumer] = consumer
        self._changed = True

    def remove(self, consumer: ConsumerState) -> None:
        """Remove a consumer. Its slots are served by nobody here until a later grant."""
        self._consumers = {number: one for number, one in self._consumers.items() if one is not consumer}
        self._changed = True

    def placed(self, consumer: ConsumerState) -> bool:
        """Return whether the coordinator has put a consumer on the ring, so that no other one gets its keys any more."""
        return any(one is consumer for one in self._placed)

    # The coordinator

    def connected(self) -> bool:
        """Handle a new connection to the coordinator: the next report has everything. Return True."""
        self._connected()
        self._changed = True
        self._pending_changed = self._dispatcher.any_order  # a report without those of before may be lost
        return True

    def forget_coordinator(self) -> bool:
        """Begin anew with another coordinator; return False with slots of the former one: the member must begin again."""
        if self._slots or self._left or self._pending:
            return False
        self._forget()
        return True

    def owner_moved(self) -> None:
        """Ignore it: each broker compares its copy of the cursor with the owner's, and finds resets."""

    def on_grant(self, grant: KeyGrant, now: float) -> bool:
        """Apply a grant.

        Returns:
            False if it does not count, and the member must begin again.
        """
        if not self._answered(grant.epoch, grant.number, grant.valid_s, now):
            return False
        self._dispatcher.set_counts(counts_of(grant.counts))
        if grant.pending is not None:
            unread = bool(self._gained or self._reading)
            self._freed |= self._dispatcher.set_elsewhere(frozenset(grant.pending), unread=unread)
        if grant.consumers is not None:
            self._members = len({one.member for one in grant.consumers})
            gained = grant.slots & ~self._slots
            self._left |= self._slots & ~grant.slots
            self._slots = grant.slots
            self._gained = (self._gained & grant.slots) | gained
            self._reading &= grant.slots
            ring = make_ring(grant.consumers, sticky=self._dispatcher.sticky)
            local = {
                number: self._consumers[one.number]
                for number, one in enumerate(grant.consumers)
                if one.member == self._name and one.number in self._consumers
            }
            self._placed = tuple(local.values())
            slots = self._slots & ~self._gained & ~self._reading
            self._dispatcher.assign(LocalSelector(ring, local), slots, len(grant.consumers))
        return True

    def inherit(self, grant: KeyGrant) -> None:
        """Keep the redelivery counts that the last grant of a coordinator has."""
        self._dispatcher.set_counts(counts_of(grant.counts))

    @property
    def redelivery_counts(self) -> tuple[Run, ...]:
        """Entries with redelivery counts, for the next coordinator if it is here: the first MAX_COUNTS runs of those."""
        return counted_runs(self._dispatcher.redelivery_counts | self._dispatcher.take_left_counts(), MAX_COUNTS)

    def pause(self, now: float) -> float:
        """Return the seconds until the next `report` may have something to say without an event, or until the lease ends."""
        soon = self._changed or self._left or self._connecting or self._receipt is not None
        again = self._reported_at + (SLOTS_S if soon else RENEW_S) - now
        return max(min(again, self.until - now if self.epoch else math.inf), 0.0)

    def report(self, now: float) -> KeyReport | None:
        """Return the next report; None if there is nothing new."""
        since = now - self._reported_at
        if not self._connecting and since < SLOTS_S:
            return None
        counts = counted_runs(self._dispatcher.take_left_counts(), MAX_COUNTS)
        released, indivisible = self._take_drained(now), self.indivisible
        news = self._changed or self._pending_changed or counts or released or indivisible
        if not (news or self._connecting or since >= RENEW_S):
            return None
        consumers = None
        if self._changed:
            consumers = self._take_consumers()
        held = self._slots | self._left if self._connecting else None
        pending = tuple(sorted(self._pending)) if self._pending_changed else None
        self._changed = self._pending_changed = False
        self._crowded = self._cursor.acked_ranges >= max(MAX_GAPS, 2 * self._ranges_read)
        return KeyReport(self.epoch, self._next_number(now), consumers, released, held, indivisible, counts, pending)

    @property
    def indivisible(self) -> bool:
        """Whether only a broker that serves alone can handle the consumers, or their acks."""
        crowd = self._consumers
        if self._dispatcher.indivisible or len(crowd) > MAX_LOCAL_CONSUMERS:
            return True
        return self._dispatcher.sticky and sum(len(one.ranges) for one in crowd.values()) > MAX_LOCAL_HASH_RANGES

    def _take_consumers(self) -> tuple[LocalConsumer, ...]:
        """Return the consumers as the coordinator must know them; none if one broker must serve them."""
        if self.indivisible:
            return ()
        sticky = self._dispatcher.sticky
        return tuple(
            LocalConsumer(number, one.name, one.ranges if sticky else ()) for number, one in self._consumers.items()
        )

    def last_report(self) -> KeyReport | None:
        """Return the redelivery counts, if any. The end of the connection frees the slots, after the owner has the last acks."""
        counts = self.redelivery_counts
        self._last += 1
        return KeyReport(self.epoch, self._last, counts=counts) if counts else None

    def _take_drained(self, now: float) -> int:
        """Return the slots to leave that have nothing pending, and whose acks the owner has answered; forget them."""
        released = self._take_answered()
        if self._receipt is None:
            self._drained, stays = self._leave() if self._left else (0, frozenset())
            gone = frozenset(one for one in self._pending if not self._dispatcher.has_pending(one))
            if now < self._acked_due and all(self._cursor.is_acked(one) for one in gone):
                gone = frozenset()  # nobody waits for them, and others read the owner's cursor for each report
            if gone:
                self._acked_due = now + RENEW_S
            if self._drained or gone:
                self._pending_next = (self._pending | stays) - gone
                self._receipt = self._make_receipt()
                released |= self._take_answered()
        return released

    def _leave(self) -> tuple[int, frozenset[Position]]:
        """Return the slots that can be released now, and what consumers keep of them: nothing, unless the order may be ignored.

        The members share MAX_ALL_PENDING. Slots with the fewest pending entries are released first, the others when acked.
        """
        if self._dispatcher.sticky or not self._dispatcher.any_order:
            return self._left & ~self._dispatcher.busy, frozenset()
        kept: set[Position] = set()
        full = []
        room = (MAX_ALL_PENDING - self._dispatcher.elsewhere) // max(self._members, 2)
        room = min(room, MAX_PENDING) - len(self._pending)
        for slot, positions in sorted(self._dispatcher.pending_in(self._left).items(), key=lambda item: len(item[1])):
            if len(kept) + len(positions) <= room:
                kept.update(positions)
            else:
                full.append(slot)
        return self._left & ~bits_of(full), frozenset(kept)

    def _take_answered(self) -> int:
        if self._receipt is None or not self._receipt():
            return 0
        released, self._drained, self._receipt = self._drained, 0, None
        self._left &= ~released
        if self._pending_next != self._pending:
            self._pending, self._pending_changed = self._pending_next, True
        return released

    # The owner's cursor

    @property
    def needs_cursor(self) -> bool:
        """Whether the owner's cursor must be read: before gained slots can be served, and so that the copy stays small.

        The copy has the acks of this broker only. While an entry is unacked somewhere, those of the others leave gaps in it.
        """
        return not self._reading and (bool(self._gained or self._freed) or self._crowded)

    def reading_cursor(self) -> None:
        """Note the begin of a read of the owner's cursor."""
        self._reading, self._gained, self._crowded = self._gained, 0, False
        self._freeing, self._freed = self._freed, frozenset()

    def cursor_read(self) -> None:
        """Serve the slots that were gained before the read, and the entries that others had."""
        self._dispatcher.take_back(self._freeing - self._freed)
        self._freeing = frozenset()
        self._ranges_read = self._cursor.acked_ranges
        slots, self._reading = self._reading, 0
        if slots:
            self._dispatcher.gain(slots)
