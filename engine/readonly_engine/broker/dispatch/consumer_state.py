"""State of consumers in a dispatcher, and the interface of dispatchers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from readonly_engine.wire.commands import NO_EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.position import Position

READ_ENTRIES = 100
"""Largest number of entries of one read (dispatcherMaxReadBatchSize)."""


@dataclass(slots=True, eq=False)
class ConsumerState:
    """A consumer as dispatchers see it.

    Attributes:
        permits: unused permits of the client; negative after a batch with more messages.
        writable: whether the client's write buffer is below its limit.
        epoch: the client's consumer epoch, sent with its messages (Exclusive and Failover only).
        exposed: whether the client gets the owner's own metadata of entries (broker entry metadata), as it would from the owner.
        name: name of the consumer.
        priority: priority level; 0 is served first.
        ranges: key hashes of the consumer, as pairs (first, last); empty if the broker assigns them.
        pending: delivered unacked entries, with their numbers of messages (Shared and Key_Shared only).
        unacked: number of pending messages.
        blocked: whether the consumer has too many pending messages, and gets no more until it has acked some.
        acked: number of acked messages since the consumer began.
    """

    permits: int = 0
    writable: bool = True
    epoch: int = NO_EPOCH
    exposed: bool = False
    name: str = ""
    priority: int = 0
    ranges: tuple[tuple[int, int], ...] = ()
    pending: dict[Position, int] = field(default_factory=dict)
    unacked: int = 0
    blocked: bool = False
    acked: int = 0

    @property
    def ready(self) -> bool:
        """Whether the consumer can get a message now."""
        return self.permits > 0 and self.writable and not self.blocked


class Delivery(NamedTuple):
    """An entry for a consumer.

    Attributes:
        consumer: the consumer.
        entry: the entry.
        redelivery_count: number of redeliveries on request of a consumer.
        unacked: unacked messages of a partly acked batch: bit i is the message with index i. 0 for the complete entry.
    """

    consumer: ConsumerState
    entry: TopicEntry
    redelivery_count: int = 0
    unacked: int = 0


class EntryRun(NamedTuple):
    """Consecutive entries for a consumer, each complete and delivered for the first time.

    Attributes:
        consumer: the consumer.
        entries: the entries.
        messages: number of their messages.
    """

    consumer: ConsumerState
    entries: Sequence[TopicEntry]
    messages: int


def split_runs(deliveries: list[Delivery]) -> Iterator[list[Delivery]]:
    """Split deliveries into runs for one write each: consecutive complete first deliveries to one consumer."""
    if len(deliveries) == 1:
        yield deliveries
        return
    begin, before = 0, None
    for at, (consumer, _, redelivery_count, unacked) in enumerate(deliveries):
        plain = None if redelivery_count or unacked else consumer
        if at and (plain is None or plain is not before):
            yield deliveries[begin:at]
            begin = at
        before = plain
    if deliveries:
        yield deliveries[begin:]


class Dispatcher(Protocol):
    """Dispatcher of one subscription type. `next_read` returns the next read, and `dispatch` turns its entries into deliveries.

    Times are in ms since the epoch, as in messages with delayed delivery.
    """

    @property
    def consumers(self) -> Sequence[ConsumerState]:
        """The consumers."""

    def add(self, consumer: ConsumerState) -> None:
        """Add a consumer."""

    def remove(self, consumer: ConsumerState) -> None:
        """Remove a consumer. Its unacked entries are delivered to others."""

    def next_read(self, now: int) -> tuple[Position, int] | None:
        """Return the next position to read and the largest number of entries; None if no consumer can get any."""

    def dispatch(self, entries: Iterable[TopicEntry], now: int) -> list[Delivery]:
        """Dispatch entries from the position of `next_read` on, without gaps. A later read includes those without a consumer."""

    def acked(self, position: Position, by: ConsumerState | None = None) -> bool:
        """Remove an entry from the pending ones after its ack, which the cursor has.

        Args:
            position: the entry.
            by: the consumer that has acked it, in most cases the one with the entry; None if unknown.

        Returns:
            Whether entries that waited for this ack can be delivered now.
        """

    def acked_partially(self, position: Position, left: int, by: ConsumerState | None = None) -> bool:
        """Set the number of unacked messages of a batch after an ack of some; arguments and result as `acked`."""

    def withhold(self, position: Position, by: ConsumerState | None = None) -> bool:
        """Remove an entry from the pending ones after an ack in a transaction, until `restore` or the commit; as `acked`."""

    def restore(self, positions: list[Position]) -> bool:
        """Deliver withheld entries again after the abort of a transaction.

        Returns:
            Whether all can be delivered; if not, the consumers must subscribe again.
        """

    def cursor_moved(self) -> None:
        """Remove pending entries that the cursor has passed without acks of these consumers."""

    def redeliver(self, consumer: ConsumerState, positions: list[Position]) -> None:
        """Deliver entries of a consumer again on its request; all its unacked entries for an empty list."""

    def rewind(self) -> None:
        """Start again at the first unacked entry, after a move of the cursor."""

    @property
    def outstanding(self) -> bool:
        """Whether a consumer has unacked entries."""

    def next_timer(self) -> int | None:
        """Return the time of the next delayed message, in ms since the epoch, for another `next_read`; None without one."""


def total_permits(consumers: Iterable[ConsumerState]) -> int:
    """Return the sum of the permits of all ready consumers, at most READ_ENTRIES."""
    permits = 0
    for consumer in consumers:
        if consumer.permits > 0 and consumer.writable and not consumer.blocked:
            permits += consumer.permits
            if permits >= READ_ENTRIES:
                return READ_ENTRIES
    return permits
