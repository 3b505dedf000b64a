"""Why subscriptions pass through to the owner, and since and until when. Pure: time is an argument, in seconds."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from readonly_engine.metadata.topic_name import TopicName

CLEAN_S = (10.0, 600.0)
"""A reason ends once it was not seen for so long; for twice as long, again and again, if it comes back soon after its end."""

CLEAN_LOOKS = 2
"""And was looked for so often in that time."""

SOON_S = 600.0

MOST_REMEMBERED = 100_000

WHOLE_TOPIC = ""
"""In the place of a subscription: all subscriptions of the topic."""


class Reason(StrEnum):
    """What only the owner can do."""

    DIRECT_CONSUMERS = "direct-consumers"
    ENTRY_FILTER = "entry-filter"
    STORAGE = "storage"
    REPLICATED = "replicated"


@dataclass(slots=True)
class Case:
    """One reason of one subscription or topic.

    Attributes:
        reason: the reason.
        text: what was seen, for people.
        since: when it was seen first.
        clean_s: how long it must not be seen.
        clean_since: when it was looked for in vain, first since it was seen; None while it is seen.
        clean_looks: how often it was looked for in vain since.
        ended: when it ended; None while it is in force.
    """

    reason: Reason
    text: str
    since: float
    clean_s: float
    clean_since: float | None = None
    clean_looks: int = 0
    ended: float | None = None


class Reasons:
    """Keeps the reasons that are in force, and for a while those that ended."""

    def __init__(self) -> None:
        self._cases: OrderedDict[tuple[TopicName, str, Reason], Case] = OrderedDict()

    def seen(self, topic: TopicName, subscription: str, reason: Reason, text: str, now: float) -> bool:
        """A reason was seen. Returns whether it is in force only now."""
        key = (topic, subscription, reason)
        case = self._cases.get(key)
        if case is not None and case.ended is None:
            case.clean_since, case.clean_looks, case.text = None, 0, text
            return False
        begun = Case(reason, text, now, CLEAN_S[0])
        if case is not None and case.ended is not None and now - case.ended < SOON_S:
            begun.clean_s = min(2 * case.clean_s, CLEAN_S[1])
        self._cases[key] = begun
        self._cases.move_to_end(key)
        if len(self._cases) > MOST_REMEMBERED:
            self._cases.popitem(last=False)
        return True

    def not_seen(self, topic: TopicName, subscription: str, reason: Reason, now: float) -> bool:
        """A reason was looked for in vain. Returns whether it has ended by this."""
        case = self._cases.get((topic, subscription, reason))
        if case is None or case.ended is not None:
            return False
        if case.clean_since is None:
            case.clean_since = now
        case.clean_looks += 1
        if case.clean_looks < CLEAN_LOOKS or now - case.clean_since < case.clean_s:
            return False
        case.ended = now
        return True

    def why(self, topic: TopicName, subscription: str) -> Case | None:
        """The reason why a subscription passes through, the oldest; None where it does not."""
        if not self._cases:
            return None
        cases = [
            case
            for where in (WHOLE_TOPIC, subscription)
            for reason in Reason
            if (case := self._cases.get((topic, where, reason))) is not None and case.ended is None
        ]
        return min(cases, key=lambda case: case.since, default=None)

    def of(self, topic: TopicName, subscription: str, reason: Reason) -> Case | None:
        """A reason that is in force; None where it is not."""
        case = self._cases.get((topic, subscription, reason))
        return case if case is not None and case.ended is None else None

    def in_force(self) -> Iterator[tuple[TopicName, str, Case]]:
        """All reasons in force."""
        for (topic, subscription, _), case in self._cases.items():
            if case.ended is None:
                yield topic, subscription, case

    def forget(self, used: Iterable[TopicName], now: float) -> None:
        """Forget what nobody looks for any more, and what ended long ago.

        Args:
            used: topics with consumers here: their reasons are looked for.
            now: the time.
        """
        kept = frozenset(used)
        for key, case in list(self._cases.items()):
            over = case.ended if case.ended is not None else case.since
            if (case.ended is not None or key[0] not in kept) and now - over > SOON_S:
                del self._cases[key]
