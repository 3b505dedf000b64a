"""What is new at a topic's tail, made ready once for all who stand there, and how often they are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_engine.wire.entry_view import encode_views, summarize

if TYPE_CHECKING:
    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.position import Position

KEPT_BYTES: Final = 4 << 20
"""Chunks of a burst that are kept: each consumer id has its own, and few ids are in use by many."""

PAUSE_S: Final = (4e-3, 28e-3)
"""To read and tell of some entries costs little more than of one. The first is what latency may grow by where few wait; by the
second it may where very many do, or where all who wait are patient: a turn at the tail of 2,000 messages a second costs 1 ms
with their acks, of which telling is a fifth (measured)."""

EARLY_PART: Final = 1 / 8
"""Of a pause: so much earlier bookies are asked, and what they send then is told at once. Asked at its end, they would answer
just after those who wait were told of something else, and what they have sent would wait for a whole pause more."""

NOTIFYING_SHARE: Final = 0.06
"""Of the CPU's time, telling those who wait at one topic takes no more than this, as far as the longest pause allows."""

LATEST_WEIGHT: Final = 0.2
"""What the newest telling counts for in the average of their costs."""


class TailBatch:
    """Entries that became readable together. A consumer that stands right before them gets them all in one chunk of frames.

    Args:
        entries: at least one; in order, without a gap.
        following: the position after the last.
        complete: whether nothing more was readable when they were read.

    Attributes:
        first: the position of the first.
        last: the position of the last.
        messages: how many messages they hold, which is what they cost in permits.
        uniform: whether each can go to a consumer without a look at it: no markers, and nothing of a transaction.
    """

    __slots__ = ("_entries", "_frames", "_room", "complete", "first", "following", "last", "messages", "uniform")

    def __init__(self, entries: list[TopicEntry], following: Position, *, complete: bool = False) -> None:
        self._entries = entries
        self._frames: dict[tuple[int, int, int], bytes] = {}
        self._room = KEPT_BYTES
        self.first = entries[0].position
        self.last = entries[-1].position
        self.following = following
        self.complete = complete
        self.messages, _, self.uniform, _ = summarize(entries)

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self, position: Position, count: int) -> list[TopicEntry]:
        """Those from a position on, at most so many; none where they do not begin or go on there."""
        index = position.entry_id - self.first.entry_id
        entries = self._entries
        if 0 <= index < len(entries) and entries[index].position == position:
            return entries[index : index + count]
        return []

    def frames(self, consumer_id: int, partition: int, epoch: int) -> bytes:
        """Their MESSAGE frames; the same bytes for every consumer with the same id and epoch.

        Args:
            consumer_id: the consumer's id on its connection.
            partition: index of the partition, -1 for none.
            epoch: the consumer's epoch.
        """
        key = (consumer_id, partition, epoch)
        chunk = self._frames.get(key)
        if chunk is None:
            entries = self._entries
            if len(entries) == 1:
                chunk = entries[0].frame(consumer_id, partition, epoch)  # which those get who go entry by entry
            else:
                chunk = encode_views(entries, consumer_id, partition, epoch)
            if len(chunk) <= self._room:
                self._room -= len(chunk)
                self._frames[key] = chunk
        return chunk


class FlushInterval:
    """How soon those who wait at the tail are told again: later where it costs more to tell them.

    A message that comes alone is told of at once. Pure; seconds are those of any one clock, costs seconds of CPU.
    """

    def __init__(self) -> None:
        self._early = 0.0
        self._next = 0.0
        self._cost = 0.0

    def notified(self, now: float, *, latency_tolerant: bool = False) -> None:
        """They were told, or are about to be.

        Args:
            now: the time.
            latency_tolerant: whether the longest pause is short enough for all of them.
        """
        least, most = PAUSE_S
        pause = most if latency_tolerant else min(max(self._cost / NOTIFYING_SHARE, least), most)
        self._next = now + pause
        self._early = self._next - pause * EARLY_PART

    def cost(self, seconds: float) -> None:
        """What the last telling has cost."""
        self._cost += LATEST_WEIGHT * (seconds - self._cost)

    def pause(self, now: float) -> float:
        """For how long nothing new needs to be asked for: what comes then is told at once."""
        return max(self._early - now, 0.0)

    def hold(self, now: float) -> float:
        """For how long what comes now is not told."""
        return self._next - now if now < self._early else 0.0
