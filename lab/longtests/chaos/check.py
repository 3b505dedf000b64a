"""Check of the guarantees under faults: a pure function over events, faults and the topics' messages at the end.

For each subscription:

- Nothing is lost: every message of the topic is delivered, and the topic has every message for which a producer has a receipt.
- With deduplication, the topic has no message twice.
- First deliveries are in the topic's order for Exclusive and Failover, and in a key's order for Key_Shared. A Reader's session
  gets every message once, in order, without a gap. A stock Reader may get its last batch again after a reconnect, as from the
  owner.
- A message is redelivered only after a fault between its first delivery (or an event that permits a redelivery) and the
  redelivery. After a confirmed ack, it is redelivered only if a fault at the source cluster was near the ack: an owner confirms
  acks before it stores them. A pool with local cursors confirms stored acks only, so it never redelivers these messages. What
  was sent to another client before the ack may arrive after it, if that client was frozen or its links were broken. The
  check counts all redeliveries. One fault causes a limited number of them per subscription, or as many as it had deliveries in
  the STORED_S before its pause: a whole backlog after a fast catch-up; with local cursors, as many as it had without a confirmed
  ack in UNCONFIRMED_S. Redeliveries by an owner whose cursor went back do not
  count (lab/longtests/chaos/cursors.py).
- An Exclusive consumer gets no message that was sent more than some seconds after the broker accepted another one. A Failover
  consumer gets none that was sent so long after another one became active.
- After a reset, everything from its position on is redelivered, except for acks that were under way with it. Skipped messages
  need no delivery.
- Three kinds of messages need no delivery: those before a deletion of the topic, those of transactions without a certain commit,
  and entries beyond a ledger's size in the topic's list.

Times are seconds of the monotonic clock, which all processes share. Because of a frozen client or a slow link, a session may get
early messages late. So the rule for Exclusive uses the time at which a message was sent.
"""

from __future__ import annotations

import bisect
from array import array
from collections import Counter, deque
from typing import TYPE_CHECKING, Final

from longtests.chaos.cursors import WentBack
from longtests.chaos.observed import STORED_S, Done, Faults, Topic, Watched
from longtests.chaos.verdict import Found, Limits, Verdict, Violation
from longtests.chaos.workload import READER
from longtests.churn.history import Event, Id, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ORDERED: Final = frozenset({"Exclusive", "Failover"})
WENT_BACK_S: Final = 5.0
"""Maximum delay of the observation of a cursor that went back, or of its redeliveries, in seconds."""

UNDER_WAY_S: Final = 5.0
"""Acks within this time of a reset may have been under way with it."""

SOON_S: Final = 1.0
"""A pause that starts at most this time before a fault counts as its effect."""

LATE_RESET_S: Final = 60.0
"""Time in which a broker may still carry out a reset after its client has given up: it waits for the owner to move the guard."""

UNCONFIRMED_S: Final = 30.0
"""Time in which a consumer that was cut off from its broker finds another one."""

HANDOVER_S: Final = 1.0
"""Time for which a stock broker waits for acks of the former Failover consumer (activeConsumerFailoverDelayTimeMillis)."""


def check(
    events: Iterable[Event],
    subscriptions: Mapping[str, Watched],
    topics: Mapping[str, Topic],
    done: Iterable[Done],
    limits: Limits,
    start: float = 0.0,
) -> Verdict:
    """Check a run.

    Args:
        events: events of the clients, ordered by time.
        subscriptions: by `TOPIC/SUBSCRIPTION`.
        topics: by short name.
        done: the faults.
        limits: limits of allowed effects.
        start: start of the run, from which minutes count.
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
            if name not in names[short] and not topic.is_former(place) and not topic.held_back:
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
            text = f"{count:,} redeliveries, {allowed:,} allowed"
            verdict.found.append(Found(Violation.TOO_MANY, name, Id(-1, -1), "", at, text))
    return verdict


def _client_of(session: str) -> str:
    """Return the node of a session, whose name begins with the node's number (lab/longtests/chaos/clients.py)."""
    return f"clients-{session.rpartition(' ')[2][:1]}"


class _Judge:
    """State of one subscription: the allowed deliveries, by the deliveries and acks so far."""

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
        """Time of each message's last delivery, or of its return; 0 for never."""
        self._given_back = bytearray(size)
        self._acked = array("d", bytes(8 * size))
        """Time at which its last ack was sent or confirmed."""
        self._confirmed = bytearray(size)
        self._newest = -1
        self._newest_of_key: dict[int, int] = {}
        self._at_session: dict[str, int] = {}
        self._first_of_all = size
        self._accepted: dict[str, float] = {}
        """Sessions that were accepted (Exclusive) or became active (Failover), with times; the last one counts."""
        self._changed = 0.0
        """Time of the last start or end of a session, or change of the active one, which permit redeliveries."""
        self._last_first = 0.0
        self._seeking: deque[float] = deque()
        """Begins of the resets under way."""
        self._late_resets: list[tuple[int, float]] = []
        """Targets of resets without an answer, each with the time until which it may still be carried out."""
        self._owed_from = 0
        self._owed_since = 0.0
        self._reset_span = (0.0, 0.0)
        self._went_back: list[WentBack] = []
        self._repetitions: list[tuple[int, float, Id]] = []
        """Fault, time and message of each."""
        self._repeated_at = float("-inf")
        self._burst = 0
        """Messages that were in flight before the last burst of redeliveries."""
        self._recent: deque[float] = deque()
        """Times of the deliveries in the STORED_S before the last one."""
        self._skipped = bytearray(size)
        """Messages that a reset skipped before their delivery."""

    def take(self, event: Event) -> None:
        """Process the next event."""
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
                self._seeking.append(event.at)
            case Kind.SOUGHT:
                self._reset(event)

    def finish(self) -> None:
        """Find missing deliveries at the end."""
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
        """Return whether the last reset was to before a message, and it has no redelivery and no ack under way since."""
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
        """Check a first delivery: no later message may have been delivered before it."""
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
        """Check that a Reader's session continues with the next message."""
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
        """Return whether a stock Reader gets the batch again that it had just read to its end, as it may from the owner.

        After a reconnect, a C++ client sends the entry before the first message of its queue (ConsumerImpl::clearReceiveQueue).
        It has no batch index if that message is not in a batch. The owner starts with this entry, so that the client can skip
        messages of a batch (PersistentTopic.getNonDurableSubscription). But the client then has no index for the skip. Observed
        with a stock Reader at a stock owner.
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
        if any(index >= target and event.at <= until for target, until in self._late_resets):
            return
        if index >= self._owed_from and self._reset_span[0] <= self._last[index] <= self._reset_span[1]:
            return  # the reset took so long; the cursor may have been moved after this delivery
        self._counts["again"] += 1
        fault = self._faults.last(event.at), self._name
        if fault not in self._verdict.repeated:
            # A burst may go on after the next fault, which has not caused it.
            burst = self._burst if event.at - self._repeated_at < STORED_S else 0
            self._burst = self._verdict.in_flight[fault] = max(len(self._recent), burst, self._unconfirmed(event.at))
        self._repeated_at = event.at
        self._verdict.repeated[fault] += 1
        self._repetitions.append((fault[0], event.at, self._topic.ids[index]))
        if self._confirmed[index]:
            if self._watched.type == "Failover" and event.at - self._acked[index] < HANDOVER_S:
                return  # the delivery was under way when the ack arrived
            acked = self._acked[index]
            if self._is_late(event, index) or self._faults.held(_client_of(event.session), acked, event.at):
                return
            if self._watched.stored or not self._faults.near(acked - STORED_S, acked + STORED_S, writable=True):
                self._wrong(Violation.AFTER_ACK, index, event.at, f"{event.session}, acked at {self._acked[index]:.3f}")
        elif (
            not self._watched.stock
            and self._changed < self._last[index]
            and not self._faults.near(self._last[index], event.at)
        ):
            self._wrong(Violation.UNEXPLAINED, index, event.at, f"{event.session}, before at {self._last[index]:.3f}")

    def _unconfirmed(self, now: float) -> int:
        """Return the number of messages of the last UNCONFIRMED_S without a confirmed ack, where that means stored."""
        if not self._watched.stored:
            return 0
        late = now - UNCONFIRMED_S
        return sum(at > late and not done for at, done in zip(self._last, self._confirmed, strict=True))

    def _is_late(self, event: Event, index: int) -> bool:
        """Return whether a delivery is of before the last change of the active consumer, and a broken link has delayed it."""
        if self._watched.type not in ORDERED or not self._accepted:
            return False
        holder, since = next(reversed(self._accepted.items()))
        late = holder != event.session and self._topic.stored[index].sent < since
        return late and self._faults.near(since, event.at)

    def _ack(self, event: Event) -> None:
        for index in self._indexes(event):
            self._acked[index] = event.at
            if event.kind is Kind.ACKED:
                self._confirmed[index] = 1

    def _two_at_once(self, event: Event, index: int) -> None:
        """Check that no consumer before the last accepted one gets a message that was sent much later."""
        if self._watched.stock or self._watched.type not in ORDERED or not self._accepted:
            return
        holder, since = next(reversed(self._accepted.items()))
        # An unlisted Failover session is a standby that has not yet been notified that it is the active one.
        if holder == event.session or event.session not in self._accepted:
            return
        late = self._topic.stored[index].sent - since
        self._verdict.overlap = max(self._verdict.overlap, late)
        if late > self._limits.two_at_once_s:
            text = f"{event.session}, {late:.1f} s after {holder} was accepted"
            self._wrong(Violation.TWO_CONCURRENT, index, event.at, text)

    def _reset(self, event: Event) -> None:
        """Process the end of a reset; with `number` 1 its success is unknown."""
        begin = self._seeking.popleft() if self._seeking else event.at
        target = bisect.bisect_left(self._topic.ids, event.ids[0])
        for index in range(target):
            self._skipped[index] |= not self._last[index]
        if event.number:
            self._late_resets.append((target, event.at + LATE_RESET_S))
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
