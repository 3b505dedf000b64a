"""Where local cursors are stored: the partitions of one topic for each namespace, and the brokers that have them. Pure."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from readonly_engine.config.settings import MAX_PARTITIONS
from readonly_engine.metadata.topic_name import TopicName
from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.wire.pulsar_pb2 import ServerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_engine.owner.cursor_admin import PartitionedTopic

TOPIC_PREFIX: Final = "__readonly_cursors-"
"""Begin of the names of topics with cursors. Two underscores keep them out of bindings of whole namespaces."""

POOL_PROPERTY: Final = "pulsar-readonly.pool"
"""Property of a topic with cursors: the pool to which it belongs."""

PARTITIONS_PROPERTY: Final = "pulsar-readonly.partitions"
"""Property of a topic with cursors: the number of partitions at its creation. An administrator may add more, which are not used:
brokers that count differently would look for one subscription in two places."""

GUARD_PREFIX: Final = "pulsar-readonly-guard-"
"""Begin of the names of the pool's durable subscriptions at owners, which hold the retention for local cursors."""


def cursor_topic(topic: TopicName, pool: str) -> TopicName:
    """Return the partitioned topic with the cursors of a namespace.

    Args:
        topic: any topic of the namespace.
        pool: identity of the pool.
    """
    return TopicName("persistent", topic.tenant, topic.namespace, f"{TOPIC_PREFIX}{quote(pool, safe='@')}")


def topic_properties(pool: str, partitions: int) -> dict[str, str]:
    """Return the properties of a new topic with the cursors of a pool."""
    return {POOL_PROPERTY: pool, PARTITIONS_PROPERTY: str(partitions)}


def check_cursor_topic(cursors: TopicName, found: PartitionedTopic, pool: str) -> int:
    """Check that a topic has the cursors of a pool.

    Args:
        cursors: name of the topic.
        found: the topic.
        pool: identity of the pool.

    Returns:
        The number of partitions that are used.

    Raises:
        OwnerRefusedError: it is a topic of somebody else.
    """
    owner, text = found.properties.get(POOL_PROPERTY), found.properties.get(PARTITIONS_PROPERTY, "")
    used = int(text) if text.isdecimal() and len(text) < 5 else 0
    if owner != pool or not 0 < used <= min(found.partitions, MAX_PARTITIONS):
        raise OwnerRefusedError(
            ServerError.NotAllowedError,
            f"{cursors} is no topic of this pool's cursors: it has {found.partitions} partitions and the properties"
            f" {POOL_PROPERTY}={owner or ''!r}, expected {pool!r}, and {PARTITIONS_PROPERTY}={text[:20]!r}; delete it, or rename"
            " the pool",
        )
    return used


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


def assign_partitions(topic: TopicName, count: int, urls: frozenset[str], holders: Sequence[str]) -> tuple[str, ...]:
    """Return the broker that should have each partition; none without a broker.

    A broker has `count / len(urls)` partitions, rounded down or up. A partition stays where it is, unless its broker has gone or
    has more than that: no other can stay if the brokers' shares are to be equal. So the death of a broker moves only its own
    partitions, and a new broker gets only as many as its share.

    All brokers come to the same result from the same claims, and also if some of the partitions are already where it puts them:
    that fills only the shares that were meant for them.

    Args:
        topic: the partitioned topic.
        count: number of its partitions.
        urls: URLs of the brokers.
        holders: URL of the broker that has each partition; empty, or not in `urls`, for none.
    """
    if not urls:
        return ()
    held: dict[str, list[int]] = {url: [] for url in sorted(urls)}
    for partition, url in enumerate(holders):
        if url in held:
            held[url].append(partition)
    share, remainder = divmod(count, len(urls))
    # Those that have one more already may keep it.
    larger = set(sorted(held, key=lambda url: (len(held[url]) <= share, _hash(f"{url}\0{topic}")))[:remainder])
    found, room = [""] * count, {}
    for url, partitions in held.items():
        most = share + (url in larger)
        if len(partitions) > most:
            partitions.sort(key=lambda partition: _weight(url, topic, partition), reverse=True)
        for partition in partitions[:most]:
            found[partition] = url
        if len(partitions) < most:
            room[url] = most - len(partitions)
    for partition in range(count):
        if not found[partition]:
            best = max(room, key=lambda url: _weight(url, topic, partition))
            found[partition] = best
            room[best] -= 1
            if not room[best]:
                del room[best]
    return tuple(found)


def _weight(url: str, topic: TopicName, partition: int) -> tuple[int, str]:
    """Return the weight of a broker for a partition, as in rendezvous hashing."""
    return _hash(f"{url}\0{topic}\0{partition}"), url


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
