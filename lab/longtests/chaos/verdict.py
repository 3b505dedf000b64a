"""Verdict of the check: violated guarantees, and the measured effects of faults."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from longtests.churn.history import Id


class Violation(StrEnum):
    """A violated guarantee."""

    LOST = "never delivered"
    NOT_STORED = "its producer has a receipt, but the topic has no such message"
    STORED_TWICE = "stored twice although the namespace deduplicates"
    UNKNOWN = "delivered, but the topic has no such message"
    TOPIC_ORDER = "delivered for the first time after a later message"
    KEY_ORDER = "delivered for the first time after a later message of its key"
    READER_ORDER = "delivered to a Reader again or after a later message"
    READER_GAP = "skipped for a Reader"
    UNEXPLAINED = "delivered again with no fault near"
    AFTER_ACK = "delivered again after a confirmed ack, with no fault at the source cluster near"
    TOO_MANY = "more redeliveries after one fault than messages in flight"
    TWO_CONCURRENT = "sent to one consumer although another one had been accepted long before"
    RESET_UNDONE = "not delivered again after a reset to before it"


OUT_OF_ORDER: Final = frozenset({Violation.TOPIC_ORDER, Violation.KEY_ORDER, Violation.READER_ORDER})
LOSSES: Final = frozenset({Violation.LOST, Violation.NOT_STORED, Violation.READER_GAP, Violation.RESET_UNDONE})


class Found(NamedTuple):
    """One violation of a guarantee.

    Attributes:
        violation: the violated guarantee.
        subscription: the subscription, or a topic.
        id: the message.
        name: its name.
        at: time; of a missing message, the time of its send.
        text: details.
    """

    violation: Violation
    subscription: str
    id: Id
    name: str
    at: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of allowed effects.

    Attributes:
        two_at_once_s: time in which two consumers of an Exclusive subscription may be served concurrently, in seconds.
        repeated: redeliveries after one fault in one subscription.
    """

    two_at_once_s: float = 30.0
    repeated: int = 400


@dataclass(slots=True)
class Verdict:
    """Result of the check.

    Attributes:
        found: all violations.
        repeated: numbers of redeliveries by (index of the fault, subscription); index -1 before the first fault.
        by_owner: those of them after a position to which the owner's cursor went back.
        in_flight: deliveries to such a subscription in the STORED_S before its first redelivery, without the pause between.
        pauses: the longest time without a first delivery, by index of the fault.
        longest: the same by subscription: duration, and end.
        counts: by subscription: first, again, sessions.
        latencies: by minute: times from the send of messages to their first deliveries, in seconds.
        overlap: the longest time with two concurrent consumers of an Exclusive or Failover subscription.
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
