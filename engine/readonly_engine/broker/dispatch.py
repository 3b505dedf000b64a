"""Who gets which entry: pure dispatchers. What they need of consumers and topics comes in as arguments.

A dispatcher is asked for a `want` (where it would read on, and how many messages its consumers have permits for), is given
entries, and returns deliveries.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from readonly_engine.wire.commands import NO_EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_engine.broker.cursor import CursorCopy
    from readonly_engine.topic.chain import LedgerChain
    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.position import Position


@dataclass(slots=True, eq=False)
class Receiver:
    """What a dispatcher knows of a consumer.

    Attributes:
        permits: how many messages the client has asked for and not got; below 0 after a batch that was larger.
        writable: whether the client's connection takes more.
        epoch: the consumer epoch of the client, sent with its messages.
        pending: delivered to it and not acked, with the number of messages (kept for Shared only).
    """

    permits: int = 0
    writable: bool = True
    epoch: int = NO_EPOCH
    pending: dict[Position, int] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """Whether it can get a message now."""
        return self.permits > 0 and self.writable


class Delivery(NamedTuple):
    """An entry for a consumer."""

    receiver: Receiver
    entry: TopicEntry
    redelivery_count: int


class Dispatcher(Protocol):
    """The way of one subscription type."""

    @property
    def receivers(self) -> list[Receiver]:
        """The consumers, in the order of their arrival."""

    def add(self, receiver: Receiver) -> None:
        """A consumer arrived."""

    def remove(self, receiver: Receiver) -> None:
        """A consumer left; what it has not acked goes to others."""

    def want(self) -> tuple[Position, int] | None:
        """Where to read on, and for how many messages there are permits; None where nobody can take any."""

    def offer(self, entries: Iterable[TopicEntry]) -> list[Delivery]:
        """Take entries from the wanted position on, without a gap; those that find no taker are asked for again."""

    def acked(self, position: Position) -> None:
        """An entry was acked and is in the cursor."""

    def redeliver(self, receiver: Receiver, positions: list[Position]) -> None:
        """The client asks for entries again; no positions: for all that it has not acked."""

    def rewind(self) -> None:
        """Deliver all that is not acked once more: the cursor moved."""

    @property
    def outstanding(self) -> bool:
        """Whether a consumer has something that it has not acked."""


class SingleActiveDispatcher:
    """Exclusive and Failover: every entry, in order, to the one active consumer.

    Args:
        chain: the topic's ledgers.
        cursor: what is acked.
        elected: whether the owner says who is active (Failover); else the only consumer is.
    """

    def __init__(self, chain: LedgerChain, cursor: CursorCopy, *, elected: bool) -> None:
        self._chain = chain
        self._cursor = cursor
        self._elected = elected
        self._next = cursor.first_unacked()
        self.receivers: list[Receiver] = []
        self.active: Receiver | None = None

    def add(self, receiver: Receiver) -> None:
        """A consumer arrived."""
        self.receivers.append(receiver)
        if not self._elected:
            self.activate(receiver)

    def remove(self, receiver: Receiver) -> None:
        """A consumer left."""
        if receiver in self.receivers:
            self.receivers.remove(receiver)
        if receiver is self.active:
            self.active = None

    def activate(self, receiver: Receiver) -> None:
        """The owner chose this consumer; a new one starts at the first entry that is not acked."""
        if receiver is not self.active:
            self.active = receiver
            self.rewind()

    def deactivate(self, receiver: Receiver) -> None:
        """The owner chose another."""
        if receiver is self.active:
            self.active = None

    def want(self) -> tuple[Position, int] | None:
        """Where to read on."""
        if self.active is None or not self.active.ready:
            return None
        self._next = self._cursor.next_unacked(self._next)
        return self._next, self.active.permits

    def offer(self, entries: Iterable[TopicEntry]) -> list[Delivery]:
        """Hand out entries."""
        deliveries: list[Delivery] = []
        active = self.active
        if active is None:
            return deliveries
        for entry in entries:
            if not active.ready:
                break
            self._next = self._chain.after(entry.position)
            if entry.marker or self._cursor.is_acked(entry.position):
                continue
            active.permits -= entry.messages
            deliveries.append(Delivery(active, entry, 0))
        return deliveries

    def acked(self, position: Position) -> None:
        """Nothing is kept for an entry."""

    def redeliver(self, receiver: Receiver, positions: list[Position]) -> None:
        """Start over: these types cannot redeliver single entries (PersistentDispatcherSingleActiveConsumer)."""
        del positions
        if receiver is self.active:
            self.rewind()

    def rewind(self) -> None:
        """Start over at the first entry that is not acked."""
        self._next = self._cursor.first_unacked()

    @property
    def outstanding(self) -> bool:
        """Whether the active consumer has something that it has not acked."""
        return self.active is not None and self._cursor.first_unacked() < self._next


class SharedDispatcher:
    """Shared: entries go round to all consumers with permits; what one leaves unacked goes to others."""

    BATCH = 20
    """Entries for one consumer before the next gets its turn (dispatcherMaxRoundRobinBatchSize)."""

    def __init__(self, chain: LedgerChain, cursor: CursorCopy) -> None:
        self._chain = chain
        self._cursor = cursor
        self._next = cursor.first_unacked()
        self._replay: list[Position] = []
        self._redeliveries: dict[Position, int] = {}
        self._turn = 0
        self._turn_used = 0
        self.receivers: list[Receiver] = []

    def add(self, receiver: Receiver) -> None:
        """A consumer arrived; the first one starts over."""
        if not self.receivers:
            self._redeliveries.clear()
            self.rewind()
        self.receivers.append(receiver)

    def remove(self, receiver: Receiver) -> None:
        """A consumer left."""
        if receiver in self.receivers:
            self.receivers.remove(receiver)
            self._again(receiver, list(receiver.pending))

    def want(self) -> tuple[Position, int] | None:
        """Where to read on: first what must be delivered again."""
        permits = sum(receiver.permits for receiver in self.receivers if receiver.ready)
        if permits <= 0:
            return None
        while self._replay and not self._wanted(self._replay[0]):
            self._redeliveries.pop(self._replay.pop(0), None)
        if self._replay:
            return self._replay[0], permits
        self._next = self._cursor.next_unacked(self._next)
        return self._next, permits

    def offer(self, entries: Iterable[TopicEntry]) -> list[Delivery]:
        """Hand out entries."""
        deliveries: list[Delivery] = []
        for entry in entries:
            position = entry.position
            replayed = bool(self._replay) and self._replay[0] == position
            if not replayed and position < self._next:
                continue
            if not entry.marker and not self._cursor.is_acked(position):
                receiver = self._choose()
                if receiver is None:
                    break
                receiver.permits -= entry.messages
                receiver.pending[position] = entry.messages
                deliveries.append(Delivery(receiver, entry, self._redeliveries.get(position, 0)))
            if replayed:
                self._replay.pop(0)
            if position >= self._next:
                self._next = self._chain.after(position)
        return deliveries

    def acked(self, position: Position) -> None:
        """Whoever had it pending has it no more: any consumer may ack any entry."""
        self._redeliveries.pop(position, None)
        for receiver in self.receivers:
            if receiver.pending.pop(position, None) is not None:
                return

    def redeliver(self, receiver: Receiver, positions: list[Position]) -> None:
        """Deliver again what the consumer has pending of these."""
        self._again(receiver, positions or list(receiver.pending))

    def rewind(self) -> None:
        """Start over at the first entry that is not acked."""
        self._replay.clear()
        self._next = self._cursor.first_unacked()

    @property
    def outstanding(self) -> bool:
        """Whether a consumer has something that it has not acked."""
        return any(receiver.pending for receiver in self.receivers)

    def _wanted(self, position: Position) -> bool:
        """Whether an entry must still be delivered: neither acked nor trimmed."""
        return not self._cursor.is_acked(position) and self._chain.ledger(position.ledger_id) is not None

    def _again(self, receiver: Receiver, positions: list[Position]) -> None:
        for position in positions:
            # A client may name an entry twice: once for each message of a batch.
            if receiver.pending.pop(position, None) is not None and not self._cursor.is_acked(position):
                self._redeliveries[position] = self._redeliveries.get(position, 0) + 1
                insort(self._replay, position)

    def _choose(self) -> Receiver | None:
        """The consumer whose turn it is, or the next one that can take an entry."""
        count = len(self.receivers)
        if self._turn_used >= self.BATCH:
            self._turn, self._turn_used = self._turn + 1, 0
        for step in range(count):
            receiver = self.receivers[(self._turn + step) % count]
            if receiver.ready:
                if step:
                    self._turn, self._turn_used = self._turn + step, 0
                self._turn_used += 1
                return receiver
        return None
