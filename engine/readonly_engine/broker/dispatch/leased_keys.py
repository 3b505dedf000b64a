"""Key_Shared, where another broker of the pool decides which slots of keys are served here."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final, Protocol

from readonly_engine.broker.dispatch.key_selectors import RANGE, RING_POINTS
from readonly_engine.broker.dispatch.key_shared import DEFAULT_LOOK_AHEAD, KeySharedDispatcher, LookAhead
from readonly_engine.broker.dispatch.leased import NOWHERE
from readonly_engine.broker.dispatch.multiple import DEFAULT_LIMITS, UnackedLimits
from readonly_engine.wire.sticky_key import key_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from readonly_engine.broker.dispatch.consumer_state import ConsumerState, Delivery
    from readonly_engine.broker.dispatch.cursor import CursorReplica
    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.position import Position

ALL_SLOTS: Final = (1 << RANGE) - 2
"""Every slot as bits: slot 0 is not used."""


class RingConsumer(Protocol):
    """A consumer on any broker."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def index(self) -> int:
        """A number that distinguishes consumers with the same name."""


class ConsistentHashRing:
    """The consumers of all brokers on the ring of consistent hashing, with the points of ConsistentHashSelector.

    Args:
        consumers: the consumers, in the order of their arrival: at a point of several, the first one counts.
    """

    def __init__(self, consumers: Sequence[RingConsumer]) -> None:
        at: dict[int, int] = {}
        for number, consumer in enumerate(consumers):
            for point in range(RING_POINTS):
                name = f"{consumer.name}\0{consumer.index}\0{point}"
                at.setdefault(self.slot(key_hash(name.encode())), number)
        self._points = sorted(at)
        self._numbers = [at[point] for point in self._points]

    def slot(self, hash_: int) -> int:
        """Return the slot of a key's hash."""
        return hash_ % (RANGE - 1) + 1

    def number(self, slot: int) -> int:
        """Return the number of the consumer of a slot; -1 without consumers."""
        if not self._points:
            return -1
        index = bisect_left(self._points, slot)
        return self._numbers[index if index < len(self._points) else 0]

    def slots(self, number_of: Sequence[int], count: int) -> list[int]:
        """Return the slots of each part of the consumers, as bits.

        Args:
            number_of: the part of each consumer.
            count: number of parts.
        """
        found = [0] * count
        lower = 0
        for point, number in zip(self._points, self._numbers, strict=True):
            found[number_of[number]] |= (1 << (point + 1)) - (1 << (lower + 1))
            lower = point
        if self._points:
            found[number_of[self._numbers[0]]] |= (1 << RANGE) - (1 << (lower + 1))
        return found


class LocalSelector:
    """Selects consumers of this broker on the ring of all (KeySelector).

    Args:
        ring: the ring.
        local: by number on the ring, the consumers of this broker.
    """

    def __init__(self, ring: ConsistentHashRing, local: dict[int, ConsumerState]) -> None:
        self._ring = ring
        self._local = local

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

    Gained slots are read again from the first unacked entry on: their former broker has dispatched an unknown part.
    """

    def __init__(
        self,
        chain: LedgerChain,
        cursor: CursorReplica,
        limits: UnackedLimits = DEFAULT_LIMITS,
        *,
        delayed: bool = True,
        look_ahead: LookAhead = DEFAULT_LOOK_AHEAD,
    ) -> None:
        super().__init__(chain, cursor, limits._replace(subscription=0), delayed=delayed, look_ahead=look_ahead)
        self._selector = LocalSelector(ConsistentHashRing(()), {})
        self._served = _bitmap(0)
        self._gained = _bitmap(0)  # slots that are read again up to `_read_before`
        self._read_before = self._next

    # Slots

    def assign(self, ring: LocalSelector, slots: int) -> None:
        """Serve these slots only, by a new ring. Pending entries of others stay pending.

        Args:
            ring: the consumers.
            slots: the slots as bits, none of which was gained.
        """
        self._selector = ring
        self._served = _bitmap(slots)
        for position in [position for position, slot in self._waiting.items() if not self._serves(slot)]:
            self._remove_waiting(position)
        self._reassign_waiting()

    def gain(self, slots: int) -> None:
        """Serve these slots, too. The copy of the cursor has all acks of their former broker."""
        self._served = _bitmap(slots | int.from_bytes(self._served, "little"))
        self._gained = _bitmap(slots | int.from_bytes(self._gained, "little"))
        self._read_before = max(self._read_before, self._next)
        self._next = self._cursor.first_unacked()

    @property
    def busy(self) -> int:
        """The slots with pending entries, as bits."""
        bits = bytearray(RANGE // 8)
        for slot in self._pending_at:
            bits[slot >> 3] |= 1 << (slot & 7)
        return int.from_bytes(bits, "little")

    def _serves(self, slot: int) -> int:
        return self._served[slot >> 3] >> (slot & 7) & 1

    def rewind(self) -> None:
        """Start again at the first unacked entry, without pending entries."""
        super().rewind()
        self._read_before = self._next

    # Dispatch

    def dispatch(self, entries: Iterable[TopicEntry], now: int) -> list[Delivery]:
        """Dispatch entries; see Dispatcher."""
        found = list(entries)
        following = self._next
        if found and found[0].position != following:  # waiting entries, which may be after those to read again
            self._next = NOWHERE
            try:
                return super().dispatch(found, now)
            finally:
                self._next = following
        deliveries = super().dispatch(found, now)
        if self._next >= self._read_before:
            self._gained = _bitmap(0)
        return deliveries

    def _dispatch_new(self, entry: TopicEntry, now: int, deliveries: list[Delivery]) -> bool:
        slot, position = self._selector.slot(entry.sticky_hash), entry.position
        if not self._serves(slot):
            return True
        if position in self._waiting:
            self._dispatch_waiting(entry, now, deliveries)
            return True
        if position < self._read_before and (not self._gained[slot >> 3] >> (slot & 7) & 1 or position in self._slots):
            return True
        return super()._dispatch_new(entry, now, deliveries)

    def _replay(self, position: Position, slot: int = 0) -> None:
        """Read an entry again, unless another broker will, or a consumer has it."""
        if not self._serves(slot):
            self._redeliveries.pop(position, None)
        elif position not in self._slots:
            super()._replay(position, slot)


def _bitmap(slots: int) -> bytes:
    """Return slots as bytes, in which one of them is found without a copy."""
    return slots.to_bytes(RANGE // 8, "little")
