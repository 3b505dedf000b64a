"""What a broker knows of a subscription that it serves: the engine's own copy of the cursor, dispatcher and acks under way.

The functions here are what Subscription does with them, without asyncio. A consumer is known by its client's number, entries by
theirs: entry 0 is the first of the topic. Sets of entries are bits.
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
"""The one that an owner begins with when it loads the topic again."""

NOW: Final = 0


class Way:
    """A consumer as AckGroupingTracker knows it."""

    __slots__ = ("client",)

    def __init__(self, client: int) -> None:
        self.client = client


class Serving:
    """One subscription at one broker.

    Args:
        entries: how many the topic has.
        ledgers: how many times it was loaded.
        acked: what the owner said is acked.
        single: whether one consumer gets all (Exclusive), else several share (Shared).
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
        self.acks: AckGroupingTracker[Way] = AckGroupingTracker()
        self.recent = RecentAcks()
        self.alone: list[tuple[int, int]] = []
        self.ways: dict[int, Way] = {}
        self.consumers: dict[int, ConsumerState] = {}


def load(chain: LedgerChain, entries: int, ledgers: int) -> None:
    """Have a chain know the topic's ledgers."""
    info = ManagedLedgerInfo()
    if ledgers == 1:
        info.ledger_info.add(ledger_id=LEDGER, timestamp=0)
    else:
        info.ledger_info.add(ledger_id=LEDGER, entries=entries, timestamp=1)
        info.ledger_info.add(ledger_id=LATER_LEDGER, timestamp=0)
    chain.topic_changed(info)
    chain.lac_advanced(LEDGER, entries - 1)


def position(entry: int) -> Position:
    """Where an entry is."""
    return Position(LEDGER, entry)


def prefix_of(acked: int) -> int:
    """How many entries from the first on are acked."""
    count = 0
    while acked >> count & 1:
        count += 1
    return count


def mark_delete_of(acked: int) -> Position:
    """The mark-delete position that an owner tells."""
    return position(prefix_of(acked) - 1)


def ranges_of(acked: int) -> Iterator[tuple[Position, Position]]:
    """The acked entries as ranges (lower, upper]."""
    return ((position(entry - 1), position(entry)) for entry in members(acked))


def members(entries: int) -> Iterator[int]:
    """The entries of a set."""
    return (entry for entry in range(entries.bit_length()) if entries >> entry & 1)


def bits(entries: Iterable[int]) -> int:
    """A set of entries."""
    return sum(1 << entry for entry in set(entries))


def _entry(number: int) -> TopicEntry:
    metadata = MessageMetadata(producer_name="p", sequence_id=number, publish_time=1).SerializeToString()
    return TopicEntry(Entry(LEDGER, number, number - 1, 0, len(metadata).to_bytes(4, "big") + metadata))


_ENTRIES: Final = [_entry(number) for number in range(8)]

# What happens to it. Commands to the owner are triples: number of the command, entries, through which client's consumer.


def add(serving: Serving, client: int) -> None:
    """A consumer that is at the owner joins."""
    serving.consumers[client] = ConsumerState(name=str(client))
    serving.ways[client] = Way(client)
    serving.dispatcher.add(serving.consumers[client])
    serving.acks.channel_opened(serving.ways[client], 0, NOW)


def remove(serving: Serving, client: int) -> tuple[tuple[int, int, int], ...]:
    """A consumer leaves; returns what is sent to the owner before it is closed there."""
    sent = take(serving)
    serving.dispatcher.remove(serving.consumers.pop(client))
    serving.alone = [(by, entry) for by, entry in serving.alone if by != client]
    serving.acks.channel_closed(serving.ways.pop(client), NOW)
    return sent


def deliver(serving: Serving, client: int) -> int:
    """A consumer takes one entry more; returns which it gets, NONE where there is none."""
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
    """A consumer acks what it has (Subscription.ack_entries); False where it does not have it here."""
    receiver, entries = serving.consumers[client], [position(entry)]
    assert isinstance(serving.dispatcher, SharedDispatcher)
    messages = serving.dispatcher.take_pending(receiver, entries)
    if messages is None:
        return False
    serving.acks.add(serving.ways[client], bytes([entry]), 1, NOW)
    serving.cursor.ack_entries(entries)
    serving.dispatcher.acked_entries(receiver, entries, messages)
    return True


def ack_alone(serving: Serving, client: int, entry: int) -> None:
    """A consumer acks what it does not have any more (Subscription.acknowledge): that goes to the owner by itself."""
    serving.cursor.ack(position(entry))
    serving.dispatcher.acked(position(entry), serving.consumers[client])
    serving.alone.append((client, entry))


def take(serving: Serving) -> tuple[tuple[int, int, int], ...]:
    """The timer of acks that are collected goes off."""
    return tuple((out.number, bits(out.ids), out.channel.client) for out in serving.acks.flush_all())


def answered(serving: Serving, number: int, may_be_lost: bool) -> None:
    """The owner has answered a command, and may lose it again where it may die."""
    ids = serving.acks.answered(number)
    if ids and may_be_lost:
        before = b"".join(one.ack for one in serving.recent.before(NOW))
        serving.recent = RecentAcks()
        serving.recent.add(bytes(sorted({*before, *ids})), NOW)


def published(serving: Serving) -> None:
    """One entry more is readable."""
    serving.entries += 1
    serving.chain.lac_advanced(LEDGER, serving.entries - 1)


def passed(serving: Serving) -> int:
    """How many entries are acked, from the first on."""
    mark_delete = serving.cursor.mark_delete
    return mark_delete.entry_id + 1


def read_up_to(serving: Serving, entry: int) -> None:
    """A reader acks all that it has read."""
    serving.cursor.ack_cumulative(position(entry))


def under_way_alone(serving: Serving) -> tuple[int, ...]:
    """The entries whose acks went by themselves and are not answered."""
    return tuple(entry for _, entry in serving.alone)


def answered_alone(serving: Serving, entries: int) -> None:
    """The owner has answered an ack that went by itself."""
    entry = next(members(entries))
    if done := next((one for one in serving.alone if one[1] == entry), None):
        serving.alone.remove(done)


def aged(serving: Serving) -> None:
    """So much time passes that the owner has stored what it answered, and more."""
    later = NOW + 2 * WINDOW_S
    serving.recent.add(b"", later)
    assert not b"".join(one.ack for one in serving.recent.before(later))
    serving.recent = RecentAcks()


def renumbered(serving: Serving) -> tuple[int, ...]:
    """Count commands anew, in the same order: so states that differ in nothing else are one.

    Returns:
        The old numbers, in the order of the new ones, which begin at 1.
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
    """The owner has closed a consumer."""
    serving.acks.channel_closed(serving.ways[client], NOW)


def went_on(serving: Serving, client: int) -> tuple[tuple[int, int, int], ...]:
    """A consumer that is at the owner again may ack there (OwnerConsumer.resume_acks); returns what is sent."""
    alone = tuple((0, 1 << entry, client) for by, entry in serving.alone if by == client)
    serving.acks.channel_opened(serving.ways[client], 0, NOW)
    return alone + take(serving)


def exchanged(serving: Serving) -> None:
    """The two clients change places."""
    for way in {
        *serving.ways.values(),
        *serving.acks._connection_of,
        *(sent.channel for sent in serving.acks._sent.values()),
    }:
        way.client = 1 - way.client
    serving.alone = [(1 - by, entry) for by, entry in serving.alone]
    serving.ways = {way.client: way for way in serving.ways.values()}
    for receiver in serving.consumers.values():
        receiver.name = str(1 - int(receiver.name))
    serving.consumers = {int(receiver.name): receiver for receiver in serving.consumers.values()}
