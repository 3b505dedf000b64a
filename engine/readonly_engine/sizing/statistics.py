"""Load of a topic from its statistics in the admin API. Pure: a JSON document in, a TopicLoad out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from readonly_engine.sizing.workload import Subscriptions, SubscriptionType, TopicLoad

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OWN_PREFIX: Final = "pulsar-readonly-"
"""Begin of the names of a pool's own subscriptions: pushes at the tail, and guards of local cursors."""

COMPACTION: Final = "__compaction"
REPLICATED: Final = "replicated subscription"
ENTRY_FILTER: Final = "entry filter"

MAX_NUMBER: Final = 1e12
"""Bound of rates; no broker has a higher one."""

_TYPES: Final = tuple(one for one in SubscriptionType if one is not SubscriptionType.READER)
_DEFAULT_ENTRY: Final = 1024.0


def load_of(
    name: str, stats: Mapping[str, Any], *, filters: bool = False, batch: float | None = None, topics: float = 1.0
) -> TopicLoad:
    """Return the load of a topic or partition (PersistentTopicStats).

    Subscriptions without consumers, and those of pools and of the compactor, are left out.

    Args:
        name: the topic.
        stats: its statistics.
        filters: whether the owner has an entry filter for it.
        batch: messages of one entry; None for those of the consumers' statistics, else 1.
        topics: number of topics that this one stands for.
    """
    messages, size = _number(stats.get("msgRateIn")), _number(stats.get("msgThroughputIn"))
    replicated = bool(stats.get("replication"))
    subscriptions: list[Subscriptions] = []
    backlogs: list[float] = []
    batches: list[float] = []
    for text, one in _mapping(stats.get("subscriptions")).items():
        document = _mapping(one)
        consumers = _consumers(document)
        kind = document.get("type")
        if text.startswith(OWN_PREFIX) or text == COMPACTION or not consumers or kind not in _TYPES:
            continue
        # A Reader has a non-durable Exclusive subscription.
        found = SubscriptionType.READER if document.get("isDurable") is False else SubscriptionType(kind)
        reason = ENTRY_FILTER if filters else REPLICATED if replicated and document.get("isReplicated") is True else ""
        subscriptions.append(Subscriptions(found, 1, len(consumers), reason))
        if not reason and _number(document.get("msgBacklog")):
            backlogs.append(max(0.0, _number(document.get("msgThroughputOut")) - size))
        batches += [value for one in consumers if (value := _number(one.get("avgMessagesPerEntry"))) >= 1]
    entry = batch or (sum(batches) / len(batches) if batches else 1.0)
    mean = size / messages if messages else _number(stats.get("averageMsgSize"))
    return TopicLoad(
        topics=topics,
        messages=messages,
        bytes=size,
        batch=entry,
        subscriptions=tuple(subscriptions),
        catch_up_bytes=sum(backlogs),
        catch_up_readers=sum(1 for one in backlogs if one),
        entry_bytes=max(1.0, mean * entry) if mean else _DEFAULT_ENTRY,
        name=name,
    )


def addresses_of(stats: Mapping[str, Any]) -> set[str]:
    """Return the addresses of a topic's consumers: one for each client connection."""
    return {
        str(consumer.get("address", ""))
        for one in _mapping(stats.get("subscriptions")).values()
        for consumer in _consumers(_mapping(one))
        if consumer.get("address")
    }


def sample(names: Iterable[str], most: int) -> tuple[list[str], float]:
    """Return at most `most` names at equal distances in their order, and the number of names that each stands for."""
    found = sorted(names)
    if len(found) <= most:
        return found, 1.0
    return [found[index * len(found) // most] for index in range(most)], len(found) / most


def _consumers(subscription: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = subscription.get("consumers")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float:
    """Return a number of the statistics; 0 for one that is negative, not finite, too large, or no number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -MAX_NUMBER < value < MAX_NUMBER:
        return 0.0
    return max(0.0, float(value))
