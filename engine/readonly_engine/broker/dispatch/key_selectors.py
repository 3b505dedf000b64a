"""Assignment of keys to consumers (Key_Shared), as by the owner's StickyKeyConsumerSelector.

A key has a hash of 31 bits. A selector maps the hash to a slot in its range, and each slot to a consumer. Slot 0 is not used: the
owner reserves it for "no hash" (StickyKeyConsumerSelectorUtils).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Protocol

from readonly_engine.wire.sticky_key import key_hash

if TYPE_CHECKING:
    from readonly_engine.broker.dispatch.consumer_state import ConsumerState

RANGE = 65536

RING_POINTS = 100
"""Points of a consumer on the ring (subscriptionKeySharedConsistentHashingReplicaPoints)."""


class KeySelector(Protocol):
    """Assigns slots to consumers."""

    def slot(self, hash_: int) -> int:
        """Return the slot of a key's hash."""

    def add(self, consumer: ConsumerState) -> None:
        """Add a consumer."""

    def remove(self, consumer: ConsumerState) -> None:
        """Remove a consumer."""

    def select(self, slot: int) -> ConsumerState | None:
        """Return the consumer of a slot; None without one."""


class ConsistentHashSelector:
    """AUTO_SPLIT: consistent hashing over the names of the consumers.

    The points are those of the owner (ConsistentHashingStickyKeyConsumerSelector), so each key has the same consumer as there.
    """

    def __init__(self) -> None:
        self._points: list[int] = []
        self._at: dict[int, list[ConsumerState]] = {}
        self._indexes: dict[ConsumerState, int] = {}

    def slot(self, hash_: int) -> int:
        """Return the slot of a key's hash."""
        return hash_ % (RANGE - 1) + 1

    def add(self, consumer: ConsumerState) -> None:
        """Add a consumer. An index distinguishes consumers with the same name."""
        taken = {index for other, index in self._indexes.items() if other.name == consumer.name}
        self._indexes[consumer] = next(index for index in range(len(taken) + 1) if index not in taken)
        for point in self._points_of(consumer):
            if point not in self._at:
                insort(self._points, point)
            self._at.setdefault(point, []).append(consumer)

    def remove(self, consumer: ConsumerState) -> None:
        """Remove a consumer."""
        if consumer not in self._indexes:
            return
        for point in self._points_of(consumer):
            here = self._at[point]
            here.remove(consumer)
            if not here:
                del self._at[point]
                del self._points[bisect_left(self._points, point)]
        del self._indexes[consumer]

    def select(self, slot: int) -> ConsumerState | None:
        """Return the consumer of the next point on the ring; None without consumers."""
        points = self._points
        if not points:
            return None
        index = bisect_left(points, slot)
        return self._at[points[index if index < len(points) else 0]][0]

    def _points_of(self, consumer: ConsumerState) -> list[int]:
        index = self._indexes[consumer]
        names = (f"{consumer.name}\0{index}\0{point}" for point in range(RING_POINTS))
        return [self.slot(key_hash(name.encode())) for name in names]


class HashRangeSelector:
    """STICKY: each consumer names its ranges. The owner refuses overlaps (HashRangeExclusiveStickyKeyConsumerSelector)."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int, ConsumerState]] = []
        self._starts: list[int] = []

    def slot(self, hash_: int) -> int:
        """Return the slot of a key's hash."""
        return hash_ % RANGE or 1

    def add(self, consumer: ConsumerState) -> None:
        """Add a consumer with its ranges."""
        self._ranges += [(first, last, consumer) for first, last in consumer.ranges]
        self._sort()

    def remove(self, consumer: ConsumerState) -> None:
        """Remove a consumer."""
        self._ranges = [found for found in self._ranges if found[2] is not consumer]
        self._sort()

    def select(self, slot: int) -> ConsumerState | None:
        """Return the consumer with the slot in one of its ranges; None without one."""
        index = bisect_left(self._starts, slot + 1) - 1
        if index < 0:
            return None
        _, last, consumer = self._ranges[index]
        return consumer if slot <= last else None

    def _sort(self) -> None:
        self._ranges.sort(key=lambda found: found[0])
        self._starts = [found[0] for found in self._ranges]
