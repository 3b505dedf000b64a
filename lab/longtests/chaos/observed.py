"""Input of the check: the faults of a run, its subscriptions, and the topics' messages at the end."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from longtests.chaos.plan import LINK_FAULTS, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from longtests.churn.history import Id

NEAR_S: Final = 20.0
"""Time after its end for which a fault is near: sessions, keep-alives and restarts take time."""

STORED_S: Final = 5.0
"""Time after which a confirmed ack is stored, and survives a fault at the source cluster."""

HELD_S: Final = 5.0
"""Shortest time for which a network may hold what was sent before the end of a fault: TCP sends it again with growing pauses."""

_HOLDING: Final = tuple(map(str, (Kind.STOP, Kind.SLOW, *LINK_FAULTS)))

DELETED_S: Final = 10.0
"""Time after a deletion in which clients may still get the former topic's messages, and producers receipts."""


class Stored(NamedTuple):
    """A message of the topic at the end.

    Attributes:
        id: its position.
        key: empty for none.
        name: unique name.
        sent: time at which its producer sent it.
    """

    id: Id
    key: str
    name: str
    sent: float


class Done(NamedTuple):
    """An injected fault.

    Attributes:
        begin: time of its start.
        end: time of its repair.
        title: its kind, for the table.
        text: full description.
        writable: whether it affected the source cluster, so that confirmed acks may be lost.
    """

    begin: float
    end: float
    title: str
    text: str
    writable: bool


@dataclass(frozen=True, slots=True)
class Watched:
    """Properties of a subscription for the check.

    Attributes:
        topic: its topic.
        type: Exclusive, Failover, Shared, Key_Shared or Reader.
        stock: whether its clients are stock clients, which do not expose sessions and receipts.
        resets: whether its cursor is reset now and then.
        latest: whether it starts at the end of the topic.
        stored: whether a confirmed ack is stored, so that no fault undoes it.
    """

    topic: str
    type: str
    stock: bool = False
    resets: bool = False
    latest: bool = False
    stored: bool = False


class Faults:
    """The faults ordered by time, to find the one near an event.

    Args:
        done: in any order.
    """

    def __init__(self, done: Iterable[Done]) -> None:
        self.all = sorted(done)
        self._begins = [fault.begin for fault in self.all]
        self._near = _merged((fault.begin, fault.end + NEAR_S) for fault in self.all)
        self._near_writable = _merged(
            (fault.begin - STORED_S, fault.end + NEAR_S) for fault in self.all if fault.writable
        )

    def last(self, at: float) -> int:
        """Return the index of the last fault that had started by then; -1 for none."""
        return bisect.bisect_right(self._begins, at) - 1

    def held(self, node: str, sent: float, arrived: float) -> bool:
        """Return whether a node may have got so late what was sent by then: it was frozen, or a link to it was broken or slow."""
        return any(
            fault.begin <= sent and arrived <= fault.end + max(HELD_S, fault.end - fault.begin)
            for fault in self.all[: self.last(sent) + 1]
            if node in fault.text and fault.title.startswith(_HOLDING)
        )

    def near(self, begin: float, end: float, *, writable: bool = False) -> bool:
        """Return whether a fault was near at any moment of an interval."""
        spans = self._near_writable if writable else self._near
        index = bisect.bisect_left(spans, (begin, float("-inf"))) - 1
        return any(span[0] <= end and span[1] >= begin for span in spans[max(index, 0) : index + 3])


def _merged(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


class Topic:
    """The messages of a topic at the end.

    Args:
        stored: all messages, in order.
        deduplicated: whether no message may be stored twice.
        deletions: begin and end of its deletions, ordered by time.
        sizes: entries of closed ledgers, as the topic's list counts them.
        held_back: whether the owner shows nothing after a transaction that it has open, so that messages may be missing here.
    """

    def __init__(
        self,
        stored: Sequence[Stored],
        *,
        deduplicated: bool = False,
        deletions: Sequence[tuple[float, float]] = (),
        sizes: Mapping[int, int] | None = None,
        held_back: bool = False,
    ) -> None:
        self.held_back = held_back
        self._sizes = sizes or {}
        self.stored = stored
        self.deduplicated = deduplicated
        self.deletions = deletions
        self.ids = [message.id for message in stored]
        self.index = {message.id: index for index, message in enumerate(stored)}
        keys = {key: number for number, key in enumerate(sorted({message.key for message in stored}))}
        self.keys = [keys[message.key] for message in stored]
        self.live_since = deletions[-1][1] + DELETED_S if deletions else float("-inf")
        self.uncommitted: set[str] = set()
        """Names of messages whose transactions were aborted, or have an unknown end. An owner that has lost its snapshots
        delivers aborted ones too."""

    def is_surplus(self, id_: Id) -> bool:
        """Return whether an entry is beyond its ledger's size in the topic's list. It needs no delivery.

        An owner that cannot replace a bookie abandons the ledger after the last confirmed entry. It writes this size to the list,
        and repeats the others in a new ledger (ManagedLedgerImpl.ledgerClosed). If BookKeeper's own metadata could not be closed
        too, a later recovery finds some of the others, and the owner may deliver them twice. No producer has a receipt for them.
        """
        return id_.entry >= self._sizes.get(id_.ledger, id_.entry + 1)

    def is_former(self, id_: Id) -> bool:
        """Return whether a message is from before the topic's last deletion; nothing is known of it any more."""
        return bool(self.deletions) and (not self.ids or id_.ledger < self.ids[0].ledger)
