"""The SUBSCRIBE that a broker sends for a client, with the marks of the pool in its metadata. Pure."""

from __future__ import annotations

from readonly_engine.broker.passthrough.pool_metadata import add_pool_metadata
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

RELAYED_BY = "pulsar-readonly.relayed-by"
"""Key of the consumer metadata that a broker of the pool adds to a consumer that it relays to another broker of the pool.

The other broker relays the consumer no further. The owner does not see the key. Any client can send it. It needs no proof,
because a false one harms only its sender:

- A broker refuses a marked consumer if another broker serves the subscription.
- If a marked consumer leaves within 5 s, an UNSUBSCRIBE waits up to 5 s for its return. That requires that the owner has
  admitted the consumer, and then the client could block every UNSUBSCRIBE anyway by staying, as on the owner.
"""

SPLIT_MEMBER = "pulsar-readonly.split-member"
"""Key of the consumer metadata of a member's connection to the coordinator of a split subscription, beside RELAYED_BY, which is
its name. The value is the version of reports and grants.

Any client can send it that may consume the subscription: the owner is asked. It then can withhold messages of the subscription
from other consumers for as long as it stays, as any consumer can that does not ack.
"""

SPLIT_ACKS = "pulsar-readonly.split-acks"
"""Key of the consumer metadata of a consumer of a split subscription at the broker that holds its cursor, beside RELAYED_BY. The
relaying broker dispatches to the client, and this consumer only acks and asks. Any client can send it: it gets no messages then.
"""


def only_acks(subscribe: CommandSubscribe) -> bool:
    """Return whether a consumer that another broker relays here only acks and asks."""
    return relayed_by(subscribe) is not None and _last(subscribe, SPLIT_ACKS) is not None


def mark_acks(subscribe: CommandSubscribe) -> None:
    """Mark a SUBSCRIBE as that of a consumer that only acks and asks."""
    subscribe.metadata.add(key=SPLIT_ACKS, value="true")


def split_member(subscribe: CommandSubscribe) -> tuple[str, str] | None:
    """Return the name of a member of a split subscription, and the version that it speaks; None for a consumer."""
    version = _last(subscribe, SPLIT_MEMBER)
    return None if version is None else (relayed_by(subscribe) or "", version)


def mark_member(subscribe: CommandSubscribe, name: str, version: str) -> None:
    """Mark a SUBSCRIBE as that of a member of a split subscription."""
    subscribe.metadata.add(key=RELAYED_BY, value=name)
    subscribe.metadata.add(key=SPLIT_MEMBER, value=version)


def relayed_by(subscribe: CommandSubscribe) -> str | None:
    """Return the broker of the pool that has relayed a consumer here, by its last RELAYED_BY; None without one."""
    return _last(subscribe, RELAYED_BY)


def _last(subscribe: CommandSubscribe, key: str) -> str | None:
    if not subscribe.metadata:
        return None
    return next((item.value for item in reversed(subscribe.metadata) if item.key == key), None)


def marked_subscribe(subscribe: CommandSubscribe, *, relayed_by: str = "", pool: str = "") -> CommandSubscribe:
    """Return a copy of a client's SUBSCRIBE for the broker that gets it next, without the client's own RELAYED_BY.

    Args:
        subscribe: the client's SUBSCRIBE.
        relayed_by: this broker, if it relays the consumer to another one of the pool.
        pool: identity of the pool, for consumers that must not count as direct ones on the owner; empty for others.
    """
    marked = CommandSubscribe()
    marked.CopyFrom(subscribe)
    if subscribe.metadata and any(item.key == RELAYED_BY for item in subscribe.metadata):
        del marked.metadata[:]
        marked.metadata.extend(item for item in subscribe.metadata if item.key != RELAYED_BY)
    if relayed_by:
        marked.metadata.add(key=RELAYED_BY, value=relayed_by)
    if pool:
        add_pool_metadata(marked, pool)
    return marked
