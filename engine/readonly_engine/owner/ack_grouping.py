"""Acks of all consumers of one subscription, on their way to its owner together. Pure; seconds are those of any one clock.

Any consumer of a Shared or Key_Shared subscription may ack any of its entries at the owner, and an ACK carries any number of ids:
so what all of them ack within some milliseconds goes as one command, through one of them. It is kept until the owner has
answered. When the one that it went through is gone before that it goes through another: the owner takes an ack twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

GROUP_DELAY_S: Final = 0.1
"""So far behind the owner's cursor may be. Clients collect their acks for as long (acknowledgmentsGroupTime), and owners write a
cursor's place down once a second (managedLedgerDefaultMarkDeleteRateLimit)."""

MAX_ENTRIES: Final = 1000
"""So many in one command, as clients group them (maxAcknowledgmentGroupSize); what comes together stays together."""

C = TypeVar("C")


class OutgoingAck(NamedTuple, Generic[C]):
    """A command to be sent.

    Attributes:
        number: what its answer is told under.
        channel: the consumer that it goes through.
        ids: fields `message_id` of a CommandAck, encoded.
    """

    number: int
    channel: C
    ids: bytes


@dataclass(slots=True)
class _Open(Generic[C]):
    """What is collected for one line: through whom it goes, the serial number of its first ack, and when it must go."""

    channel: C
    first: int
    due: float
    ids: list[bytes] = field(default_factory=list)
    entries: int = 0


class _Sent(NamedTuple, Generic[C]):
    channel: C
    first: int
    ids: bytes
    entries: int


class _Unassigned(NamedTuple):
    """What has no way now."""

    first: int
    ids: bytes
    entries: int


class AckGroupingTracker(Generic[C]):
    """Collects acks, and knows which of them the owner has not answered.

    A way is a consumer that stands at the owner; its line is the connection on which it does so. Acks keep to the line of the
    consumer that acks, so that they come before whatever else it sends.

    Args:
        delay_s: how long the first ack of a command waits for others.
    """

    def __init__(self, delay_s: float = GROUP_DELAY_S) -> None:
        self._delay = delay_s
        self._connection_of: dict[C, Hashable] = {}
        self._channels: dict[Hashable, dict[C, None]] = {}
        self._open: dict[Hashable, _Open[C]] = {}
        self._sent: dict[int, _Sent[C]] = {}
        self._unassigned: list[_Unassigned] = []
        self._last_number = 0
        self._added = 0

    # Ways

    def channel_opened(self, channel: C, connection: Hashable, now: float) -> None:
        """A consumer is at the owner: what had no way goes through it, as soon as anything is taken."""
        self._connection_of[channel] = connection
        self._channels.setdefault(connection, {})[channel] = None
        unassigned, self._unassigned = self._unassigned, []
        for one in unassigned:
            self._put(channel, connection, one, now)

    def channel_closing(self, channel: C, now: float) -> None:
        """A consumer is about to be closed: nothing more goes through it, and the answers to what did are on their way."""
        connection = self._connection_of.pop(channel, None)
        if connection is None:
            return
        channels = self._channels[connection]
        del channels[channel]
        if channels:
            return
        del self._channels[connection]
        left = self._open.pop(connection, None)
        if left is not None:
            self._reassign(_Unassigned(left.first, b"".join(left.ids), left.entries), now)

    def channel_closed(self, channel: C, now: float) -> None:
        """A consumer is not at the owner any more: what was not answered goes through another."""
        self.channel_closing(channel, now)
        for number in [number for number, sent in self._sent.items() if sent.channel == channel]:
            self.lost(number, now)

    # Acks

    def add(self, channel: C, ids: bytes, entries: int, now: float) -> None:
        """A consumer acks.

        Args:
            channel: the consumer's own.
            ids: fields `message_id` of a CommandAck, encoded.
            entries: how many.
            now: the time.
        """
        self._added += 1
        connection = self._connection_of.get(channel)
        if connection is None:
            self._reassign(_Unassigned(self._added, ids, entries), now)
            return
        batch = self._open.get(connection)
        if batch is None:
            batch = self._open[connection] = _Open(channel, self._added, now + self._delay)
        batch.ids.append(ids)
        batch.entries += entries
        if batch.entries >= MAX_ENTRIES:
            batch.due = now

    @property
    def due(self) -> float | None:
        """When something must be sent; None while there is nothing."""
        return min([batch.due for batch in self._open.values()], default=None)

    def take_due(self, now: float) -> Iterator[OutgoingAck[C]]:
        """What must be sent now."""
        for connection in [connection for connection, batch in self._open.items() if batch.due <= now]:
            yield self._send(connection)

    def flush(self, connection: Hashable) -> Iterator[OutgoingAck[C]]:
        """What waits on a line, whenever it would be due."""
        if connection in self._open:
            yield self._send(connection)

    def flush_all(self) -> Iterator[OutgoingAck[C]]:
        """What waits on any line."""
        for connection in list(self._open):
            yield self._send(connection)

    def answered(self, number: int) -> bytes:
        """The owner has taken a command, or refused it: sent again it would be refused again.

        Returns:
            Its ids; none where it is known to be answered or lost already.
        """
        sent = self._sent.pop(number, None)
        return b"" if sent is None else sent.ids

    def lost(self, number: int, now: float) -> None:
        """No answer to a command will come."""
        sent = self._sent.pop(number, None)
        if sent is not None:
            self._reassign(_Unassigned(sent.first, sent.ids, sent.entries), now)

    def forget(self) -> None:
        """The owner's cursor was moved: earlier acks mean nothing any more."""
        self._open.clear()
        self._sent.clear()
        self._unassigned.clear()

    # What is not answered

    @property
    def added(self) -> int:
        """The serial number of the last ack."""
        return self._added

    @property
    def first_unanswered(self) -> int | None:
        """The serial number of the first ack that the owner has not answered; None where it has answered all."""
        firsts = [batch.first for batch in self._open.values()]
        firsts += [sent.first for sent in self._sent.values()]
        firsts += [unassigned.first for unassigned in self._unassigned]
        return min(firsts, default=None)

    @property
    def unanswered(self) -> bytes:
        """The ids that the owner has not answered, as fields `message_id` of a CommandAck."""
        ids = [b"".join(batch.ids) for batch in self._open.values()]
        ids += [sent.ids for sent in self._sent.values()]
        ids += [unassigned.ids for unassigned in self._unassigned]
        return b"".join(ids)

    def _reassign(self, acks: _Unassigned, now: float) -> None:
        """Send through any consumer that is there."""
        channel = next(iter(self._connection_of), None)
        if channel is None:
            self._unassigned.append(acks)
        else:
            self._put(channel, self._connection_of[channel], acks, now + self._delay)

    def _put(self, channel: C, connection: Hashable, acks: _Unassigned, due: float) -> None:
        batch = self._open.get(connection)
        if batch is None:
            batch = self._open[connection] = _Open(channel, acks.first, due)
        batch.first = min(batch.first, acks.first)
        batch.due = min(batch.due, due)
        batch.ids.append(acks.ids)
        batch.entries += acks.entries

    def _send(self, connection: Hashable) -> OutgoingAck[C]:
        batch = self._open.pop(connection)
        channels = self._channels[connection]
        channel = batch.channel if batch.channel in channels else next(iter(channels))
        self._last_number += 1
        ids = batch.ids[0] if len(batch.ids) == 1 else b"".join(batch.ids)
        self._sent[self._last_number] = _Sent(channel, batch.first, ids, batch.entries)
        return OutgoingAck(self._last_number, channel, ids)
