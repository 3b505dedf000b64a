"""New entries at a topic's tail, framed once for all subscriptions there, and the interval between their dispatches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_engine.wire.entry_view import encode_pieces, encode_views, summarize

if TYPE_CHECKING:
    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.position import Position

KEPT_BYTES: Final = 4 << 20
"""Limit of a batch's cached frames: each consumer id has its own, and many consumers share few ids."""

PAUSE_S: Final = (4e-3, 28e-3)
"""Bounds of the interval between dispatches, because several entries cost little more than one. The first is the added latency
for few subscriptions; the second is for very many of them, or if all are latency-tolerant. A dispatch at 2,000 messages per
second costs 1 ms with their acks; a fifth of it is the calls of listeners (measured)."""

END_PAUSE_S: Final = 50e-3
"""Interval where no listener needs entries: each call leases some to a broker, whose work is mostly one for each lease."""

EARLY_PART: Final = 1 / 8
"""Share of an interval: bookies are polled this much before its end, and their entries are dispatched immediately. Polled at its
end, they would answer just after a dispatch of other entries, and their own would wait for another interval."""

NOTIFYING_SHARE: Final = 0.052
"""Upper bound of the CPU share for the dispatches of one topic, within the longest interval."""

LATEST_WEIGHT: Final = 0.2
"""Weight of the newest dispatch in the average cost."""


class TailBatch:
    """Entries that became readable together. A consumer right before them gets them all in one chunk of frames.

    Args:
        entries: at least one; in order, without a gap.
        following: the position after the last.
        complete: whether nothing more was readable at the time of the read.

    Attributes:
        first: the position of the first.
        last: the position of the last.
        messages: number of their messages, which is their cost in permits.
        size: their bytes.
        uniform: whether all can be sent without per-entry checks: no markers, no messages of transactions.
    """

    __slots__ = (
        "_entries",
        "_frames",
        "_room",
        "complete",
        "first",
        "following",
        "last",
        "messages",
        "size",
        "uniform",
    )

    def __init__(self, entries: list[TopicEntry], following: Position, *, complete: bool = False) -> None:
        self._entries = entries
        self._frames: dict[tuple[int, int, int, bool], bytes] = {}
        self._room = KEPT_BYTES
        self.first = entries[0].position
        self.last = entries[-1].position
        self.following = following
        self.complete = complete
        if len(entries) == 1:
            entry = entries[0]
            self.messages, self.size, self.uniform = entry.messages, entry.size, not entry.marker and entry.txn is None
        else:
            self.messages, self.size, self.uniform, _ = summarize(entries)

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self, position: Position, count: int) -> list[TopicEntry]:
        """Return the entries from a position on, at most `count`; none if the position is not among them."""
        index = position.entry_id - self.first.entry_id
        entries = self._entries
        if 0 <= index < len(entries) and entries[index].position == position:
            return entries[index : index + count]
        return []

    def frames(
        self,
        consumer_id: int,
        partition: int,
        epoch: int,
        exposed: bool = False,
    ) -> bytes:
        """Return their MESSAGE frames; the same bytes for every consumer with the same id, epoch and `exposed`.

        Args:
            consumer_id: the consumer's id on its connection.
            partition: index of the partition, -1 for none.
            epoch: the consumer's epoch.
            exposed: whether to send the owner's own metadata, too.
        """
        key = (consumer_id, partition, epoch, exposed)
        chunk = self._frames.get(key)
        if chunk is None:
            entries = self._entries
            if len(entries) == 1:
                chunk = entries[0].frame(
                    consumer_id, partition, epoch, exposed
                )  # shared with dispatchers of single entries
            else:
                chunk = encode_views(entries, consumer_id, partition, epoch, 0, exposed)
            if len(chunk) <= self._room:
                self._room -= len(chunk)
                self._frames[key] = chunk
        return chunk

    def pieces(self, consumer_id: int, partition: int, epoch: int, exposed: bool = False) -> list[bytes | memoryview]:
        """Return their MESSAGE frames as pieces, of large entries without a copy. Arguments as for `frames`."""
        return encode_pieces(self._entries, consumer_id, partition, epoch, exposed)


class FlushInterval:
    """Sets the interval between dispatches at the tail, in proportion to their cost.

    A single message is dispatched immediately. Pure; seconds are those of any one clock, costs are seconds of CPU time.

    Attributes:
        early: time from which on entries are dispatched as they arrive.
    """

    __slots__ = ("_cost", "_next", "early")

    def __init__(self) -> None:
        self.early = 0.0
        self._next = 0.0
        self._cost = 0.0

    def notified(
        self, now: float, *, latency_tolerant: bool = False, least: float = 0.0, end_only: bool = False
    ) -> None:
        """Record a dispatch that is done or about to start.

        Args:
            now: the time.
            latency_tolerant: whether the longest interval is short enough for all listeners.
            least: lower bound of the interval, besides that of PAUSE_S.
            end_only: whether no listener needs entries (END_PAUSE_S).
        """
        shortest, most = PAUSE_S
        pause = most if latency_tolerant else min(max(self._cost / NOTIFYING_SHARE, shortest, least), most)
        if end_only:
            pause = END_PAUSE_S
        self._next = now + pause
        self.early = self._next - pause * EARLY_PART

    def cost(self, seconds: float) -> None:
        """Record the cost of the last dispatch."""
        self._cost += LATEST_WEIGHT * (seconds - self._cost)

    def pause(self, now: float) -> float:
        """Return the seconds until the next poll of bookies; its entries are dispatched immediately."""
        return max(self.early - now, 0.0)

    def hold(self, now: float) -> float:
        """Return the seconds for which entries that arrive now are held."""
        return self._next - now if now < self.early else 0.0
