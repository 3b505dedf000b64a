"""The pool's identity in the metadata of its consumers on owners, which tells them from direct ones. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

POOL_KEY = "pulsar-readonly.pool"
"""Key of the consumer metadata with the pool's identity. The owner's statistics show it, so direct consumers are recognized."""

MAX_METADATA_BYTES = 1024
"""Bytes of consumer metadata that an owner accepts (default of maxConsumerMetadataSize)."""


def add_pool_metadata(subscribe: CommandSubscribe, pool: str) -> None:
    """Add the pool's identity to the consumer metadata of a SUBSCRIBE.

    If the metadata would exceed MAX_METADATA_BYTES it is left out, and the consumer then counts as a direct one.
    """
    size = len(POOL_KEY) + len(pool.encode())
    size += sum(len(pair.key.encode()) + len(pair.value.encode()) for pair in subscribe.metadata)
    if size <= MAX_METADATA_BYTES:
        subscribe.metadata.add(key=POOL_KEY, value=pool)


def direct_consumers(stats: dict[str, Any], subscription: str, pool: str) -> list[str]:
    """Return the addresses of a subscription's consumers on the owner that do not belong to the pool.

    Args:
        stats: the topic's statistics from the admin API.
        subscription: name of the subscription.
        pool: identity of the pool.
    """
    found = stats.get("subscriptions", {}).get(subscription, {}).get("consumers", [])
    return [
        str(consumer.get("address", "?"))
        for consumer in found
        if (consumer.get("metadata") or {}).get(POOL_KEY) != pool
    ]
