"""A member of a split subscription: serves its leases by a dispatcher of its own, and reports. Pure; time is an argument."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from readonly_engine.broker.dispatch.delayed import MACHINE_CLOCK
from readonly_engine.broker.split.lease_clock import LeaseClock
from readonly_engine.broker.split.leases import (
    MAX_DEFERRED,
    MAX_RANGES,
    MAX_WANTED,
    RENEW_S,
    TURN_ENTRIES,
    Deferred,
    Report,
    counted_runs,
    counts_of,
    ranges_of,
    runs_of,
)
from readonly_engine.topic.position import Position, PositionRanges

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.broker.dispatch.consumer_state import ConsumerState
    from readonly_engine.broker.dispatch.cursor import CursorReplica
    from readonly_engine.broker.dispatch.delayed import DeliveryClock
    from readonly_engine.broker.dispatch.leased import LeasedDispatcher
    from readonly_engine.broker.split.leases import Grant, Run

    AckReceipt = Callable[[], bool]
    """Returns whether the owner has answered the acks for which it was made."""

REPORT_S: Final = 0.02
"""Shortest time between two reports."""

ACKS_S: Final = 0.25
"""Shortest time between two reports of acks only."""

RETURN_S: Final = 1.0
"""Time without permits after which a member gives the undelivered entries of its leases back."""

SOON_MS: Final = 2_000
"""A member keeps delayed entries that are due within this time. It gives others back: they are as many as producers make them."""

FEW_WANTED: Final = 100
"""Number of entries that a coordinator may lease, below which new permits are reported at once."""


class Member(LeaseClock):
    """What one broker of a split subscription has, and what it reports to the coordinator.

    It reports acks after the owner has answered them. So the coordinator can compare its copy of the cursor with the owner's:
    what is acked in the copy only was reset, or is lost.

    Args:
        dispatcher: dispatches the leases.
        cursor: the copy of the cursor on this broker, with the acks of its consumers.
        receipt: makes a receipt for all acks of the consumers until now.
        demand: called with the number of entries that wait for permits. It returns a priority level, the number of other entries
            for which the consumers of that level have permits, and the number of unacked messages of all consumers.
        clock: the time by which delayed messages are due.
    """

    def __init__(
        self,
        dispatcher: LeasedDispatcher,
        cursor: CursorReplica,
        receipt: Callable[[], AckReceipt],
        demand: Callable[[int], tuple[int, int, int]],
        clock: DeliveryClock = MACHINE_CLOCK,
    ) -> None:
        super().__init__()
        self._dispatcher = dispatcher
        self._cursor = cursor
        self._make_receipt = receipt
        self._demand = demand
        self._clock = clock
        self._held = PositionRanges()
        self._acked = PositionRanges()  # those of the receipt
        self._receipt: AckReceipt | None = None
        self._owner_moved = False
        self._check_at = -math.inf
        self._waits = False
        self._blocked_since: float | None = None
        self._priority = self._wanted = 0
        self._received = 0
        self._inherited: tuple[Run, ...] = ()

    @property
    def outstanding(self) -> bool:
        """Whether a consumer has unacked messages."""
        return self._dispatcher.outstanding

    @property
    def hurries(self) -> bool:
        """Whether the consumers will have dispatched soon what the coordinator may have leased since the last report."""
        return self._wanted < FEW_WANTED and self._dispatcher.undelivered < TURN_ENTRIES

    def add(self, consumer: ConsumerState) -> None:
        """Ignore it: its permits are reported."""

    def remove(self, consumer: ConsumerState) -> None:
        """Ignore it, too."""

    def placed(self, consumer: ConsumerState) -> bool:  # noqa: ARG002
        """Return True: entries go to any consumer."""
        return True

    @property
    def holds(self) -> bool:
        """Whether it has leased entries."""
        return bool(self._held)

    def connected(self) -> bool:
        """Handle a new connection to the coordinator: the next report has all entries that the member has.

        Returns:
            False if they are in too many ranges. Then the member must begin again.
        """
        self._connected()
        self._wanted = self._received = 0
        return len(self._held) <= MAX_RANGES

    def owner_moved(self) -> None:
        """Handle a new owner of the topic. The coordinator compares the cursor with it, and finds resets."""
        self._owner_moved = True

    def forget_coordinator(self) -> bool:
        """Begin anew with another coordinator; return False if that is not possible: the member must begin again.

        It is not with leases of the former coordinator, nor after a move of the owner: the former coordinator may have ended
        because of a reset.
        """
        if self._held or self._owner_moved:
            return False
        self._forget()
        return True

    def on_grant(self, grant: Grant, now: float) -> bool:
        """Apply a grant.

        Returns:
            False if it does not count, and the member must begin again.
        """
        if not self._answered(grant.epoch, grant.number, grant.valid_s, now):
            return False
        self._cursor.ack_cumulative(grant.mark_delete)
        for run in grant.leases:
            lower, upper = run.range
            self._held.add_range(lower, upper)
            self._dispatcher.lease(Position(run.ledger_id, run.first), upper, run.redelivery_count)
            self._wanted = max(self._wanted - run.entries, 0)
            self._received += run.entries
        return True

    def inherit(self, grant: Grant) -> None:
        """Keep the redelivery counts that the last grant of a coordinator has."""
        self._inherited = grant.leases

    @property
    def redelivery_counts(self) -> tuple[Run, ...]:
        """Entries with redelivery counts, for the next coordinator if it is here: the first MAX_RANGES runs of those."""
        return counted_runs(counts_of(self._inherited) | self._dispatcher.redelivery_counts, MAX_RANGES)

    def pause(self, now: float) -> float:
        """Return the seconds until the next `report` may have something to say without an event, or until the lease ends."""
        end = self.until - now if self.epoch else math.inf
        again = self._check_at - now if self._held or self._waits else math.inf
        return max(min(self._reported_at + RENEW_S - now, again, end), 0.0)

    def report(self, now: float) -> Report | None:
        """Return the next report; None if there is nothing new."""
        since = now - self._reported_at
        undelivered = self._dispatcher.undelivered
        priority, wanted, unacked = self._demand(undelivered)
        wanted = min(wanted, MAX_WANTED)
        deferred: tuple[Deferred, ...] = ()
        if not self._connecting:
            grown = (wanted > self._wanted and wanted >= 2 * self._wanted) or self._dispatcher.indivisible
            grown = grown or (wanted > 0 and priority != self._priority)
            least = REPORT_S if grown else ACKS_S
            self._waits = grown and since < least
            if since < least:
                self._check_at = self._reported_at + least
                return None
            self._check_at = now + ACKS_S
            acked, returned, deferred = self._take_acked(), self._take_returned(now), self._take_deferred()
            if not (acked or returned or deferred or grown or since >= RENEW_S):
                return None
        else:
            acked, returned = self._take_acked(), ()
        self._priority, self._wanted = priority, wanted
        self._check_at, self._waits = now + ACKS_S, False
        held = runs_of(self._held) if self._connecting else None
        return Report(
            self.epoch,
            self._next_number(now),
            priority,
            wanted,
            unacked + undelivered,
            self._received,
            acked,
            returned,
            deferred,
            held,
            self._dispatcher.indivisible,
        )

    def last_report(self) -> Report:
        """Return a report that gives everything back, when the last consumer has left. The lease then ends."""
        acked = self._take_acked()
        _, counts = self._dispatcher.take_undelivered()
        unacked = self._held.without(self._acked_here())  # the coordinator reads the owner's cursor for the others
        returned = runs_of(unacked, counts)
        if len(returned) > MAX_RANGES:  # with counts first: the coordinator takes the others when the member has left
            returned = tuple(sorted(returned, key=lambda run: not run.redelivery_count)[:MAX_RANGES])
        self._held = PositionRanges()
        self._last += 1
        return Report(self.epoch, self._last, 0, 0, 0, self._received, acked, returned)

    def _acked_here(self) -> PositionRanges:
        """Return the leased entries that are acked in the copy of the cursor."""
        first = next(iter(self._held), None)
        if first is None:
            return PositionRanges()
        return self._held.common(self._cursor.acked_beyond(first[0]))

    def _take_acked(self) -> tuple[Run, ...]:
        """Remove the entries whose acks the owner has answered; return them. One receipt is open at a time."""
        answered = self._take_answered()
        if self._receipt is None:
            self._acked = self._acked_here()
            if self._acked:
                self._receipt = self._make_receipt()
                answered = answered or self._take_answered()
        return answered

    def _take_answered(self) -> tuple[Run, ...]:
        """Remove the entries of the receipt if the owner has answered; return them."""
        if self._receipt is None or not self._receipt():
            return ()
        acked = runs_of(self._acked)[:MAX_RANGES]  # the next report has the others
        self._receipt = None
        self._held = self._held.without(ranges_of(acked))
        return acked

    def _take_returned(self, now: float) -> tuple[Run, ...]:
        """Remove the undelivered entries if no consumer has taken any for a while; return them."""
        if self._dispatcher.ready or not self._dispatcher.undelivered:
            self._blocked_since = None
            return ()
        if self._blocked_since is None:
            self._blocked_since = now
        if now - self._blocked_since < RETURN_S:
            return ()
        self._blocked_since = None
        return self.give_back()

    def give_back(self) -> tuple[Run, ...]:
        """Remove the undelivered entries, in MAX_RANGES runs at most; return them, with their redelivery counts."""
        undelivered, counts = self._dispatcher.take_undelivered()
        runs = runs_of(self._held.common(undelivered), counts)
        for run in runs[MAX_RANGES:]:
            self._dispatcher.lease(Position(run.ledger_id, run.first), run.range[1], run.redelivery_count)
        self._held = self._held.without(ranges_of(runs[:MAX_RANGES]))
        return runs[:MAX_RANGES]

    def _take_deferred(self) -> tuple[Deferred, ...]:
        """Remove delayed entries that are not due soon; return them."""
        now = self._clock.delivery_ms()
        delayed = self._dispatcher.take_delayed(now + SOON_MS, MAX_DEFERRED)
        if delayed:
            gone = PositionRanges()
            gone.add_ranges(
                (Position(one.ledger_id, one.entry_id - 1), Position(one.ledger_id, one.entry_id)) for one in delayed
            )
            self._held = self._held.without(gone)
        return tuple(Deferred(one.ledger_id, one.entry_id, one.deliver_at - now) for one in delayed)

    # The owner's cursor, which the coordinator reads

    needs_cursor = False

    def reading_cursor(self) -> None:
        """Ignore it."""

    def cursor_read(self) -> None:
        """Ignore it."""
