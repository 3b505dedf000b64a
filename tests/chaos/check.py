"""Whether what clients saw under faults keeps the promises: a pure function over events, faults and what the topics hold.

For each subscription:

- lost 0: every message that the topic holds in the end is delivered, and every message that a producer has a receipt for is held;
- with deduplication no message is held twice;
- first deliveries are in the topic's order for Exclusive and Failover, and in a key's order for Key_Shared; a Reader's session
  gets every message once, in order, without a gap (a stock one may get its last batch again after a reconnect, as from the
  owner);
- a message comes again only if a fault was near: between its first delivery (or what let it come again) and its repetition.
  After a confirmed ack it comes again only if a fault at the source cluster was near the ack, which an owner confirms before
  it stores it. All repetitions are counted. One fault repeats for one subscription only a limited number of messages, or as
  many as it got in the STORED_S before it paused: a whole backlog, where it had caught up at once. What an owner repeats whose
  cursor went back does not count (tests/chaos/cursors.py);
- an Exclusive consumer gets nothing that was sent later than a number of seconds after another was accepted; a Failover one
  nothing that was sent so long after another was called the active one;
- after a reset everything from its position on comes again, but for acks that were under way with it; what it skipped
  need not come;
- what a topic held before it was deleted is owed to nobody, nor are messages of transactions that were not committed for certain,
  nor entries beyond a ledger's size in the topic's list.

Times are seconds of the monotonic clock, which all processes share. A session that a frozen client or a slow link holds up gets
late what was sent early: hence the rule for Exclusive goes by when messages were sent.
"""

from __future__ import annotations

import bisect
from array import array
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.chaos.cursors import WentBack
from tests.chaos.workload import READER
from tests.churn.history import Event, Id, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ORDERED: Final = frozenset({"Exclusive", "Failover"})
NEAR_S: Final = 20.0
"""A fault is near for so long after its end: sessions, keep-alives and restarts take their time."""

STORED_S: Final = 5.0
"""An ack that was confirmed so long before a fault at the source cluster has been stored."""

WENT_BACK_S: Final = 5.0
"""A cursor that went back is seen so much later, or repeats so much later."""

UNDER_WAY_S: Final = 5.0
"""Acks so near to a reset may have been under way with it."""

SOON_S: Final = 1.0
"""A pause that begins before a fault belongs to it if no more than this lies between."""

HANDOVER_S: Final = 1.0
"""How long a stock broker lets acks of the former Failover consumer come (activeConsumerFailoverDelayTimeMillis)."""

DELETED_S: Final = 10.0
"""So long after a deletion the former topic's messages may still reach clients, and receipts producers."""


class Violation(StrEnum):
    """A broken promise."""

    LOST = "never delivered"
    NOT_STORED = "its producer has a receipt, but the topic has no such message"
    STORED_TWICE = "stored twice though the namespace deduplicates"
    UNKNOWN = "delivered, but the topic has no such message"
    TOPIC_ORDER = "delivered for the first time after a later message"
    KEY_ORDER = "delivered for the first time after a later message of its key"
    READER_ORDER = "delivered to a Reader again or behind a later message"
    READER_GAP = "left out by a Reader"
    UNEXPLAINED = "delivered again with no fault near"
    AFTER_ACK = "delivered again after a confirmed ack, with no fault at the source cluster near"
    TOO_MANY = "more repetitions after one fault than can have been in flight"
    TWO_CONCURRENT = "sent to one consumer though another had been accepted long before"
    RESET_UNDONE = "not delivered again after a reset to before it"


OUT_OF_ORDER: Final = frozenset({Violation.TOPIC_ORDER, Violation.KEY_ORDER, Violation.READER_ORDER})
LOSSES: Final = frozenset({Violation.LOST, Violation.NOT_STORED, Violation.READER_GAP, Violation.RESET_UNDONE})


class Stored(NamedTuple):
    """A message as the topic holds it in the end.

    Attributes:
        id: its place.
        key: empty for none.
        name: which tells it from all others.
        sent: when its producer sent it.
    """

    id: Id
    key: str
    name: str
    sent: float


class Done(NamedTuple):
    """A fault that was done.

    Attributes:
        begin: when it began.
        end: when it was mended.
        title: its kind, for the table.
        text: all of it.
        writable: whether it was at the source cluster, so that acks that were confirmed may be lost.
    """

    begin: float
    end: float
    title: str
    text: str
    writable: bool


class Found(NamedTuple):
    """One broken promise.

    Attributes:
        violation: which.
        subscription: whose, or a topic.
        id: the message.
        name: its name.
        at: when; for what is missing, when it was sent.
        text: more.
    """

    violation: Violation
    subscription: str
    id: Id
    name: str
    at: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class Watched:
    """A subscription, as far as it matters here.

    Attributes:
        topic: its topic.
        type: Exclusive, Failover, Shared, Key_Shared or Reader.
        stock: whether its clients are stock clients, whose sessions and receipts are hidden.
        resets: whether its cursor is reset now and then.
        latest: whether it begins at the end of the topic.
    """

    topic: str
    type: str
    stock: bool = False
    resets: bool = False
    latest: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """What is allowed.

    Attributes:
        two_at_once_s: how long two consumers of an Exclusive may be served at once.
        repeated: repetitions by one fault in one subscription.
    """

    two_at_once_s: float = 30.0
    repeated: int = 400


@dataclass(slots=True)
class Verdict:
    """What came of the check.

    Attributes:
        found: every broken promise.
        repeated: repetitions by (index of the fault, subscription); index -1 before the first fault.
        by_owner: of the repetitions, those after a position to which the owner's cursor went back.
        in_flight: what such a subscription got in the STORED_S before its first repetition; the time without deliveries in
            between does not count.
        pauses: the longest time without a first delivery, by index of the fault.
        longest: the same by subscription: how long, and until when.
        counts: by subscription: first, again, sessions.
        latencies: by minute: from the sending of messages to their first deliveries, in seconds.
        overlap: the longest time of two consumers of an Exclusive or Failover at once.
    """

    found: list[Found] = field(default_factory=list)
    repeated: Counter[tuple[int, str]] = field(default_factory=Counter)
    by_owner: Counter[tuple[int, str]] = field(default_factory=Counter)
    in_flight: Counter[tuple[int, str]] = field(default_factory=Counter)
    pauses: dict[int, float] = field(default_factory=dict)
    longest: dict[str, tuple[float, float]] = field(default_factory=dict)
    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    latencies: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    overlap: float = 0.0


class Faults:
    """The faults by time: which was near, and to which something belongs.

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
        """The index of the last fault that had begun by then; -1 for none."""
        return bisect.bisect_right(self._begins, at) - 1

    def near(self, begin: float, end: float, *, writable: bool = False) -> bool:
        """Whether one was near at any moment of a time."""
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
    """What a topic holds in the end.

    Args:
        stored: all of it, in order.
        deduplicated: whether no message may be there twice.
        deletions: when it was deleted: begin and end, by time.
        sizes: entries of closed ledgers, as the topic's list counts them.
    """

    def __init__(
        self,
        stored: Sequence[Stored],
        *,
        deduplicated: bool = False,
        deletions: Sequence[tuple[float, float]] = (),
        sizes: Mapping[int, int] | None = None,
    ) -> None:
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
        """Names of messages whose transactions were aborted, or ended in an unknown way. An owner that has lost its snapshots
        delivers aborted ones too."""

    def is_surplus(self, id_: Id) -> bool:
        """Return whether an entry lies beyond its ledger's size in the topic's list. It is owed to nobody.

        An owner that cannot replace a bookie gives the ledger up after the last confirmed entry, writes this size into the list,
        and repeats the others in a new ledger (ManagedLedgerImpl.ledgerClosed). If BookKeeper's own metadata could not be closed
        too, a later recovery finds some of the others, and the owner may deliver them twice. No producer has a receipt for them.
        """
        return id_.entry >= self._sizes.get(id_.ledger, id_.entry + 1)

    def is_former(self, id_: Id) -> bool:
        """Whether a message was in the topic before it was deleted last; nothing is known of it any more."""
        return bool(self.deletions) and (not self.ids or id_.ledger < self.ids[0].ledger)


def check(
    events: Iterable[Event],
    subscriptions: Mapping[str, Watched],
    topics: Mapping[str, Topic],
    done: Iterable[Done],
    limits: Limits,
    start: float = 0.0,
) -> Verdict:
    """Judge a run.

    Args:
        events: what clients saw and did, by time.
        subscriptions: by `TOPIC/SUBSCRIPTION`.
        topics: by short name.
        done: the faults.
        limits: what is allowed.
        start: when the run began; minutes count from it.
    """
    verdict = Verdict()
    faults = Faults(done)
    judges = {
        name: _Judge(name, watched, topics[watched.topic], verdict, faults, limits, start)
        for name, watched in subscriptions.items()
    }
    names = {
        short: Counter(message.name for message in topic.stored if not topic.is_surplus(message.id))
        for short, topic in topics.items()
    }
    for event in events:
        if event.kind is Kind.PUBLISHED:
            short, _, name = event.text.partition(" ")
            topic = topics[short]
            place = event.ids[0] if event.ids else Id(-1, -1)
            if name not in names[short] and not topic.is_former(place):
                verdict.found.append(Found(Violation.NOT_STORED, short, place, name, event.at))
            continue
        if event.kind is Kind.UNCOMMITTED:
            short, _, name = event.text.partition(" ")
            topics[short].uncommitted.add(name)
            continue
        judge = judges.get(event.subscription)
        if judge is not None:
            judge.take(event)
    for short, topic in topics.items():
        if topic.deduplicated:
            for message in topic.stored:
                if names[short][message.name] > 1 and not topic.is_surplus(message.id):
                    found = Found(Violation.STORED_TWICE, short, message.id, message.name, message.sent)
                    verdict.found.append(found)
    for judge in judges.values():
        judge.finish()
    for (index, name), count in verdict.repeated.items():
        allowed = max(limits.repeated, verdict.in_flight[index, name])
        if count - verdict.by_owner[index, name] > allowed:
            at = faults.all[index].begin if index >= 0 else start
            text = f"{count:,} repetitions, {allowed:,} allowed"
            verdict.found.append(Found(Violation.TOO_MANY, name, Id(-1, -1), "", at, text))
    return verdict


class _Judge:
    """One subscription: what may be delivered next, from what was delivered and acked so far."""

    def __init__(
        self,
        name: str,
        watched: Watched,
        topic: Topic,
        verdict: Verdict,
        faults: Faults,
        limits: Limits,
        start: float,
    ) -> None:
        self._name = name
        self._watched = watched
        self._topic = topic
        self._verdict = verdict
        self._faults = faults
        self._limits = limits
        self._start = start
        self._counts = verdict.counts[name]
        size = len(topic.stored)
        self._last = array("d", bytes(8 * size))
        """When each message was delivered last, or given back; 0 for never."""
        self._given_back = bytearray(size)
        self._acked = array("d", bytes(8 * size))
        """When its last ack was sent or confirmed."""
        self._confirmed = bytearray(size)
        self._newest = -1
        self._newest_of_key: dict[int, int] = {}
        self._at_session: dict[str, int] = {}
        self._first_of_all = size
        self._accepted: dict[str, float] = {}
        """Sessions that were accepted (Exclusive) or called the active one (Failover), and when; the last one counts."""
        self._changed = 0.0
        """When a session began or ended, or the active one changed: what the former one had comes again."""
        self._last_first = 0.0
        self._seeking = 0.0
        self._owed_from = 0
        self._owed_since = 0.0
        self._reset_span = (0.0, 0.0)
        self._went_back: list[WentBack] = []
        self._repetitions: list[tuple[int, float, Id]] = []
        """Fault, time and message of each."""
        self._recent: deque[float] = deque()
        """When messages were delivered in the STORED_S before the last one."""
        self._skipped = bytearray(size)
        """Messages that a reset went over before they were delivered."""

    def take(self, event: Event) -> None:
        """The next event."""
        match event.kind:
            case Kind.DELIVERED:
                for id_ in event.ids:
                    self._delivered(event, id_)
            case Kind.ACKING | Kind.ACKED:
                self._ack(event)
            case Kind.NACKED:
                for index in self._indexes(event):
                    self._given_back[index] = 1
            case Kind.OPENED:
                self._counts["sessions"] += 1
                self._changed = event.at
                if self._watched.type == "Exclusive":
                    self._accepted[event.session] = event.at
            case Kind.ACTIVE:
                self._changed = event.at
                self._accepted.pop(event.session, None)
                if event.number:
                    self._accepted[event.session] = event.at
            case Kind.ENDED:
                self._changed = event.at
                self._accepted.pop(event.session, None)
            case Kind.WENT_BACK:
                self._went_back.append(WentBack(event.at, event.ids[0]))
            case Kind.SEEKING:
                self._seeking = event.at
            case Kind.SOUGHT:
                self._reset(event)

    def finish(self) -> None:
        """All is over: what is missing?"""
        for fault, at, id_ in self._repetitions:
            self._verdict.by_owner[fault, self._name] += any(
                abs(back.at - at) < WENT_BACK_S and id_ > back.mark_delete for back in self._went_back
            )
        since = self._topic.live_since
        first = self._first_of_all if self._watched.latest else 0
        for index in range(first, len(self._topic.stored)):
            message = self._topic.stored[index]
            if not self._last[index]:
                if message.name in self._topic.uncommitted or self._topic.is_surplus(message.id):
                    continue
                if not self._skipped[index] and (message.sent > since or not self._topic.deletions):
                    self._wrong(Violation.LOST, index, message.sent)
            elif self._is_owed(index) and not self._topic.is_surplus(message.id):
                self._wrong(Violation.RESET_UNDONE, index, self._reset_span[0])

    def _is_owed(self, index: int) -> bool:
        """Whether the last reset went before a message that did not come again, and whose ack was not under way."""
        begin, end = self._reset_span
        return (
            index >= self._owed_from
            and self._last[index] < self._owed_since
            and not begin - UNDER_WAY_S <= self._acked[index] <= end + UNDER_WAY_S
        )

    def _indexes(self, event: Event) -> list[int]:
        return [index for id_ in event.ids if (index := self._topic.index.get(id_)) is not None]

    def _delivered(self, event: Event, id_: Id) -> None:
        index = self._topic.index.get(id_)
        if index is None:
            if not self._topic.is_former(id_):
                self._add(Violation.UNKNOWN, id_, "", event.at, event.session)
            return
        if self._watched.type == READER:
            self._read(event, index)
        elif not self._last[index]:
            self._order(event, index)
        else:
            self._again(event, index)
        if not self._last[index]:
            self._first(event.at, index)
        self._two_at_once(event, index)
        self._recent.append(event.at)
        while self._recent[0] < event.at - STORED_S:
            self._recent.popleft()
        self._last[index] = event.at
        self._given_back[index] = self._confirmed[index] = 0

    def _first(self, at: float, index: int) -> None:
        self._counts["first"] += 1
        minute = int((at - self._start) / 60)
        if not self._watched.latest:
            self._verdict.latencies[minute].append(at - self._topic.stored[index].sent)
            if self._last_first:
                begin = max(self._last_first, self._topic.stored[index].sent)
                fault, pause = self._faults.last(begin + SOON_S), at - begin
                self._verdict.pauses[fault] = max(pause, self._verdict.pauses.get(fault, 0.0))
                self._verdict.longest[self._name] = max((pause, at), self._verdict.longest.get(self._name, (0.0, 0.0)))
        self._last_first = at
        self._first_of_all = min(self._first_of_all, index)

    def _order(self, event: Event, index: int) -> None:
        """A first delivery: nothing that is behind it may have come before."""
        if self._watched.resets:
            return
        if self._watched.type in ORDERED:
            if index < self._newest:
                self._wrong(
                    Violation.TOPIC_ORDER, index, event.at, f"{event.session}, after {self._topic.ids[self._newest]}"
                )
            self._newest = max(self._newest, index)
        elif self._watched.type == "Key_Shared":
            key = self._topic.keys[index]
            newest = self._newest_of_key.get(key, -1)
            if index < newest:
                self._wrong(Violation.KEY_ORDER, index, event.at, f"{event.session}, after {self._topic.ids[newest]}")
            self._newest_of_key[key] = max(newest, index)

    def _read(self, event: Event, index: int) -> None:
        """A Reader's session goes on from message to message."""
        before = self._at_session.get(event.session)
        if before is not None and index <= before and self._is_batch_again(event, before, index):
            self._again(event, index)
        elif before is not None and index <= before:
            self._wrong(Violation.READER_ORDER, index, event.at, f"{event.session}, after {self._topic.ids[before]}")
        elif before is not None and not all(map(self._topic.is_surplus, self._topic.ids[before + 1 : index])):
            text = f"{event.session}: {index - before - 1} from here on"
            self._wrong(Violation.READER_GAP, before + 1, event.at, text)
        self._at_session[event.session] = index

    def _is_batch_again(self, event: Event, before: int, index: int) -> bool:
        """Whether a stock Reader gets the batch again that it had just read to its end, from the owner too.

        After a reconnect a C++ client names the entry before the first message of its queue (ConsumerImpl::clearReceiveQueue),
        without a batch index where that message is in no batch. The owner begins with the named entry, so that the client can
        skip messages of a batch (PersistentTopic.getNonDurableSubscription); the client then has no index to skip by. Seen with
        a stock Reader at a stock owner.
        """
        ids = self._topic.ids
        return (
            self._watched.stock
            and ids[index].index == 0
            and ids[index][:2] == ids[before][:2]
            and before + 1 < len(ids)
            and ids[before + 1].index < 0
            and self._faults.near(self._last[before], event.at)
        )

    def _again(self, event: Event, index: int) -> None:
        if self._given_back[index] or self._last[index] < self._owed_since <= event.at or self._seeking:
            return
        self._counts["again"] += 1
        fault = self._faults.last(event.at), self._name
        if fault not in self._verdict.repeated:
            self._verdict.in_flight[fault] = len(self._recent)
        self._verdict.repeated[fault] += 1
        self._repetitions.append((fault[0], event.at, self._topic.ids[index]))
        if self._confirmed[index]:
            if self._watched.type == "Failover" and event.at - self._acked[index] < HANDOVER_S:
                return  # the delivery was on its way when the ack came
            if not self._faults.near(self._acked[index] - STORED_S, self._acked[index] + STORED_S, writable=True):
                self._wrong(Violation.AFTER_ACK, index, event.at, f"{event.session}, acked at {self._acked[index]:.3f}")
        elif (
            not self._watched.stock
            and self._changed < self._last[index]
            and not self._faults.near(self._last[index], event.at)
        ):
            self._wrong(Violation.UNEXPLAINED, index, event.at, f"{event.session}, before at {self._last[index]:.3f}")

    def _ack(self, event: Event) -> None:
        for index in self._indexes(event):
            self._acked[index] = event.at
            if event.kind is Kind.ACKED:
                self._confirmed[index] = 1

    def _two_at_once(self, event: Event, index: int) -> None:
        """Whoever was accepted before the last one gets nothing any more that is sent much later."""
        if self._watched.stock or self._watched.type not in ORDERED or not self._accepted:
            return
        holder, since = next(reversed(self._accepted.items()))
        # Of Failover, a session that is not listed is a standby that has not been told yet that it is the active one.
        if holder == event.session or event.session not in self._accepted:
            return
        late = self._topic.stored[index].sent - since
        self._verdict.overlap = max(self._verdict.overlap, late)
        if late > self._limits.two_at_once_s:
            text = f"{event.session}, {late:.1f} s after {holder} was accepted"
            self._wrong(Violation.TWO_CONCURRENT, index, event.at, text)

    def _reset(self, event: Event) -> None:
        """A reset ended; `number` 1 says that it is not known whether it was done."""
        begin, self._seeking = self._seeking, 0.0
        target = bisect.bisect_left(self._topic.ids, event.ids[0])
        for index in range(target):
            self._skipped[index] |= not self._last[index]
        if event.number:
            self._owed_from = max(self._owed_from, target)
            return
        self._skipped[target:] = bytes(len(self._skipped) - target)
        self._owed_from, self._owed_since = target, begin
        self._reset_span = (begin, event.at)

    def _wrong(self, violation: Violation, index: int, at: float, text: str = "") -> None:
        message = self._topic.stored[index]
        self._add(violation, message.id, message.name, at, text)

    def _add(self, violation: Violation, id_: Id, name: str, at: float, text: str) -> None:
        self._verdict.found.append(Found(violation, self._name, id_, name, at, text))
