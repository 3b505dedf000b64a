"""Whether a topic's owner or the pool serves its consumers for less CPU, for `placement: WhenCheaper`. Pure.

The consumers of one subscription share one copy of each message; a Reader has its own. A pool costs the owner one more copy,
and its own cost of each copy falls with their number. So few are cheaper at the owner (docs/explanation/performance-growth.md
has both sides).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from readonly_engine.metadata.topic_name import TopicName

SUBSCRIPTIONS: Final = 4
"""Subscriptions of a topic with consumers from which on the pool serves new ones. With one, owner and pool together need up
to 1.3 times the CPU of the owner alone, with three 1.1 times, with ten 0.8 times, with thirty 0.6 times."""

FEW: Final = SUBSCRIPTIONS - 2
"""Subscriptions of a topic whose consumers go back to the owner. Between both numbers they stay where they are."""

RECENT_S: Final = 10.0
"""Time in which a redirected consumer may not be in the owner's statistics yet."""

MAX_TOPICS: Final = 10_000
"""Bound of topics with recent redirects."""

MAX_RECENT: Final = 2 * SUBSCRIPTIONS
"""Bound of recent redirects of one topic: more would not change the decision."""


class Consumers(NamedTuple):
    """Consumers of a topic by the statistics of its owner.

    Attributes:
        subscriptions: subscriptions with consumers, without those that push to pools.
        here: consumers of the subscription that this pool serves.
        direct: those of the subscription that are connected to the owner.
    """

    subscriptions: int
    here: int
    direct: int


def count_consumers(
    stats: Mapping[str, Any] | None, subscription: str, pool: str, pool_key: str, ignored_prefix: str
) -> Consumers:
    """Count consumers in the owner's statistics of a topic.

    Args:
        stats: the statistics from the admin API; None for a topic that does not exist.
        subscription: name of the subscription.
        pool: identity of the pool, which its consumers have in their metadata.
        pool_key: key of that metadata.
        ignored_prefix: prefix of the subscriptions that push to pools.
    """
    found = {
        name: one.get("consumers", ())
        for name, one in (stats or {}).get("subscriptions", {}).items()
        if not name.startswith(ignored_prefix)
    }
    own = found.get(subscription, ())
    here = sum((one.get("metadata") or {}).get(pool_key) == pool for one in own)
    return Consumers(sum(map(bool, found.values())), here, len(own) - here)


class RecentRedirects:
    """Redirects to owners of the last RECENT_S, by topic. Consumers that subscribe at once see each other so."""

    def __init__(self) -> None:
        self._redirects: OrderedDict[TopicName, list[tuple[float, str]]] = OrderedDict()

    def add(self, topic: TopicName, subscription: str, now: float) -> None:
        """Remember one more."""
        redirects = [*self._of(topic, now), (now, subscription)][-MAX_RECENT:]
        self._redirects[topic] = redirects
        self._redirects.move_to_end(topic)
        if len(self._redirects) > MAX_TOPICS:
            self._redirects.popitem(last=False)

    def names(self, topic: TopicName, now: float) -> list[str]:
        """Return their subscriptions, one for each redirect."""
        return [name for _, name in self._of(topic, now)]

    def _of(self, topic: TopicName, now: float) -> list[tuple[float, str]]:
        return [one for one in self._redirects.get(topic, ()) if now - one[0] < RECENT_S]


def belongs_at_owner(consumers: Consumers, recent: Sequence[str], subscription: str) -> bool:
    """Return whether a new consumer of a subscription is cheaper at the owner.

    Consumers of one subscription stay together: a Shared one with consumers on both sides would pass through.

    Args:
        consumers: those before it.
        recent: subscriptions of the topic's recent redirects.
        subscription: its subscription.
    """
    if consumers.direct or subscription in recent:
        return True
    return not consumers.here and consumers.subscriptions + len({*recent, subscription}) < SUBSCRIPTIONS


def goes_back(consumers: Consumers, served: int) -> bool:
    """Return whether the consumers that this broker serves of a topic go back to the owner.

    Args:
        consumers: those of the topic; `here` and `direct` are not used.
        served: subscriptions that this broker serves consumers of.
    """
    return 0 < served <= consumers.subscriptions <= FEW
