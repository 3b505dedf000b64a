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

DELAY_S: Final = 0.1
"""So far behind the owner's cursor may be. Clients collect their acks for as long (acknowledgmentsGroupTime), and owners write a
cursor's place down once a second (managedLedgerDefaultMarkDeleteRateLimit)."""

MOST_ENTRIES: Final = 1000
"""So many in one command, as clients group them (maxAcknowledgmentGroupSize); what comes together stays together."""

W = TypeVar("W")


class Outgoing(NamedTuple, Generic[W]):
    """A command to be sent.

    Attributes:
        number: what its answer is told under.
        way: the consumer that it goes through.
        ids: fields `message_id` of a CommandAck, encoded.
    """

    number: int
    way: W
    ids: bytes


@dataclass(slots=True)
class _Open(Generic[W]):
    """What is collected for one line: through whom it goes, the serial number of its first ack, and when it must go."""

    way: W
    first: int
    due: float
    ids: list[bytes] = field(default_factory=list)
    entries: int = 0


class _Sent(NamedTuple, Generic[W]):
    way: W
    first: int
    ids: bytes
    entries: int


class _Stranded(NamedTuple):
    """What has no way now."""

    first: int
    ids: bytes
    entries: int


class AckBatches(Generic[W]):
    """Collects acks, and knows which of them the owner has not answered.

    A way is a consumer that stands at the owner; its line is the connection on which it does so. Acks keep to the line of the
    consumer that acks, so that they come before whatever else it sends.

    Args:
        delay_s: how long the first ack of a command waits for others.
    """

    def __init__(self, delay_s: float = DELAY_S) -> None:
        self._delay = delay_s
        self._line_of: dict[W, Hashable] = {}
        self._ways: dict[Hashable, dict[W, None]] = {}
        self._open: dict[Hashable, _Open[W]] = {}
        self._sent: dict[int, _Sent[W]] = {}
        self._stranded: list[_Stranded] = []
        self._last_number = 0
        self._added = 0

    # Ways

    def opened(self, way: W, line: Hashable, now: float) -> None:
        """A consumer is at the owner: what had no way goes through it, as soon as anything is taken."""
        self._line_of[way] = line
        self._ways.setdefault(line, {})[way] = None
        stranded, self._stranded = self._stranded, []
        for one in stranded:
            self._put(way, line, one, now)

    def parting(self, way: W, now: float) -> None:
        """A consumer is about to be closed: nothing more goes through it, and the answers to what did are on their way."""
        line = self._line_of.pop(way, None)
        if line is None:
            return
        ways = self._ways[line]
        del ways[way]
        if ways:
            return
        del self._ways[line]
        left = self._open.pop(line, None)
        if left is not None:
            self._again(_Stranded(left.first, b"".join(left.ids), left.entries), now)

    def closed(self, way: W, now: float) -> None:
        """A consumer is not at the owner any more: what was not answered goes through another."""
        self.parting(way, now)
        for number in [number for number, sent in self._sent.items() if sent.way == way]:
            self.lost(number, now)

    # Acks

    def add(self, way: W, ids: bytes, entries: int, now: float) -> None:
        """A consumer acks.

        Args:
            way: the consumer's own.
            ids: fields `message_id` of a CommandAck, encoded.
            entries: how many.
            now: the time.
        """
        self._added += 1
        line = self._line_of.get(way)
        if line is None:
            self._again(_Stranded(self._added, ids, entries), now)
            return
        batch = self._open.get(line)
        if batch is None:
            batch = self._open[line] = _Open(way, self._added, now + self._delay)
        batch.ids.append(ids)
        batch.entries += entries
        if batch.entries >= MOST_ENTRIES:
            batch.due = now

    @property
    def due(self) -> float | None:
        """When something must be sent; None while there is nothing."""
        return min([batch.due for batch in self._open.values()], default=None)

    def take(self, now: float) -> Iterator[Outgoing[W]]:
        """What must be sent now."""
        for line in [line for line, batch in self._open.items() if batch.due <= now]:
            yield self._send(line)

    def flush(self, line: Hashable) -> Iterator[Outgoing[W]]:
        """What waits on a line, whenever it would be due."""
        if line in self._open:
            yield self._send(line)

    def flush_all(self) -> Iterator[Outgoing[W]]:
        """What waits on any line."""
        for line in list(self._open):
            yield self._send(line)

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
            self._again(_Stranded(sent.first, sent.ids, sent.entries), now)

    def forget(self) -> None:
        """The owner's cursor was moved: earlier acks mean nothing any more."""
        self._open.clear()
        self._sent.clear()
        self._stranded.clear()

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
        firsts += [stranded.first for stranded in self._stranded]
        return min(firsts, default=None)

    @property
    def unanswered(self) -> bytes:
        """The ids that the owner has not answered, as fields `message_id` of a CommandAck."""
        ids = [b"".join(batch.ids) for batch in self._open.values()]
        ids += [sent.ids for sent in self._sent.values()]
        ids += [stranded.ids for stranded in self._stranded]
        return b"".join(ids)

    def _again(self, acks: _Stranded, now: float) -> None:
        """Send through any consumer that is there."""
        way = next(iter(self._line_of), None)
        if way is None:
            self._stranded.append(acks)
        else:
            self._put(way, self._line_of[way], acks, now + self._delay)

    def _put(self, way: W, line: Hashable, acks: _Stranded, due: float) -> None:
        batch = self._open.get(line)
        if batch is None:
            batch = self._open[line] = _Open(way, acks.first, due)
        batch.first = min(batch.first, acks.first)
        batch.due = min(batch.due, due)
        batch.ids.append(acks.ids)
        batch.entries += acks.entries

    def _send(self, line: Hashable) -> Outgoing[W]:
        batch = self._open.pop(line)
        ways = self._ways[line]
        way = batch.way if batch.way in ways else next(iter(ways))
        self._last_number += 1
        ids = batch.ids[0] if len(batch.ids) == 1 else b"".join(batch.ids)
        self._sent[self._last_number] = _Sent(way, batch.first, ids, batch.entries)
        return Outgoing(self._last_number, way, ids)
