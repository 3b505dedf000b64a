"""Which consumer a key belongs to (Key_Shared): the selectors of the owner's StickyKeyDispatcher.

A key has a hash of 31 bits; a selector folds it into its own range of slots, and gives each slot to a consumer. Slot 0 is not
used: the owner keeps it for "no hash" (StickyKeyConsumerSelectorUtils).
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
    """Gives slots to consumers."""

    def slot(self, hash_: int) -> int:
        """The slot of a key's hash."""

    def add(self, consumer: ConsumerState) -> None:
        """A consumer arrived."""

    def remove(self, consumer: ConsumerState) -> None:
        """A consumer left."""

    def select(self, slot: int) -> ConsumerState | None:
        """The consumer that a slot belongs to; None where it belongs to nobody."""


class ConsistentHashSelector:
    """AUTO_SPLIT: consistent hashing over the names of the consumers.

    The points are those of the owner (ConsistentHashingStickyKeyConsumerSelector), so that a key is where it would be there.
    """

    def __init__(self) -> None:
        self._points: list[int] = []
        self._at: dict[int, list[ConsumerState]] = {}
        self._indexes: dict[ConsumerState, int] = {}

    def slot(self, hash_: int) -> int:
        """The slot of a key's hash."""
        return hash_ % (RANGE - 1) + 1

    def add(self, consumer: ConsumerState) -> None:
        """A consumer arrived; consumers with the same name are told apart by an index."""
        taken = {index for other, index in self._indexes.items() if other.name == consumer.name}
        self._indexes[consumer] = next(index for index in range(len(taken) + 1) if index not in taken)
        for point in self._points_of(consumer):
            if point not in self._at:
                insort(self._points, point)
            self._at.setdefault(point, []).append(consumer)

    def remove(self, consumer: ConsumerState) -> None:
        """A consumer left."""
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
        """The consumer whose point is the next one on the ring."""
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
    """STICKY: each consumer names its ranges. At the owner HashRangeExclusiveStickyKeyConsumerSelector refuses overlaps."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int, ConsumerState]] = []
        self._starts: list[int] = []

    def slot(self, hash_: int) -> int:
        """The slot of a key's hash."""
        return hash_ % RANGE or 1

    def add(self, consumer: ConsumerState) -> None:
        """A consumer arrived."""
        self._ranges += [(first, last, consumer) for first, last in consumer.ranges]
        self._sort()

    def remove(self, consumer: ConsumerState) -> None:
        """A consumer left."""
        self._ranges = [found for found in self._ranges if found[2] is not consumer]
        self._sort()

    def select(self, slot: int) -> ConsumerState | None:
        """The consumer that has the slot in one of its ranges."""
        index = bisect_left(self._starts, slot + 1) - 1
        if index < 0:
            return None
        _, last, consumer = self._ranges[index]
        return consumer if slot <= last else None

    def _sort(self) -> None:
        self._ranges.sort(key=lambda found: found[0])
        self._starts = [found[0] for found in self._ranges]
