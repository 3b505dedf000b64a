"""Consumers of one local subscription: who may subscribe, and who is active. A pure state machine.

The rules are those of PersistentSubscription.addConsumer, AbstractDispatcherSingleActiveConsumer and
HashRangeExclusiveStickyKeyConsumerSelector (Pulsar 4.0.8).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.wire.pulsar_pb2 import CommandSubscribe, KeySharedMode
from readonly_engine.wire.sticky_key import key_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_engine.wire.pulsar_pb2 import KeySharedMeta

FAILOVER_DELAY_S: Final = 1.0
"""Time for acks of the former active consumer of Failover, as at an owner (activeConsumerFailoverDelayTimeMillis).

Then the consumers are told which of them is active. Go's client loses what comes before the answer to its SUBSCRIBE.
"""

HASH_RING_REPLICAS: Final = 100
"""Points of each consumer on the hash ring (CONSUMER_CONSISTENT_HASH_REPLICAS)."""

_RING: Final = (1 << 31) - 1
_SINGLE_ACTIVE: Final = frozenset({CommandSubscribe.Exclusive, CommandSubscribe.Failover})


class ConsumerBusyError(Exception):
    """The subscription has consumers that exclude the new one."""


class ConsumerAssignError(Exception):
    """The ranges of hashes that a consumer names are invalid, or another consumer has some of them (KeySharedMode.STICKY)."""


class LocalConsumer(NamedTuple):
    """A consumer.

    Attributes:
        number: unique number.
        name: its name.
        priority: priority level; lower numbers go first.
        kind: type of the subscription that it asks for.
        key_shared: for Key_Shared: policy (mode, and whether messages may be out of order).
        ranges: for Key_Shared with the mode STICKY: its ranges of hashes, first and last.
    """

    number: int
    name: str
    priority: int
    kind: int
    key_shared: tuple[int, bool] = (0, False)
    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, number: int, subscribe: CommandSubscribe) -> LocalConsumer:
        """Return the consumer of a SUBSCRIBE."""
        meta: KeySharedMeta = subscribe.key_shared_meta
        policy = (meta.key_shared_mode, meta.allow_out_of_order_delivery)
        ranges = tuple((one.start, one.end) for one in meta.hash_ranges)
        return cls(number, subscribe.consumer_name, subscribe.priority_level, subscribe.sub_type, policy, ranges)

    @property
    def sticky(self) -> bool:
        """Whether it gets the keys whose hashes are in its ranges."""
        return self.kind == CommandSubscribe.Key_Shared and self.key_shared[0] == KeySharedMode.STICKY


class LocalConsumers:
    """The consumers of one subscription.

    Args:
        topic: name of the topic.
        partition: index of the partition; -1 for none.
        limit: largest number of consumers; 0 for any.

    Attributes:
        active: number of the consumer that gets messages, of Exclusive and Failover; None without one.
    """

    __slots__ = ("_consumers", "_distances", "_limit", "_partition", "_topic", "active")

    def __init__(self, topic: str, partition: int, limit: int = 0) -> None:
        self.active: int | None = None
        self._topic = topic
        self._partition = partition
        self._limit = limit
        self._consumers: list[LocalConsumer] = []
        self._distances: dict[str, int] | None = None  # by the consumers' names; most subscriptions have one consumer

    def __len__(self) -> int:
        return len(self._consumers)

    @property
    def kind(self) -> int | None:
        """Type of the subscription; None without a consumer."""
        return self._consumers[0].kind if self._consumers else None

    @property
    def elects(self) -> bool:
        """Whether consumers are told which of them is active (Failover)."""
        return self.kind == CommandSubscribe.Failover

    def add(self, consumer: LocalConsumer) -> None:
        """Add a consumer, which may become the active one.

        Raises:
            ConsumerBusyError: the consumers that are there exclude it.
            ConsumerAssignError: its ranges are invalid, or another consumer has some of them.
        """
        if consumer.sticky:
            _check_ranges(consumer.ranges)
        check_compatible(consumer, self._consumers)
        if self._limit and len(self._consumers) >= self._limit:
            raise ConsumerBusyError("Subscription reached max consumers limit")
        self._consumers.append(consumer)
        self._elect()

    def remove(self, number: int) -> None:
        """Remove a consumer, if it is there; another one may become active."""
        self._consumers = [one for one in self._consumers if one.number != number]
        names = {one.name for one in self._consumers}
        if self._distances is not None:
            self._distances = {name: distance for name, distance in self._distances.items() if name in names}
        self._elect()

    def may_unsubscribe(self, number: int) -> bool:
        """Return whether a consumer may delete the subscription: it is the only one."""
        return [one.number for one in self._consumers] == [number]

    def _elect(self) -> None:
        if not self._consumers or self._consumers[0].kind not in _SINGLE_ACTIVE:
            self.active = None
            return
        if len(self._consumers) == 1:
            self.active = self._consumers[0].number  # a hundred hashes less for each of very many subscriptions
            return
        self._consumers.sort(key=lambda one: (one.priority, one.name))
        first = [one for one in self._consumers if one.priority == self._consumers[0].priority]
        if self._partition >= 0:
            self.active = first[self._partition % len(first)].number
        else:
            # Of equal points the last consumer's stays on the owner's ring.
            self.active = min(reversed(first), key=lambda one: self._distance(one.name)).number

    def _distance(self, name: str) -> int:
        """Return the distance from the topic to the consumer's next point on the ring of 31 bits."""
        if self._distances is None:
            self._distances = {}
        found = self._distances.get(name)
        if found is None:
            points = (key_hash(f"{name}{replica}".encode()) for replica in range(HASH_RING_REPLICAS))
            begin = key_hash(self._topic.encode())
            found = self._distances[name] = min((point - begin) & _RING for point in points)
        return found


def check_compatible(consumer: LocalConsumer, others: Sequence[LocalConsumer]) -> None:
    """Check that the consumers of a subscription do not exclude another one.

    Raises:
        ConsumerBusyError: they exclude it.
        ConsumerAssignError: one of them has some of its ranges.
    """
    if not others:
        return
    first = others[0]
    if consumer.kind != first.kind:
        names = CommandSubscribe.SubType.Name
        raise ConsumerBusyError(
            f"Subscription is of different type. Active subscription type of '{names(first.kind)}' is different than the"
            f" connecting consumer's type '{names(consumer.kind)}'."
        )
    if consumer.kind == CommandSubscribe.Exclusive:
        raise ConsumerBusyError("Exclusive consumer is already connected")
    if consumer.kind == CommandSubscribe.Key_Shared and consumer.key_shared != first.key_shared:
        raise ConsumerBusyError(
            "Subscription is of different type. Its consumers have another key_shared mode, or another choice of"
            " allowOutOfOrderDelivery."
        )
    if consumer.sticky:
        for one in others:
            if any(_overlap(own, other) for own in consumer.ranges for other in one.ranges):
                raise ConsumerAssignError(f"Range conflict with consumer {one.name}")


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return max(one[0], other[0]) <= min(one[1], other[1])


def _check_ranges(ranges: tuple[tuple[int, int], ...]) -> None:
    if not ranges:
        raise ConsumerAssignError("Ranges for KeyShared policy must not be empty.")
    for first, last in ranges:
        if first > last:
            raise ConsumerAssignError(f"Fixed hash range start > end for range: [{first},{last}]")
    for one, other in pairwise(sorted(ranges)):
        if _overlap(one, other):
            raise ConsumerAssignError(f"Consumer's own ranges conflict: {list(one)} overlaps with {list(other)}")
