"""Check a history against the guarantees of a stock broker: a pure function over its events.

Guarantees for each subscription:

- At least once: every message is delivered, and acked in the end.
- A message is not delivered again after its ack was confirmed, even if servers die. An ack that is under way when its session
  ends may be lost; the check counts such messages. It also counts messages that a Failover consumer gets in its take-over, within
  a second of the confirmed ack of the consumer before it: the delivery was under way.
- Exclusive and Failover: first deliveries are in the topic's order, over all consumers. Within a session and consumer epoch,
  each message is after the one before.
- Key_Shared: first deliveries of a key's messages are in the topic's order. One consumer at a time has a key. While it has an
  unacked message that it has not returned, and its broker lives, no other consumer gets a message of the key.
- After a seek all this starts again at the sought message.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from longtests.churn.history import Event, Id, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ORDERED: Final = frozenset({"Exclusive", "Failover"})
START: Final = Id(-1, -1)
HANDOVER_S: Final = 1.0
"""Time for which a stock broker waits for acks of the former Failover consumer (activeConsumerFailoverDelayTimeMillis)."""


class Stored(NamedTuple):
    """A message in the owner's topic.

    Attributes:
        id: its position.
        key: empty for none.
        name: unique name.
    """

    id: Id
    key: str
    name: str


@dataclass(frozen=True, slots=True)
class Watched:
    """A subscription.

    Attributes:
        topic: its topic.
        type: Exclusive, Failover, Shared or Key_Shared.
        receipts: whether its clients get ack receipts, and record each message on arrival. A stock Python client does neither,
            because its queue and its reconnects are internal.
    """

    topic: str
    type: str
    receipts: bool = True


class Fault(StrEnum):
    """A violated guarantee."""

    AFTER_ACK = "delivered after its ack was confirmed"
    BEFORE_SEEK = "delivered although it is before the sought message"
    TOPIC_ORDER = "delivered for the first time after a later message"
    SESSION_ORDER = "delivered after a later message in the same session"
    KEY_ORDER = "delivered for the first time after a later message of its key"
    KEY_SHARED_OUT = "delivered while another consumer had a message of its key"
    UNKNOWN = "delivered, but the owner has no such message"
    NOT_DELIVERED = "never delivered"
    NOT_ACKED = "never acked"
    NOT_STORED = "its producer has a receipt, but the owner has no such message"


class Violation(NamedTuple):
    """One violation of a guarantee.

    Attributes:
        fault: the violated guarantee.
        subscription: the subscription; a topic for NOT_STORED.
        id: the message; START if it has no position.
        at: time; 0 for messages that are missing in the end.
        text: details.
    """

    fault: Fault
    subscription: str
    id: Id
    at: float
    text: str


@dataclass(slots=True)
class Verdict:
    """Result of the check.

    Attributes:
        violations: all violations.
        in_flight: messages delivered again because the ack was under way when its session ended, by subscription.
        handed_over: messages that a Failover consumer got while the ack of the consumer before it was being confirmed.
        counts: numbers of first and repeated deliveries, sessions, seeks and acks, by subscription.
    """

    violations: list[Violation] = field(default_factory=list)
    in_flight: dict[str, list[Id]] = field(default_factory=dict)
    handed_over: dict[str, list[Id]] = field(default_factory=dict)
    counts: dict[str, Counter[str]] = field(default_factory=dict)


def check(
    events: Iterable[Event], subscriptions: Mapping[str, Watched], stored: Mapping[str, Sequence[Stored]]
) -> Verdict:
    """Check a history.

    Args:
        events: ordered by time.
        subscriptions: by `TOPIC/SUBSCRIPTION`.
        stored: the owner's messages of each topic in the end, in order.
    """
    verdict = Verdict()
    known = {topic: {message.id: message.key for message in messages} for topic, messages in stored.items()}
    judges = {name: _Judge(name, watched, known[watched.topic], verdict) for name, watched in subscriptions.items()}
    names = {message.name for messages in stored.values() for message in messages}
    for event in sorted(events, key=lambda event: event.at):
        if event.kind is Kind.PUBLISHED and event.text not in names:
            verdict.violations.append(Violation(Fault.NOT_STORED, "", START, event.at, event.text))
        if event.kind is Kind.KILLED:
            for judge in judges.values():
                judge.killed(event.text)
        judge = judges.get(event.subscription)
        if judge is not None:
            judge.take(event)
    for judge in judges.values():
        judge.finish()
    return verdict


class _Judge:
    """State of one subscription: the allowed deliveries, by the deliveries and acks so far."""

    def __init__(self, name: str, watched: Watched, keys: Mapping[Id, str], verdict: Verdict) -> None:
        self._name = name
        self._watched = watched
        self._keys = keys
        self._verdict = verdict
        self._counts = verdict.counts[name] = Counter()
        self._seeking = False
        self._broker_of: dict[str, str] = {}
        self._cut_off: set[str] = set()
        self._begin(START)

    def killed(self, broker: str) -> None:
        """Free the messages of a dead broker's sessions for others; their clients may notice the death later."""
        for session, url in self._broker_of.items():
            if url == broker:
                self._pending.pop(session, None)
                self._ended.add(session)
                self._cut_off.add(session)

    def take(self, event: Event) -> None:
        """Process the next event."""
        self._counts[event.kind] += max(len(event.ids), 1)
        match event.kind:
            case Kind.OPENED:
                self._broker_of[event.session] = event.text
            case Kind.SEEKING:
                self._seeking = True
            case Kind.SOUGHT:
                self._seeking = False
                self._begin(event.ids[0])
            case _ if self._seeking:
                pass
            case Kind.DELIVERED:
                for id_ in event.ids:
                    self._delivered(event, id_)
            case Kind.ACKING:
                for id_ in event.ids:
                    self._pending[event.session].discard(id_)
                    self._acking[id_] = event.session
            case Kind.ACKED:
                self._acked(event)
            case Kind.NACKED:
                self._pending[event.session].difference_update(event.ids)
            case Kind.ENDED:
                self._pending.pop(event.session, None)
                self._ended.add(event.session)

    def finish(self) -> None:
        """Find missing deliveries and acks at the end."""
        for id_ in self._keys:
            if id_ < self._start:
                continue
            if id_ not in self._seen:
                self._violated(Fault.NOT_DELIVERED, id_)
            # An ack whose session ended before the receipt is accepted if its message was not delivered again.
            elif not self._is_acked(id_) and id_ not in self._acking:
                self._violated(Fault.NOT_ACKED, id_)

    def _begin(self, start: Id) -> None:
        """Expect every message from here on, and none before."""
        self._start = start
        self._confirmed: dict[Id, Event] = {}
        self._up_to = START
        self._seen: set[Id] = set()
        self._acking: dict[Id, str] = {}
        self._ended: set[str] = set()
        self._pending: dict[str, set[Id]] = defaultdict(set)
        self._newest = START
        self._newest_of_key: dict[str, Id] = {}
        self._newest_of_session: dict[tuple[str, int], Id] = {}

    def _delivered(self, event: Event, id_: Id) -> None:
        key = self._keys.get(id_)
        if key is None:
            self._violated(Fault.UNKNOWN, id_, event)
            return
        if id_ < self._start:
            self._violated(Fault.BEFORE_SEEK, id_, event)
        elif self._is_acked(id_):
            if self._is_handed_over(event, id_):
                self._verdict.handed_over.setdefault(self._name, []).append(id_)
            else:
                self._violated(Fault.AFTER_ACK, id_, event)
        elif self._watched.receipts and self._acking.get(id_) in self._ended:
            self._verdict.in_flight.setdefault(self._name, []).append(id_)
        if id_ not in self._seen:
            self._first(event, id_, key)
        else:
            self._counts["again"] += 1
        self._seen.add(id_)
        if not self._watched.receipts:
            return
        if self._watched.type in ORDERED:
            session = (event.session, event.number)
            if id_ <= self._newest_of_session.get(session, START):
                self._violated(Fault.SESSION_ORDER, id_, event)
            self._newest_of_session[session] = id_
        elif self._watched.type == "Key_Shared":
            for other, held in self._pending.items():
                if other != event.session and any(self._keys[pending] == key for pending in held):
                    self._violated(Fault.KEY_SHARED_OUT, id_, event, f"key {key} of {other}")
            if event.session not in self._cut_off:
                self._pending[event.session].add(id_)

    def _first(self, event: Event, id_: Id, key: str) -> None:
        self._counts["first"] += 1
        if self._watched.type in ORDERED:
            if id_ < self._newest:
                self._violated(Fault.TOPIC_ORDER, id_, event, f"after {self._newest}")
            self._newest = max(self._newest, id_)
        elif self._watched.type == "Key_Shared":
            newest = self._newest_of_key.get(key, START)
            if id_ < newest:
                self._violated(Fault.KEY_ORDER, id_, event, f"key {key}, after {newest}")
            self._newest_of_key[key] = max(newest, id_)

    def _acked(self, event: Event) -> None:
        if event.number:
            self._up_to = max(self._up_to, *event.ids)
        self._confirmed.update(dict.fromkeys(event.ids, event))
        for id_ in event.ids:
            self._acking.pop(id_, None)

    def _is_acked(self, id_: Id) -> bool:
        return id_ in self._confirmed or id_ <= self._up_to

    def _is_handed_over(self, event: Event, id_: Id) -> bool:
        """Return whether the delivery was under way to another Failover consumer when the ack arrived."""
        acked = self._confirmed.get(id_)
        return (
            self._watched.type == "Failover"
            and acked is not None
            and acked.session != event.session
            and event.at - acked.at < HANDOVER_S
        )

    def _violated(self, fault: Fault, id_: Id, event: Event | None = None, text: str = "") -> None:
        where = "" if event is None else event.session
        at = 0.0 if event is None else event.at
        self._verdict.violations.append(
            Violation(fault, self._name, id_, at, " ".join(part for part in (where, text) if part))
        )
