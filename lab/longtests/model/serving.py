"""A subscription that a broker serves: the engine's own copy of the cursor, dispatcher and acks under way.

The functions here use them as Subscription does, without asyncio. A client's number identifies its consumer. Entries are
numbered from the first one of the topic, entry 0. Sets of entries are bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_engine.broker.dispatch.consumer_state import ConsumerState
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.broker.dispatch.shared import SharedDispatcher
from readonly_engine.broker.dispatch.single_active import SingleActiveDispatcher
from readonly_engine.owner.ack_grouping import AckGroupingTracker
from readonly_engine.owner.recent_acks import WINDOW_S, RecentAcks
from readonly_engine.topic.chain import LedgerChain
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.topic.position import Position
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.managed_ledger_pb2 import ManagedLedgerInfo
from readonly_engine.wire.message_pb2 import MessageMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from readonly_engine.broker.dispatch.consumer_state import Dispatcher

LEDGER: Final = 1
LATER_LEDGER: Final = 2
"""The empty ledger that an owner creates when it loads the topic again."""

NOW: Final = 0


class AckChannel:
    """A consumer, as AckGroupingTracker uses it."""

    __slots__ = ("client",)

    def __init__(self, client: int) -> None:
        self.client = client


class Serving:
    """One subscription at one broker.

    Args:
        entries: number of entries in the topic.
        ledgers: number of times it was loaded.
        acked: acked entries, by the owner's answer.
        single: whether one consumer gets all entries (Exclusive), else several share them (Shared).
    """

    def __init__(self, entries: int, ledgers: int, acked: int, single: bool = False) -> None:
        self.entries = entries
        self.chain = LedgerChain()
        load(self.chain, entries, ledgers)
        self.cursor = CursorReplica(self.chain, mark_delete_of(acked))
        self.cursor.load_acked_ranges(ranges_of(acked))
        self.dispatcher: Dispatcher = (
            SingleActiveDispatcher(self.chain, self.cursor, elected=False)
            if single
            else SharedDispatcher(self.chain, self.cursor)
        )
        self.acks: AckGroupingTracker[AckChannel] = AckGroupingTracker()
        self.recent = RecentAcks()
        self.alone: list[tuple[int, int]] = []
        self.channels: dict[int, AckChannel] = {}
        self.consumers: dict[int, ConsumerState] = {}


def load(chain: LedgerChain, entries: int, ledgers: int) -> None:
    """Set the ledgers of a chain to those of the topic."""
    info = ManagedLedgerInfo()
    if ledgers == 1:
        info.ledger_info.add(ledger_id=LEDGER, timestamp=0)
    else:
        info.ledger_info.add(ledger_id=LEDGER, entries=entries, timestamp=1)
        info.ledger_info.add(ledger_id=LATER_LEDGER, timestamp=0)
    chain.topic_changed(info)
    chain.lac_advanced(LEDGER, entries - 1)


def position(entry: int) -> Position:
    """Return the position of an entry."""
    return Position(LEDGER, entry)


def prefix_of(acked: int) -> int:
    """Return the number of acked entries before the first unacked one."""
    count = 0
    while acked >> count & 1:
        count += 1
    return count


def mark_delete_of(acked: int) -> Position:
    """Return the owner's mark-delete position."""
    return position(prefix_of(acked) - 1)


def ranges_of(acked: int) -> Iterator[tuple[Position, Position]]:
    """Yield the acked entries as ranges (lower, upper]."""
    return ((position(entry - 1), position(entry)) for entry in members(acked))


def members(entries: int) -> Iterator[int]:
    """Yield the entries of a set."""
    return (entry for entry in range(entries.bit_length()) if entries >> entry & 1)


def bits(entries: Iterable[int]) -> int:
    """Return the set of these entries."""
    return sum(1 << entry for entry in set(entries))


def _entry(number: int) -> TopicEntry:
    metadata = MessageMetadata(producer_name="p", sequence_id=number, publish_time=1).SerializeToString()
    return TopicEntry(Entry(LEDGER, number, number - 1, 0, len(metadata).to_bytes(4, "big") + metadata))


_ENTRIES: Final = [_entry(number) for number in range(8)]


def entry_at(number: int) -> TopicEntry:
    """Return an entry of the topic."""
    return _ENTRIES[number]


# Operations. A command to the owner is a triple: its number, entries, and the client whose consumer sends it.


def add(serving: Serving, client: int) -> None:
    """Add a consumer that is subscribed at the owner."""
    serving.consumers[client] = ConsumerState(name=str(client))
    serving.channels[client] = AckChannel(client)
    serving.dispatcher.add(serving.consumers[client])
    serving.acks.channel_opened(serving.channels[client], 0, NOW)


def remove(serving: Serving, client: int) -> tuple[tuple[int, int, int], ...]:
    """Remove a consumer; return the commands to the owner before its CLOSE_CONSUMER."""
    sent = take(serving)
    serving.dispatcher.remove(serving.consumers.pop(client))
    serving.alone = [(by, entry) for by, entry in serving.alone if by != client]
    serving.acks.channel_closed(serving.channels.pop(client), NOW)
    return sent


def deliver(serving: Serving, client: int) -> int:
    """Deliver one more entry to a consumer; return the entry, NONE for none."""
    receiver = serving.consumers[client]
    receiver.permits = 1
    try:
        want = serving.dispatcher.next_read(NOW)
        if want is None or not serving.chain.readable(want[0]):
            return -1
        first = want[0].entry_id
        deliveries = serving.dispatcher.dispatch(_ENTRIES[first : serving.entries], NOW)
    finally:
        receiver.permits = 0
    return deliveries[0].entry.position.entry_id if deliveries else -1


def ack(serving: Serving, client: int, entry: int) -> bool:
    """Ack an entry that a consumer has (Subscription.ack_entries); return False if it does not have it here."""
    receiver, entries = serving.consumers[client], [position(entry)]
    assert isinstance(serving.dispatcher, SharedDispatcher)
    messages = serving.dispatcher.take_pending(receiver, entries)
    if messages is None:
        return False
    serving.acks.add(serving.channels[client], bytes([entry]), 1, NOW)
    serving.cursor.ack_entries(entries)
    serving.dispatcher.acked_entries(receiver, entries, messages)
    return True


def ack_alone(serving: Serving, client: int, entry: int) -> None:
    """Ack an entry that a consumer no longer has (Subscription.acknowledge), by a separate command to the owner."""
    serving.cursor.ack(position(entry))
    serving.dispatcher.acked(position(entry), serving.consumers[client])
    serving.alone.append((client, entry))


def take(serving: Serving) -> tuple[tuple[int, int, int], ...]:
    """Return the commands for the collected acks, as at their timer."""
    return tuple((out.number, bits(out.ids), out.channel.client) for out in serving.acks.flush_all())


def answered(serving: Serving, number: int, may_be_lost: bool) -> None:
    """Handle the owner's answer to a command; an owner that may crash may lose it again."""
    ids = serving.acks.answered(number)
    if ids and may_be_lost:
        before = b"".join(one.ack for one in serving.recent.before(NOW))
        serving.recent = RecentAcks()
        serving.recent.add(bytes(sorted({*before, *ids})), NOW)


def published(serving: Serving) -> None:
    """Make one more entry readable."""
    serving.entries += 1
    serving.chain.lac_advanced(LEDGER, serving.entries - 1)


def passed(serving: Serving) -> int:
    """Return the number of acked entries before the first unacked one, by the copy of the cursor."""
    mark_delete = serving.cursor.mark_delete
    return mark_delete.entry_id + 1


def read_up_to(serving: Serving, entry: int) -> None:
    """Ack all entries that a reader has read."""
    serving.cursor.ack_cumulative(position(entry))


def under_way_alone(serving: Serving) -> tuple[int, ...]:
    """Return the entries whose acks were sent by separate commands and are not answered."""
    return tuple(entry for _, entry in serving.alone)


def answered_alone(serving: Serving, entries: int) -> None:
    """Handle the owner's answer to a separate ack."""
    entry = next(members(entries))
    if done := next((one for one in serving.alone if one[1] == entry), None):
        serving.alone.remove(done)


def aged(serving: Serving) -> None:
    """Let so much time pass that the owner has stored all answered acks, and more."""
    later = NOW + 2 * WINDOW_S
    serving.recent.add(b"", later)
    assert not b"".join(one.ack for one in serving.recent.before(later))
    serving.recent = RecentAcks()


def renumbered(serving: Serving) -> tuple[int, ...]:
    """Renumber commands in the same order, so that states that differ only in these numbers are equal.

    Returns:
        The old numbers, in the order of the new ones, which start at 1.
    """
    acks = serving.acks
    before = tuple(acks._sent)
    acks._sent = {now: acks._sent[old] for now, old in enumerate(before, 1)}
    acks._last_number = len(before)
    serials = {part.first for part in acks._open.values()} | {part.first for part in acks._sent.values()}
    serials |= {part.first for part in acks._unassigned}
    firsts = {first: now for now, first in enumerate(sorted(serials), 1)}
    for batch in acks._open.values():
        batch.first = firsts[batch.first]
    acks._sent = {number: sent._replace(first=firsts[sent.first]) for number, sent in acks._sent.items()}
    acks._unassigned = [stranded._replace(first=firsts[stranded.first]) for stranded in acks._unassigned]
    acks._added = len(firsts)
    return before


def detached(serving: Serving, client: int) -> None:
    """Handle a consumer that the owner has closed."""
    serving.acks.channel_closed(serving.channels[client], NOW)


def went_on(serving: Serving, client: int) -> tuple[tuple[int, int, int], ...]:
    """Resume the acks of a consumer that is subscribed again (OwnerConsumer.resume_acks); return the commands to the owner."""
    alone = tuple((0, 1 << entry, client) for by, entry in serving.alone if by == client)
    serving.acks.channel_opened(serving.channels[client], 0, NOW)
    return alone + take(serving)


def exchanged(serving: Serving) -> None:
    """Exchange the two clients."""
    for channel in {
        *serving.channels.values(),
        *serving.acks._connection_of,
        *(sent.channel for sent in serving.acks._sent.values()),
    }:
        channel.client = 1 - channel.client
    serving.alone = [(1 - by, entry) for by, entry in serving.alone]
    serving.channels = {channel.client: channel for channel in serving.channels.values()}
    for receiver in serving.consumers.values():
        receiver.name = str(1 - int(receiver.name))
    serving.consumers = {int(receiver.name): receiver for receiver in serving.consumers.values()}
