"""Why subscriptions pass through to the owner, and since and until when. Pure: time is an argument, in seconds."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from readonly_engine.metadata.topic_name import TopicName

ABSENT_S = (10.0, 600.0)
"""A reason ends once it was not seen for so long; for twice as long, again and again, if it comes back soon after its end."""

MIN_ABSENT_CHECKS = 2
"""And was looked for so often in that time."""

RECURRENCE_S = 600.0

MAX_REMEMBERED = 100_000

WHOLE_TOPIC = ""
"""In the place of a subscription: all subscriptions of the topic."""


class Reason(StrEnum):
    """What only the owner can do."""

    DIRECT_CONSUMERS = "direct-consumers"
    ENTRY_FILTER = "entry-filter"
    STORAGE = "storage"
    REPLICATED = "replicated"


@dataclass(slots=True)
class ReasonState:
    """One reason of one subscription or topic.

    Attributes:
        reason: the reason.
        text: what was seen, for people.
        since: when it was seen first.
        absent_s: how long it must not be seen.
        absent_since: when it was looked for in vain, first since it was seen; None while it is seen.
        absent_checks: how often it was looked for in vain since.
        ended: when it ended; None while it is in force.
    """

    reason: Reason
    text: str
    since: float
    absent_s: float
    absent_since: float | None = None
    absent_checks: int = 0
    ended: float | None = None


class ReasonTracker:
    """Keeps the reasons that are in force, and for a while those that ended."""

    def __init__(self) -> None:
        self._states: OrderedDict[tuple[TopicName, str, Reason], ReasonState] = OrderedDict()

    def found(self, topic: TopicName, subscription: str, reason: Reason, text: str, now: float) -> bool:
        """A reason was seen. Returns whether it is in force only now."""
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
        """A reason was looked for in vain. Returns whether it has ended by this."""
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
        """The reason why a subscription passes through, the oldest; None where it does not."""
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
        """A reason that is in force; None where it is not."""
        state = self._states.get((topic, subscription, reason))
        return state if state is not None and state.ended is None else None

    def in_force(self) -> Iterator[tuple[TopicName, str, ReasonState]]:
        """All reasons in force."""
        for (topic, subscription, _), state in self._states.items():
            if state.ended is None:
                yield topic, subscription, state

    def forget(self, used: Iterable[TopicName], now: float) -> None:
        """Forget what nobody looks for any more, and what ended long ago.

        Args:
            used: topics with consumers here: their reasons are looked for.
            now: the time.
        """
        kept = frozenset(used)
        for key, state in list(self._states.items()):
            over = state.ended if state.ended is not None else state.since
            if (state.ended is not None or key[0] not in kept) and now - over > RECURRENCE_S:
                del self._states[key]
