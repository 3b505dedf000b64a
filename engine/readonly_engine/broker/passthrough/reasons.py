"""Reasons for the passthrough of subscriptions, with begin and end. Pure: the time is an argument, in seconds of any clock."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from readonly_engine.metadata.topic_name import TopicName

ABSENT_S = (10.0, 600.0)
"""Initial and largest absence, in seconds, that ends a reason. It doubles when the reason recurs within RECURRENCE_S."""

MIN_ABSENT_CHECKS = 2
"""Checks without the reason that are required for its end, too."""

RECURRENCE_S = 600.0
"""Time after the end of a reason in which its return is a recurrence."""

MAX_REMEMBERED = 100_000
"""Bound of remembered reasons. The one that began first is dropped."""

WHOLE_TOPIC = ""
"""Subscription name that stands for all subscriptions of a topic."""


class Reason(StrEnum):
    """A reason that requires the owner; the value is a label of `/stats` and of a metric."""

    DIRECT_CONSUMERS = "direct-consumers"
    ENTRY_FILTER = "entry-filter"
    STORAGE = "storage"
    REPLICATED = "replicated"


@dataclass(slots=True)
class ReasonState:
    """One reason of one subscription or topic.

    Attributes:
        reason: the reason.
        text: the finding, for operators.
        since: time of the first finding.
        absent_s: absence that ends the reason.
        absent_since: time of the first check without the reason since its last finding; None if the last check found it.
        absent_checks: number of checks without the reason since its last finding.
        ended: time of its end; None while it is in force.
    """

    reason: Reason
    text: str
    since: float
    absent_s: float
    absent_since: float | None = None
    absent_checks: int = 0
    ended: float | None = None


class ReasonTracker:
    """Keeps the reasons in force, and for RECURRENCE_S those that ended."""

    def __init__(self) -> None:
        self._states: OrderedDict[tuple[TopicName, str, Reason], ReasonState] = OrderedDict()

    def __bool__(self) -> bool:
        """Whether it has any reason, in force or ended."""
        return bool(self._states)

    def found(self, topic: TopicName, subscription: str, reason: Reason, text: str, now: float) -> bool:
        """Record a finding of a reason; return True if the reason was not in force before."""
        key = (topic, subscription, reason)
        state = self._states.get(key)
        if state is not None and state.ended is None:
            state.absent_since, state.absent_checks, state.text = None, 0, text
            return False
        begun = ReasonState(reason, text, now, ABSENT_S[0])
        if state is not None and state.ended is not None and now - state.ended < RECURRENCE_S:
            begun.absent_s = min(2 * state.absent_s, ABSENT_S[1])
        self._states[key] = begun
        self._states.move_to_end(key)
        if len(self._states) > MAX_REMEMBERED:
            self._states.popitem(last=False)
        return True

    def absent(self, topic: TopicName, subscription: str, reason: Reason, now: float) -> bool:
        """Record a check without the reason; return True if this ends the reason."""
        state = self._states.get((topic, subscription, reason))
        if state is None or state.ended is not None:
            return False
        if state.absent_since is None:
            state.absent_since = now
        state.absent_checks += 1
        if state.absent_checks < MIN_ABSENT_CHECKS or now - state.absent_since < state.absent_s:
            return False
        state.ended = now
        return True

    def oldest(self, topic: TopicName, subscription: str) -> ReasonState | None:
        """Return the oldest reason in force for a subscription or its whole topic; None without one."""
        if not self._states:
            return None
        states = [
            state
            for where in (WHOLE_TOPIC, subscription)
            for reason in Reason
            if (state := self._states.get((topic, where, reason))) is not None and state.ended is None
        ]
        return min(states, key=lambda state: state.since, default=None)

    def of(self, topic: TopicName, subscription: str, reason: Reason) -> ReasonState | None:
        """Return the state of a reason in force; None if it is not in force. Reasons of the whole topic need WHOLE_TOPIC."""
        state = self._states.get((topic, subscription, reason))
        return state if state is not None and state.ended is None else None

    def in_force(self) -> Iterator[tuple[TopicName, str, ReasonState]]:
        """Yield the reasons in force, as topic, subscription and state."""
        for (topic, subscription, _), state in self._states.items():
            if state.ended is None:
                yield topic, subscription, state

    def forget(self, used: Iterable[TopicName], now: float) -> None:
        """Drop reasons older than RECURRENCE_S: those that ended, and those of topics that are not checked any more.

        Args:
            used: topics that are checked, because they have consumers on this broker.
            now: the time.
        """
        kept = frozenset(used)
        for key, state in list(self._states.items()):
            over = state.ended if state.ended is not None else state.since
            if (state.ended is not None or key[0] not in kept) and now - over > RECURRENCE_S:
                del self._states[key]
