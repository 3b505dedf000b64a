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
"""Entries asked for at once (dispatcherMaxReadBatchSize)."""


@dataclass(slots=True, eq=False)
class ConsumerState:
    """A consumer as dispatchers see it.

    Attributes:
        permits: how many messages the client has asked for and not got; below 0 after a batch that was larger.
        writable: whether the client's connection takes more.
        epoch: the consumer epoch of the client, sent with its messages; of Exclusive and Failover only.
        name: the consumer's name.
        priority: the consumer's priority level; 0 is served first.
        ranges: the key hashes that it takes, as pairs (first, last); empty where the broker assigns them.
        pending: delivered to it and not acked, with the number of messages (kept for Shared and Key_Shared only).
        unacked: how many messages are pending.
        blocked: whether it has too many of them, and gets nothing until it has acked some.
        acked: how many of its messages were acked since it came.
    """

    permits: int = 0
    writable: bool = True
    epoch: int = NO_EPOCH
    name: str = ""
    priority: int = 0
    ranges: tuple[tuple[int, int], ...] = ()
    pending: dict[Position, int] = field(default_factory=dict)
    unacked: int = 0
    blocked: bool = False
    acked: int = 0

    @property
    def ready(self) -> bool:
        """Return whether it can get a message now."""
        return self.permits > 0 and self.writable and not self.blocked


class Delivery(NamedTuple):
    """An entry for a consumer.

    Attributes:
        consumer: the consumer.
        entry: the entry.
        redelivery_count: how often a consumer has asked for it again.
        unacked: of a batch that is acked in part, the messages that are not: bit i is the message with index i; 0 for the whole.
    """

    consumer: ConsumerState
    entry: TopicEntry
    redelivery_count: int = 0
    unacked: int = 0


class EntryRun(NamedTuple):
    """Consecutive entries for a consumer, each complete and for the first time.

    Attributes:
        consumer: the consumer.
        entries: the entries.
        messages: how many they hold.
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
    """Dispatch of one subscription type. `next_read` names the wanted entries, and `dispatch` turns entries into deliveries.

    Times are in ms since the epoch, as messages with delayed delivery carry them.
    """

    @property
    def consumers(self) -> list[ConsumerState]:
        """The consumers."""

    def add(self, consumer: ConsumerState) -> None:
        """A consumer arrived."""

    def remove(self, consumer: ConsumerState) -> None:
        """A consumer left; what it has not acked goes to others."""

    def next_read(self, now: int) -> tuple[Position, int] | None:
        """Return the next position to read and the largest number of entries; None if no consumer can take any."""

    def dispatch(self, entries: Iterable[TopicEntry], now: int) -> list[Delivery]:
        """Dispatch entries from the wanted position on, without gaps. Entries without a consumer are requested again."""

    def acked(self, position: Position, by: ConsumerState | None = None) -> bool:
        """An entry was acked and is in the cursor.

        Args:
            position: the entry.
            by: the consumer that acked it, which mostly is the one that has it.

        Returns:
            Whether something that had to wait for it can be delivered now.
        """

    def acked_partially(self, position: Position, left: int, by: ConsumerState | None = None) -> bool:
        """Of a batch only so many messages are left to be acked; as `acked`."""

    def withhold(self, position: Position, by: ConsumerState | None = None) -> bool:
        """An entry was acked in a transaction: nobody has it pending, and it may come back."""

    def restore(self, positions: list[Position]) -> bool:
        """Deliver again what was withheld; returns whether this can be done right: else the consumers must come again."""

    def cursor_moved(self) -> None:
        """The cursor went on without acks of these consumers: what it has passed is not theirs any more."""

    def redeliver(self, consumer: ConsumerState, positions: list[Position]) -> None:
        """The client asks for entries again; no positions: for all that it has not acked."""

    def rewind(self) -> None:
        """Deliver all that is not acked once more: the cursor moved."""

    @property
    def outstanding(self) -> bool:
        """Whether a consumer has something that it has not acked."""

    @property
    def next_due(self) -> int | None:
        """When the next delayed message is due, in ms since the epoch; None where none is held."""


def total_permits(consumers: Iterable[ConsumerState]) -> int:
    """Return the consumers' permits, at most READ_ENTRIES."""
    permits = 0
    for consumer in consumers:
        if consumer.permits > 0 and consumer.writable and not consumer.blocked:
            permits += consumer.permits
            if permits >= READ_ENTRIES:
                return READ_ENTRIES
    return permits
