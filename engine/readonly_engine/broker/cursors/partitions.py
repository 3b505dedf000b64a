"""Where local cursors are stored: the partitions of one topic for each namespace, and the brokers that have them. Pure."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from readonly_engine.metadata.topic_name import TopicName

if TYPE_CHECKING:
    from collections.abc import Iterable

TOPIC_PREFIX: Final = "__readonly_cursors-"
"""Begin of the names of topics with cursors. Two underscores keep them out of bindings of whole namespaces."""

GUARD_PREFIX: Final = "pulsar-readonly-guard-"
"""Begin of the names of the pool's durable subscriptions at owners, which hold the retention for local cursors."""


def cursor_topic(topic: TopicName, pool: str) -> TopicName:
    """Return the partitioned topic with the cursors of a namespace.

    Args:
        topic: any topic of the namespace.
        pool: identity of the pool.
    """
    return TopicName("persistent", topic.tenant, topic.namespace, f"{TOPIC_PREFIX}{quote(pool, safe='@')}")


def partition_of(topic: TopicName, subscription: str, count: int) -> int:
    """Return the index of the partition that has a subscription's cursor.

    Args:
        topic: the subscription's topic.
        subscription: its name.
        count: number of partitions.
    """
    return _hash(f"{topic}\0{subscription}") % count


def guard_name(pool: str, partition: int) -> str:
    """Return the name of the subscription at a topic's owner that holds the retention for the cursors of one partition."""
    return f"{GUARD_PREFIX}{pool}-{partition}"


def preferred_broker(partition: TopicName, urls: Iterable[str]) -> str:
    """Return the broker that should have a partition; empty without a broker.

    Rendezvous hashing: when a broker comes or goes, only its own partitions change their place.
    """
    return max(urls, key=lambda url: (_hash(f"{url}\0{partition}"), url), default="")


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
