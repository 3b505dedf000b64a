"""Key_Shared, where another broker of the pool decides which slots of keys are served here."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

from readonly_engine.broker.dispatch.key_selectors import RANGE, RING_POINTS
from readonly_engine.broker.dispatch.key_shared import DEFAULT_LOOK_AHEAD, KeySharedDispatcher, LookAhead
from readonly_engine.broker.dispatch.leased import NOWHERE
from readonly_engine.broker.dispatch.multiple import DEFAULT_LIMITS, UnackedLimits
from readonly_engine.topic.position import Position
from readonly_engine.wire.entry_view import views_of_slots
from readonly_engine.wire.sticky_key import key_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from readonly_engine.broker.dispatch.consumer_state import ConsumerState, Delivery, EntryRun
    from readonly_engine.broker.dispatch.cursor import CursorReplica
    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.entries import TopicEntry

ALL_SLOTS: Final = (1 << RANGE) - 2
"""Every slot as bits: slot 0 is not used."""

MAX_LEFT_COUNTS: Final = 10_000
"""Redelivery counts that are kept for the next broker of their slots."""

NO_PART: Final = 255
"""Part of a slot without a consumer."""


class RingConsumer(Protocol):
    """A consumer on any broker."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def index(self) -> int:
        """A number that distinguishes consumers with the same name."""

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Its ranges of hashes, first and last; empty unless consumers name them (STICKY)."""


class SlotAssignment(Protocol):
    """Assigns slots to the consumers of all brokers, which have numbers in the order of their arrival."""

    def slot(self, hash_: int) -> int:
        """Return the slot of a key's hash."""

    def number(self, slot: int) -> int:
        """Return the number of the consumer of a slot; -1 without one."""

    def slots(self, number_of: Sequence[int], count: int) -> list[int]:
        """Return the slots of each part of the consumers, as bits.

        Args:
            number_of: the part of each consumer.
            count: number of parts, at most NO_PART.
        """


class ConsistentHashRing:
    """The consumers of all brokers on the ring of consistent hashing, with the points of ConsistentHashSelector.

    Args:
        consumers: the consumers, in the order of their arrival: at a point of several, the first one counts.
    """

    def __init__(self, consumers: Sequence[RingConsumer]) -> None:
        at: dict[int, int] = {}
        for number, consumer in enumerate(consumers):
            for point in _points(consumer.name, consumer.index):
                at.setdefault(point, number)
        self._points = sorted(at)
        self._numbers = [at[point] for point in self._points]

    def slot(self, hash_: int) -> int:
        """Return the slot of a key's hash."""
        return hash_ % (RANGE - 1) + 1  # as `_slot`, without another call for each entry

    def number(self, slot: int) -> int:
        """Return the number of the consumer of a slot, as SlotAssignment."""
        if not self._points:
            return -1
        index = bisect_left(self._points, slot)
        return self._numbers[index if index < len(self._points) else 0]

    def slots(self, number_of: Sequence[int], count: int) -> list[int]:
        """Return the slots of each part of the consumers, as SlotAssignment."""
        parts = bytearray([NO_PART]) * RANGE
        lower = 0
        for point, number in zip(self._points, self._numbers, strict=True):
            parts[lower + 1 : point + 1] = bytes([number_of[number]]) * (point - lower)
            lower = point
        if self._points:
            parts[lower + 1 :] = bytes([number_of[self._numbers[0]]]) * (RANGE - 1 - lower)
        return _slots_of_parts(parts, count)


class HashRanges:
    """The ranges of hashes that the consumers of all brokers name (STICKY), as HashRangeSelector (SlotAssignment).

    Args:
        consumers: the consumers. The owner refuses overlaps, but one that has left may still be here: the first one counts.
    """

    def __init__(self, consumers: Sequence[RingConsumer]) -> None:
        self._ranges = [consumer.ranges for consumer in consumers]
        self._numbers = array("h", [-1]) * RANGE
        for number, first, last in self._last_to_first():
            self._numbers[first : last + 1] = array("h", [number]) * (last + 1 - first)

    def _last_to_first(self) -> Iterator[tuple[int, int, int]]:
        for number in reversed(range(len(self._ranges))):
            for first, last in self._ranges[number]:
                yield number, first, last

    def slot(self, hash_: int) -> int:
        """Return the slot of a key's hash."""
        return hash_ % RANGE or 1

    def number(self, slot: int) -> int:
        """Return the number of the consumer of a slot; -1 if it is in no range."""
        return self._numbers[slot]

    def slots(self, number_of: Sequence[int], count: int) -> list[int]:
        """Return the slots of each part of the consumers, as SlotAssignment."""
        parts = bytearray([NO_PART]) * RANGE
        for number, first, last in self._last_to_first():
            parts[first : last + 1] = bytes([number_of[number]]) * (last + 1 - first)
        parts[0] = NO_PART
        return _slots_of_parts(parts, count)


def make_ring(consumers: Sequence[RingConsumer], *, sticky: bool) -> SlotAssignment:
    """Return the ring of consumers, which name their ranges of hashes if `sticky`."""
    return HashRanges(consumers) if sticky else ConsistentHashRing(consumers)


def _slots_of_parts(parts: bytearray, count: int) -> list[int]:
    """Return the slots of each part, as bits, from the part of each slot."""
    parts.reverse()  # the digits of a number, highest slot first
    return [int(parts.translate(_digits(number)), 2) for number in range(count)]


def _digits(number: int) -> bytes:
    """Return a table for `translate`: 1 for a part, 0 for others."""
    return b"0" * number + b"1" + b"0" * (255 - number)


class LocalSelector:
    """Selects consumers of this broker on the ring of all (KeySelector).

    Args:
        ring: the ring.
        local: by number on the ring, the consumers of this broker.
    """

    def __init__(self, ring: SlotAssignment, local: dict[int, ConsumerState]) -> None:
        self._ring = ring
        self._local = local

    def __len__(self) -> int:
        return len(self._local)

    def slot(self, hash_: int) -> int:
        """Return the slot of a key's hash."""
        return self._ring.slot(hash_)

    def add(self, consumer: ConsumerState) -> None:
        """Ignore it: another broker puts consumers on the ring."""

    def remove(self, consumer: ConsumerState) -> None:
        """Remove a consumer, whose slots have none until there is a new ring."""
        self._local = {number: one for number, one in self._local.items() if one is not consumer}

    def select(self, slot: int) -> ConsumerState | None:
        """Return the consumer of a slot; None if it is on another broker."""
        return self._local.get(self._ring.number(slot))


class LeasedKeyDispatcher(KeySharedDispatcher):
    """Dispatches the entries of those slots that this broker may serve, and passes over all others.

    Gained slots are read again from the first unacked entry on: their former broker has dispatched an unknown part. The limit of
    unacked messages of the subscription is divided by the number of consumers on each broker.

    Args:
        chain: as in KeySharedDispatcher, as all others.
        cursor: the copy of the cursor.
        limits: limits of unacked messages.
        delayed: whether delayed delivery is enabled.
        sticky: whether the consumers name their ranges of hashes.
        any_order: whether the order of a key may be ignored.
        look_ahead: limits of waiting entries.

    Attributes:
        sticky: as above.
        any_order: as above.
        indivisible: whether one broker must serve the subscription alone, because of acks in transactions or of parts of batches.
    """

    def __init__(
        self,
        chain: LedgerChain,
        cursor: CursorReplica,
        limits: UnackedLimits = DEFAULT_LIMITS,
        *,
        delayed: bool = True,
        sticky: bool = False,
        any_order: bool = False,
        look_ahead: LookAhead = DEFAULT_LOOK_AHEAD,
    ) -> None:
        super().__init__(chain, cursor, limits, delayed=delayed, any_order=any_order, look_ahead=look_ahead)
        self.sticky = sticky
        self.any_order = any_order
        self.indivisible = False
        self._whole_limits = limits
        self._share = (1, 1)
        self._selector = LocalSelector(make_ring((), sticky=sticky), {})
        self._served = _NO_SLOTS
        self._gained = _NO_SLOTS  # slots that are read again up to `_read_before`
        self._read_before = self._next
        self._left_counts: dict[Position, int] = {}
        self._elsewhere = frozenset[Position]()  # that consumers of other brokers have
        self._freed = frozenset[Position]()  # that they had: to be passed over until the owner's cursor is read
        self._skipped: dict[Position, int] = {}  # those of both that were passed over, with their slots

    def follow(self, limits: UnackedLimits, *, delayed: bool) -> None:
        """Apply policies that have changed; of the limit of the subscription, the part of this broker's consumers."""
        self._whole_limits = limits
        here, all_ = self._share
        share = max(limits.subscription * here // all_, 1) if limits.subscription and all_ else limits.subscription
        super().follow(limits._replace(subscription=share), delayed=delayed)

    # Slots

    def assign(self, ring: LocalSelector, slots: int, consumers: int) -> None:
        """Serve these slots only, by a new ring. Pending entries of others stay pending.

        Args:
            ring: the consumers.
            slots: the slots as bits, none of which was gained.
            consumers: number of consumers on all brokers.
        """
        self._selector = ring
        self._served = _bitmap(slots)
        self._share = (len(ring), consumers)
        self.follow(self._whole_limits, delayed=self._delays_enabled)
        self._delayed.keep(lambda entry: bool(self._serves(entry.slot)))
        for position in [position for position, slot in self._waiting.items() if not self._serves(slot)]:
            self._remove_waiting(position)
            self._leave_count(position)
        self._reassign_waiting()

    def gain(self, slots: int) -> None:
        """Serve these slots, too. The copy of the cursor has all acks of their former broker."""
        self._served = _bitmap(slots | int.from_bytes(self._served, "little"))
        self._gained = _bitmap(slots | int.from_bytes(self._gained, "little"))
        self._read_before = max(self._read_before, self._next)
        self._next = self._cursor.first_unacked()

    # Redelivery counts, which move with the slots

    def _leave_count(self, position: Position) -> None:
        if (count := self._redeliveries.pop(position, 0)) and len(self._left_counts) < MAX_LEFT_COUNTS:
            self._left_counts[position] = count

    def take_left_counts(self) -> dict[Position, int]:
        """Remove the redelivery counts of entries that other brokers will dispatch; return them."""
        counts, self._left_counts = self._left_counts, {}
        return counts

    @property
    def redelivery_counts(self) -> dict[Position, int]:
        """The redelivery counts of entries that were not acked."""
        return {
            position: count for position, count in self._redeliveries.items() if not self._cursor.is_acked(position)
        }

    def set_counts(self, counts: dict[Position, int]) -> None:
        """Set redelivery counts of entries that another broker has dispatched. `cursor_moved` removes those that are acked."""
        for position, count in counts.items():
            if not self._cursor.is_acked(position):
                self._redeliveries[position] = max(count, self._redeliveries.get(position, 0))

    # Entries of these slots that consumers of other brokers have, where the order may be ignored

    @property
    def elsewhere(self) -> int:
        """Number of entries that consumers of other brokers have."""
        return len(self._elsewhere)

    def set_elsewhere(self, positions: frozenset[Position], *, unread: bool) -> frozenset[Position]:
        """Pass over the entries that consumers of other brokers have, whatever their slots.

        Args:
            positions: the entries.
            unread: whether slots were gained for which the owner's cursor is read.

        Returns:
            Those that others had before. They are passed over until `take_back`, after a read of the owner's cursor.
        """
        before = self._elsewhere - positions
        freed = frozenset(one for one in before if unread or one in self._skipped or one >= self._next)
        self._elsewhere = positions
        self._freed |= freed
        return freed

    def take_back(self, freed: frozenset[Position]) -> None:
        """Dispatch entries that consumers of other brokers had. The copy of the cursor has their acks."""
        self._freed -= freed
        for position in sorted(freed - self._elsewhere):
            slot = self._skipped.pop(position, None)
            if slot is not None and not self._cursor.is_acked(position):
                self._replay(position, slot)

    def has_pending(self, position: Position) -> bool:
        """Return whether a consumer of this broker has an entry."""
        return position in self._slots

    def pending_in(self, slots: int) -> dict[int, list[Position]]:
        """Return what the consumers of this broker have of slots, given as bits."""
        found: dict[int, list[Position]] = {}
        bits = _bitmap(slots)
        for position, slot in self._slots.items():
            if bits[slot >> 3] >> (slot & 7) & 1:
                found.setdefault(slot, []).append(position)
        return found

    @property
    def busy(self) -> int:
        """The slots with pending entries, as bits."""
        return bits_of(self._pending_at if self._drains else set(self._slots.values()))

    def _serves(self, slot: int) -> int:
        return self._served[slot >> 3] >> (slot & 7) & 1

    def rewind(self) -> None:
        """Start again at the first unacked entry, without pending entries."""
        super().rewind()
        self._read_before = self._next
        self._skipped.clear()

    # Dispatch

    def dispatch(self, entries: Iterable[TopicEntry], now: int) -> list[Delivery]:
        """Dispatch entries; see Dispatcher. New ones of other brokers are passed over, in C."""
        found = list(entries)
        following = self._next
        if found and found[0].position != following:  # waiting entries, which may be after those to read again
            self._next = NOWHERE
            try:
                return super().dispatch(found, now)
            finally:
                self._next = following
        deliveries = self._dispatch_own(found, now)
        if self._next >= self._read_before:
            self._gained = _NO_SLOTS
        return deliveries

    def dispatch_uniform(self, entries: Sequence[TopicEntry]) -> list[EntryRun] | None:
        """Dispatch new entries of these slots, as KeySharedDispatcher, and pass over the others."""
        if self._next < self._read_before or self._elsewhere or self._freed or not self._is_uniform(entries):
            return None
        self._gained = _NO_SLOTS
        own = views_of_slots(entries, self._served, self.sticky)
        runs, taken = self._assign_runs(own)
        if taken == len(own):
            self._next = self._chain.after(entries[-1].position)
        elif taken:
            self._next = self._chain.after(own[taken - 1].position)
        return runs

    def _dispatch_own(self, found: list[TopicEntry], now: int) -> list[Delivery]:
        own = views_of_slots(found, self._served, self.sticky)
        deliveries = super().dispatch(own, now)
        if found and (not own or self._next > own[-1].position):
            self._next = self._chain.after(found[-1].position)
        return deliveries

    def _dispatch_new(self, entry: TopicEntry, now: int, deliveries: list[Delivery]) -> bool:
        if (position := entry.position) < self._read_before:
            if position in self._waiting:
                self._dispatch_waiting(entry, now, deliveries)
                return True
            slot = self._selector.slot(entry.sticky_hash)
            if not self._gained[slot >> 3] >> (slot & 7) & 1 or position in self._slots:
                return True
        if (self._elsewhere or self._freed) and (position in self._elsewhere or position in self._freed):
            self._skipped[position] = self._selector.slot(entry.sticky_hash)
            return True
        return super()._dispatch_new(entry, now, deliveries)

    def _replay(self, position: Position, slot: int = 0) -> None:
        """Read an entry again, unless another broker will, or a consumer has it."""
        if not self._serves(slot):
            self._leave_count(position)
        elif position not in self._slots:
            super()._replay(position, slot)


def _slot(hash_: int) -> int:
    return hash_ % (RANGE - 1) + 1


@lru_cache(maxsize=2_000)
def _points(name: str, index: int) -> tuple[int, ...]:
    """Return the points of a consumer on the ring. They are kept: a change of one consumer makes the ring of all again."""
    return tuple(_slot(key_hash(f"{name}\0{index}\0{point}".encode())) for point in range(RING_POINTS))


def bits_of(slots: Iterable[int]) -> int:
    """Return slots as bits."""
    bits = bytearray(RANGE // 8)
    for slot in slots:
        bits[slot >> 3] |= 1 << (slot & 7)
    return int.from_bytes(bits, "little")


def _bitmap(slots: int) -> bytes:
    """Return slots as bytes, in which one of them is found without a copy."""
    return slots.to_bytes(RANGE // 8, "little")


_NO_SLOTS: Final = _bitmap(0)
