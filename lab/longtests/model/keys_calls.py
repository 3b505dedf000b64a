"""One broker of a split Key_Shared subscription as a machine of the model: its coordinator, its member, and one consumer.

The functions use the engine's machines as the shell would. Time is always NOW: a tick shifts what the machines remember.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from readonly_engine.broker.dispatch.consumer_state import ConsumerState
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.broker.dispatch.leased_keys import LeasedKeyDispatcher
from readonly_engine.broker.split.key_coordinator import KeyCoordinator
from readonly_engine.broker.split.key_member import KeyMember
from readonly_engine.broker.split.keys import KeyPolicy
from readonly_engine.broker.split.leases import LEASE_S
from readonly_engine.topic.chain import LedgerChain
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.message_pb2 import MessageMetadata

from longtests.model.serving import LEDGER, bits, load, mark_delete_of, position, ranges_of
from longtests.model.split_calls import Acks

if TYPE_CHECKING:
    from readonly_engine.broker.split.keys import KeyGrant, KeyReport

NOW: Final = 0.0
TICK_S: Final = LEASE_S / 2
LONG_AGO: Final = -2 * LEASE_S
PERMITS: Final = 1
"""Messages that a client takes before it acks."""


class KeysHost:
    """A broker.

    Args:
        name: its name as a member.
        keys: the keys of the topic's entries.
        acked: acked entries, by the owner's answer.
        any_order: whether the order of a key may be ignored.
    """

    def __init__(self, name: str, keys: tuple[str, ...], acked: int, any_order: bool = False) -> None:
        self.keys = keys
        self.chain = LedgerChain()
        load(self.chain, len(keys), 1)
        self.cursor = CursorReplica(self.chain, mark_delete_of(acked))
        self.cursor.load_acked_ranges(ranges_of(acked))
        self.dispatcher = LeasedKeyDispatcher(self.chain, self.cursor, any_order=any_order)
        self.acks = Acks()
        self.member = KeyMember(name, self.dispatcher, self.cursor, self.acks)
        self.coordinator: KeyCoordinator | None = None
        self.name = name


def coordinate(host: KeysHost, epoch: int) -> None:
    """Become the coordinator, and its member."""
    host.coordinator = KeyCoordinator(epoch, (), KeyPolicy(any_order=host.dispatcher.any_order))
    join(host, host.name)


def coordinates(host: KeysHost) -> bool:
    """Return whether the coordinator is here."""
    return host.coordinator is not None


def coordinator_of(host: KeysHost) -> KeyCoordinator:
    """Return the coordinator, which must be here."""
    assert host.coordinator is not None
    return host.coordinator


def join(host: KeysHost, name: str) -> None:
    """Add or connect a member."""
    coordinator_of(host).join(name, NOW)


def disconnect(host: KeysHost, name: str) -> None:
    """Handle the end of a member's connection."""
    coordinator_of(host).disconnect(name)


def on_timer(host: KeysHost) -> bool:
    """Free the slots of lost members; return whether one of them is connected."""
    return bool(coordinator_of(host).on_timer(NOW, host.name))


def waits(host: KeysHost) -> bool:
    """Return whether the coordinator waits for the end of a lost member's lease."""
    return any(not one.connected for one in coordinator_of(host)._members.values())


def subscribe(host: KeysHost, name: str) -> None:
    """Add the consumer of a client."""
    consumer = ConsumerState(permits=PERMITS, name=name)
    host.dispatcher.add(consumer)
    host.member.add(consumer)
    host.member._last_consumer %= 2


def leave(host: KeysHost) -> None:
    """Remove the consumer of the client."""
    for consumer in list(host.dispatcher.consumers):
        host.dispatcher.remove(consumer)
        host.member.remove(consumer)


def connected(host: KeysHost) -> None:
    """Handle a new connection to the coordinator."""
    host.member.connected()


def report(host: KeysHost, unanswered: int, *, drains: bool = True) -> KeyReport | None:
    """Return the member's next report; None if it would change nothing.

    Args:
        host: the broker.
        unanswered: entries whose acks are on their way to the owner.
        drains: whether slots are released only when nothing of them is pending or unanswered; False as a mutant.
    """
    member = host.member
    if member._sent:
        return None
    host.acks.unanswered = unanswered if drains else 0
    fresh = member.until >= NOW + LEASE_S
    member._last = 0
    member._reported_at = NOW - 0.5 if fresh else -math.inf
    pending = host.dispatcher._pending_at
    if not drains:
        host.dispatcher._pending_at = {}
    found = member.report(NOW)
    host.dispatcher._pending_at = pending
    member._reported_at = member._acked_due = -math.inf
    host.acks.unanswered = 0
    return found


def report_undrained(host: KeysHost, unanswered: int) -> KeyReport | None:
    """Mutant of `report`: release slots at once."""
    return report(host, unanswered, drains=False)


def receive_report(host: KeysHost, name: str, received: KeyReport) -> bool:
    """Give a report to the coordinator; return False if it does not count."""
    return coordinator_of(host).report(name, received, NOW)


def grants(host: KeysHost, valid_s: float) -> tuple[tuple[str, KeyGrant], ...]:
    """Return the coordinator's next grants."""
    return tuple(coordinator_of(host).grants(NOW, NOW + valid_s).items())


def receive_grant(host: KeysHost, grant: KeyGrant) -> bool:
    """Give a grant to the member; return False if it must begin again."""
    return host.member.on_grant(grant, NOW)


def receive_grant_of_any_epoch(host: KeysHost, grant: KeyGrant) -> bool:
    """Mutant of `receive_grant`: take the grant for one of the present coordinator."""
    return host.member.on_grant(grant._replace(epoch=host.member.epoch or grant.epoch), NOW)


def receive_grant_without_pending(host: KeysHost, grant: KeyGrant) -> bool:
    """Mutant of `receive_grant`: ignore what consumers of other members have."""
    return receive_grant(host, grant._replace(pending=None))


def needs_cursor(host: KeysHost) -> bool:
    """Return whether the owner's cursor must be read."""
    return host.member.needs_cursor


def reading_cursor(host: KeysHost) -> None:
    """Begin to read the owner's cursor."""
    host.member.reading_cursor()


def cursor_read(host: KeysHost, acked: int) -> None:
    """Apply the owner's cursor."""
    host.cursor.load_acked_ranges(ranges_of(acked))
    host.dispatcher.cursor_moved()
    host.member.cursor_read()


def deliver(host: KeysHost) -> int:
    """Deliver the next entry; return -1 for none."""
    while (found := host.dispatcher.next_read(0)) is not None and host.chain.readable(found[0]):
        entry = found[0].entry_id
        for one in host.dispatcher.dispatch([_entry(host, entry)], 0):
            return one.entry.position.entry_id
    return -1


def _entry(host: KeysHost, entry: int) -> TopicEntry:
    metadata = MessageMetadata(producer_name="p", sequence_id=entry, publish_time=1, partition_key=host.keys[entry])
    encoded = metadata.SerializeToString()
    return TopicEntry(Entry(LEDGER, entry, entry - 1, 0, len(encoded).to_bytes(4, "big") + encoded))


def ack(host: KeysHost, entry: int) -> None:
    """Ack an entry of the consumer."""
    host.cursor.ack(position(entry))
    for consumer in host.dispatcher.consumers:
        host.dispatcher.acked(position(entry), consumer)
        consumer.permits = min(consumer.permits + 1, PERMITS)
        consumer.acked = 0


def expired(host: KeysHost) -> bool:
    """Return whether the lease has ended."""
    return host.member.expired(NOW)


def epoch_of(host: KeysHost) -> int:
    """Return the epoch that the member knows."""
    return host.member.epoch


def subscribed(host: KeysHost) -> bool:
    """Return whether a client has a consumer."""
    return bool(host.dispatcher.consumers)


def acked_here(host: KeysHost) -> int:
    """Return the entries that the copy of the cursor has as acked."""
    return bits(entry for entry in range(len(host.keys)) if host.cursor.is_acked(position(entry)))


def shift(host: KeysHost) -> None:
    """Let a tick pass. The coordinator renews its own lease in time."""
    if host.coordinator is not None:
        host.coordinator.lost = 0
        for name, one in host.coordinator._members.items():
            if name != host.name:
                one.until = max(one.until - TICK_S, LONG_AGO)
        return
    member = host.member
    member.until = max(member.until - TICK_S, LONG_AGO)
    member._sent = {number: max(at - TICK_S, LONG_AGO) for number, at in member._sent.items()}
