"""One broker of a split subscription as a machine of the model: its coordinator, its member, and one consumer.

The functions use the engine's machines as the shell does. Time is always NOW: a tick shifts what the machines remember. Reports
are numbered anew whenever none is unanswered, so that states repeat.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from readonly_engine.broker.dispatch.consumer_state import ConsumerState
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.broker.dispatch.leased import LeasedDispatcher
from readonly_engine.broker.split.coordinator import Coordinator
from readonly_engine.broker.split.leases import LEASE_S
from readonly_engine.broker.split.member import Member
from readonly_engine.topic.chain import LedgerChain

from longtests.model.serving import bits, entry_at, load, mark_delete_of, position, ranges_of

if TYPE_CHECKING:
    from readonly_engine.broker.split.lease_clock import LeaseClock
    from readonly_engine.broker.split.leases import Grant, Report

NOW: Final = 0.0
TICK_S: Final = LEASE_S / 2
PERMITS: Final = 1
"""Messages that a client takes before it acks."""


class Receipt:
    """A receipt for acks."""

    def __init__(self, acks: Acks, entries: int) -> None:
        self.acks = acks
        self.entries = entries

    def __call__(self) -> bool:
        """Return whether the owner has answered them."""
        return not self.entries & self.acks.unanswered


class Acks:
    """Makes receipts.

    Attributes:
        unanswered: the entries whose acks are on their way to the owner, during a report.
    """

    def __init__(self) -> None:
        self.unanswered = 0

    def __call__(self) -> Receipt:
        """Return a receipt for all acks until now."""
        return Receipt(self, self.unanswered)


class Demand:
    """What a consumer can take, and its unacked messages."""

    def __init__(self, consumer: ConsumerState) -> None:
        self.consumer = consumer

    def __call__(self, undelivered: int) -> tuple[int, int, int]:
        """Return its priority level and both numbers, beside the entries that wait for it."""
        return 0, max(self.consumer.permits - undelivered, 0), self.consumer.unacked


class SplitHost:
    """A broker with its consumer.

    Args:
        entries: number of entries in the topic.
        acked: acked entries, by the owner's answer.
    """

    def __init__(self, entries: int, acked: int) -> None:
        self.entries = entries
        self.chain = LedgerChain()
        load(self.chain, 0, 1)  # a member does not follow the tail
        self.cursor = CursorReplica(self.chain, mark_delete_of(acked))
        self.cursor.load_acked_ranges(ranges_of(acked))
        self.dispatcher = LeasedDispatcher(self.chain, self.cursor)
        self.consumer = ConsumerState(permits=PERMITS)
        self.dispatcher.add(self.consumer)
        self.acks = Acks()
        self.member = Member(self.dispatcher, self.cursor, self.acks, Demand(self.consumer))
        self.coordinator: Coordinator | None = None
        self.name = ""


def coordinate(host: SplitHost, epoch: int, name: str) -> None:
    """Become the coordinator, which follows the end of the topic, and its member."""
    load(host.chain, host.entries, 1)
    host.coordinator = Coordinator(epoch, host.chain, host.cursor)
    host.name = name
    join(host, name)


def coordinates(host: SplitHost) -> bool:
    """Return whether the coordinator is here."""
    return host.coordinator is not None


def coordinator_of(host: SplitHost) -> Coordinator:
    """Return the coordinator, which must be here."""
    assert host.coordinator is not None
    return host.coordinator


def join(host: SplitHost, name: str) -> None:
    """Add or connect a member."""
    coordinator_of(host).join(name, NOW)


def disconnect(host: SplitHost, name: str) -> None:
    """Handle the end of a member's connection."""
    coordinator_of(host).disconnect(name)


def leave(host: SplitHost, name: str) -> None:
    """Handle the end of a member that has stopped. As a mutant of `disconnect`, it does not wait for the end of the lease."""
    coordinator_of(host).leave(name)


def on_timer(host: SplitHost) -> bool:
    """Take the entries of lost members back; return whether one of them is connected."""
    return bool(coordinator_of(host).on_timer(NOW, host.name))


def waits(host: SplitHost) -> bool:
    """Return whether the coordinator waits for the end of a lost member's lease."""
    return any(not one.connected for one in coordinator_of(host)._members.values())


def may_resign(host: SplitHost) -> bool:
    """Return whether no other member can have a valid lease."""
    return coordinator_of(host).may_resign(NOW, host.name)


def needs_cursor(host: SplitHost) -> bool:
    """Return whether the owner's cursor must be read."""
    return host.coordinator is not None and host.coordinator.needs_cursor


def reading_cursor(host: SplitHost) -> None:
    """Begin to read the owner's cursor."""
    coordinator_of(host).reading_cursor()


def cursor_read(host: SplitHost, acked: int) -> None:
    """Apply the owner's cursor."""
    host.cursor.load_acked_ranges(ranges_of(acked))
    host.dispatcher.cursor_moved()
    coordinator_of(host).cursor_read()


def connected(host: SplitHost) -> bool:
    """Handle a new connection to the coordinator, as SplitSession; return False if the member must begin again."""
    if host.member.expired(NOW):
        host.member.forget_coordinator()
    return not host.member.expired(NOW) and host.member.connected()


def report(host: SplitHost, unanswered: int) -> Report | None:
    """Return the member's next report; None if it would change nothing.

    Args:
        host: the broker.
        unanswered: entries whose acks are on their way to the owner.
    """
    host.acks.unanswered = unanswered
    try:
        return _report(host)
    finally:
        host.acks.unanswered = 0


def _report(host: SplitHost) -> Report | None:
    member = host.member
    if member._sent:
        return None
    fresh = member.until >= NOW + LEASE_S and not member._connecting
    member._last = 0
    member._reported_at = NOW - 0.5 if fresh else -math.inf
    found = member.report(NOW)
    member._reported_at = member._check_at = -math.inf
    member._waits = False
    return found


def receive_report(host: SplitHost, name: str, received: Report) -> bool:
    """Give a report to the coordinator; return False if it does not count."""
    return coordinator_of(host).report(name, received, NOW)


def grants(host: SplitHost, valid_s: float) -> tuple[tuple[str, Grant], ...]:
    """Return the coordinator's next grants."""
    return tuple(coordinator_of(host).grants(NOW, NOW + valid_s).items())


def receive_grant(host: SplitHost, grant: Grant) -> bool:
    """Give a grant to the member, which shows that its entries are readable; return False if it must begin again."""
    counts = host.member.on_grant(grant, NOW)
    last = host.dispatcher.leased_to
    if last is not None:
        host.chain.lac_advanced(*last)
    return counts


def receive_grant_of_any_epoch(host: SplitHost, grant: Grant) -> bool:
    """Mutant of `receive_grant`: take the grant for one of the present coordinator."""
    return receive_grant(host, grant._replace(epoch=host.member.epoch or grant.epoch))


def deliver(host: SplitHost) -> int:
    """Deliver the next entry; return -1 for none."""
    found = host.dispatcher.next_read(0)
    if found is None or not host.chain.readable(found[0]):
        return -1
    for one in host.dispatcher.dispatch([entry_at(found[0].entry_id)], 0):
        return one.entry.position.entry_id
    return -1


def ack(host: SplitHost, entry: int) -> None:
    """Ack an entry of the consumer."""
    host.cursor.ack(position(entry))
    host.dispatcher.acked(position(entry), host.consumer)
    host.consumer.permits = min(host.consumer.permits + 1, PERMITS)
    host.consumer.acked = 0


def expired(host: SplitHost) -> bool:
    """Return whether the lease has ended."""
    return host.member.expired(NOW)


def epoch_of(host: SplitHost) -> int:
    """Return the epoch that the member knows."""
    return host.member.epoch


def acked_here(host: SplitHost) -> int:
    """Return the entries that the copy of the cursor has as acked."""
    return bits(entry for entry in range(host.entries) if host.cursor.is_acked(position(entry)))


def shift(host: SplitHost, renews: bool) -> None:
    """Let a tick pass.

    Args:
        host: the broker.
        renews: whether a coordinator renews its own lease in time: it runs, and reaches ZooKeeper.
    """
    if host.coordinator is None:
        age(host.member)
        return
    if not renews:
        age(host.member)
    host.coordinator.lost = 0
    for name, one in host.coordinator._members.items():
        if name != host.name or not renews:
            one.until = earlier(one.until)


def age(lease: LeaseClock) -> None:
    """Let a tick pass for a member's lease. An answer to a report extends it by LEASE_S at most."""
    lease.until = earlier(lease.until)
    lease._sent = {number: max(at - TICK_S, NOW - LEASE_S) for number, at in lease._sent.items()}


def earlier(until: float) -> float:
    """Return the end of a lease after a tick; of one that has ended, it does not matter when."""
    return max(until - TICK_S, NOW) if until > NOW else until


def entries_of(grant: Grant) -> int:
    """Return the entries that a grant leases."""
    return bits(entry for run in grant.leases for entry in range(run.first, run.last + 1))
