"""Grouping of the acks of all consumers of one subscription into commands for its owner. Pure; seconds of any one clock.

Any consumer of a Shared or Key_Shared subscription may ack any entry on the owner, and an ACK carries any number of ids.
So the acks of some milliseconds go as one command, through one consumer. The command is kept until the owner has answered.
If its consumer ends before, the command goes through another consumer: an owner accepts an ack twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

GROUP_DELAY_S: Final = 0.1
"""Longest delay of an ack. Clients group acks for as long (acknowledgmentsGroupTime). Owners store a cursor once a second
(managedLedgerDefaultMarkDeleteRateLimit)."""

MAX_ENTRIES: Final = 1000
"""Entries after which a command is sent, as in clients (maxAcknowledgmentGroupSize). Acks of one `add` are not divided."""

C = TypeVar("C")


class OutgoingAck(NamedTuple, Generic[C]):
    """A command to send.

    Attributes:
        number: the number for `answered` and `lost`.
        channel: the consumer through which it goes.
        ids: fields `message_id` of a CommandAck, encoded.
    """

    number: int
    channel: C
    ids: bytes


@dataclass(slots=True)
class _OpenBatch(Generic[C]):
    """Acks that wait on one connection.

    Attributes:
        channel: the consumer through which they go.
        first: serial number of the first ack.
        due: time at which they must be sent.
        ids: fields `message_id` of a CommandAck, encoded.
        entries: number of entries.
    """

    channel: C
    first: int
    due: float
    ids: list[bytes] = field(default_factory=list)
    entries: int = 0


class _SentBatch(NamedTuple, Generic[C]):
    channel: C
    first: int
    ids: bytes
    entries: int


class _Unassigned(NamedTuple):
    """Acks without a channel."""

    first: int
    ids: bytes
    entries: int


class AckGroupingTracker(Generic[C]):
    """Groups acks, and keeps those that the owner has not answered.

    A channel is a consumer on the owner, on one connection. Acks use the connection of the consumer that acks, so that they
    arrive before its later commands.

    Args:
        delay_s: longest time for which the first ack of a command waits for others.
    """

    def __init__(self, delay_s: float = GROUP_DELAY_S) -> None:
        self._delay = delay_s
        self._connection_of: dict[C, Hashable] = {}
        self._channels: dict[Hashable, dict[C, None]] = {}
        self._open: dict[Hashable, _OpenBatch[C]] = {}
        self._sent: dict[int, _SentBatch[C]] = {}
        self._unassigned: list[_Unassigned] = []
        self._last_number = 0
        self._added = 0

    # Channels

    def channel_opened(self, channel: C, connection: Hashable, now: float) -> None:
        """Add a channel: acks without one are due on it now."""
        self._connection_of[channel] = connection
        self._channels.setdefault(connection, {})[channel] = None
        unassigned, self._unassigned = self._unassigned, []
        for one in unassigned:
            self._put(channel, connection, one, now)

    def channel_closing(self, channel: C, now: float) -> None:
        """Remove a channel before its consumer is closed: its sent commands still await their answers."""
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
        """Remove a channel after its consumer has ended: its unanswered commands go through another."""
        self.channel_closing(channel, now)
        for number in [number for number, sent in self._sent.items() if sent.channel == channel]:
            self.lost(number, now)

    # Acks

    def add(self, channel: C, ids: bytes, entries: int, now: float) -> None:
        """Add acks of a consumer.

        Args:
            channel: the consumer's own channel.
            ids: fields `message_id` of a CommandAck, encoded.
            entries: number of entries.
            now: the time.
        """
        self._added += 1
        connection = self._connection_of.get(channel)
        if connection is None:
            self._reassign(_Unassigned(self._added, ids, entries), now)
            return
        batch = self._open.get(connection)
        if batch is None:
            batch = self._open[connection] = _OpenBatch(channel, self._added, now + self._delay)
        batch.ids.append(ids)
        batch.entries += entries
        if batch.entries >= MAX_ENTRIES:
            batch.due = now

    def next_timer(self) -> float | None:
        """Return the time of the next `on_timer`; None without waiting acks."""
        return min([batch.due for batch in self._open.values()], default=None)

    def on_timer(self, now: float) -> Iterator[OutgoingAck[C]]:
        """Yield the commands that are due."""
        for connection in [connection for connection, batch in self._open.items() if batch.due <= now]:
            yield self._send(connection)

    def flush(self, connection: Hashable) -> Iterator[OutgoingAck[C]]:
        """Yield the waiting command of a connection, due or not."""
        if connection in self._open:
            yield self._send(connection)

    def flush_all(self) -> Iterator[OutgoingAck[C]]:
        """Yield the waiting commands of all connections, due or not."""
        for connection in list(self._open):
            yield self._send(connection)

    def answered(self, number: int) -> bytes:
        """Drop a command that the owner has accepted or refused: it would refuse a repetition, too.

        Returns:
            Its ids; empty if it was answered or lost before.
        """
        sent = self._sent.pop(number, None)
        return b"" if sent is None else sent.ids

    def lost(self, number: int, now: float) -> None:
        """Send a command again: no answer will come."""
        sent = self._sent.pop(number, None)
        if sent is not None:
            self._reassign(_Unassigned(sent.first, sent.ids, sent.entries), now)

    def forget(self) -> None:
        """Drop all acks: the owner's cursor was reset."""
        self._open.clear()
        self._sent.clear()
        self._unassigned.clear()

    # Unanswered acks

    @property
    def added(self) -> int:
        """Serial number of the last ack."""
        return self._added

    @property
    def first_unanswered(self) -> int | None:
        """Serial number of the first ack that the owner has not answered; None without one."""
        firsts = [batch.first for batch in self._open.values()]
        firsts += [sent.first for sent in self._sent.values()]
        firsts += [unassigned.first for unassigned in self._unassigned]
        return min(firsts, default=None)

    @property
    def unanswered(self) -> bytes:
        """The unanswered ids, as fields `message_id` of a CommandAck."""
        ids = [b"".join(batch.ids) for batch in self._open.values()]
        ids += [sent.ids for sent in self._sent.values()]
        ids += [unassigned.ids for unassigned in self._unassigned]
        return b"".join(ids)

    def _reassign(self, acks: _Unassigned, now: float) -> None:
        """Move acks to any channel."""
        channel = next(iter(self._connection_of), None)
        if channel is None:
            self._unassigned.append(acks)
        else:
            self._put(channel, self._connection_of[channel], acks, now + self._delay)

    def _put(self, channel: C, connection: Hashable, acks: _Unassigned, due: float) -> None:
        batch = self._open.get(connection)
        if batch is None:
            batch = self._open[connection] = _OpenBatch(channel, acks.first, due)
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
        self._sent[self._last_number] = _SentBatch(channel, batch.first, ids, batch.entries)
        return OutgoingAck(self._last_number, channel, ids)
