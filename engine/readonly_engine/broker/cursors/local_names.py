"""Local subscriptions of this pool, whose names a new subscription at an owner must not have.

See OwnerSubscriptionNames for the reverse.

A subscription gets another keeper when a binding changes, or the pool while its brokers are replaced one by one. At the owner it
would begin at the client's initial position, and its local backlog would be skipped.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from readonly_engine.broker.cursors.local_requests import LocalRequest
from readonly_engine.broker.cursors.owner_access import NoEvents
from readonly_engine.broker.cursors.partitions import cursor_topic
from readonly_engine.metadata.errors import MetadataUnavailableError
from readonly_engine.owner.consumer import OwnerConsumer
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe, ServerError

if TYPE_CHECKING:
    from readonly_engine.broker.cursors.local_cursors import LocalCursors
    from readonly_engine.broker.pool.membership import PoolMembership
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.directory import OwnerDirectory
    from readonly_engine.owner.identity import Identity

KEPT_S: Final = 5.0
"""Age of an answer whether a namespace has local cursors. It costs pools without any one read of the metadata store so often."""

MAX_KEPT: Final = 10_000
"""Bound of namespaces with such answers."""


class StoredSubscriptions(Protocol):
    """Topics and subscriptions in the metadata store (ClusterMetadata)."""

    async def partitions(self, topic: TopicName) -> int:
        """Return the number of a topic's partitions; 0 for a topic that is not partitioned or does not exist."""

    async def has_subscription(self, topic: TopicName, subscription: str) -> bool:
        """Return whether a topic has a durable subscription of a name."""


@dataclass(frozen=True, eq=False, slots=True)
class _Asker:
    """A client that wants to subscribe at an owner."""

    topic: TopicName
    identity: Identity
    subscribe_command: CommandSubscribe

    def end(self, reason: str) -> None:
        """Ignore it: there is no consumer yet."""


class LocalSubscriptionNames:
    """Looks for the local cursors of subscriptions that owners keep.

    Args:
        cursors: the partitions of local cursors.
        stored: topics and subscriptions in the metadata store.
        owners: connections to other brokers of the pool.
        pool: the pool.
    """

    def __init__(
        self, cursors: LocalCursors, stored: StoredSubscriptions, owners: OwnerDirectory, pool: PoolMembership
    ) -> None:
        self._cursors = cursors
        self._stored = stored
        self._owners = owners
        self._pool = pool
        self._kept: OrderedDict[TopicName, tuple[float, bool]] = OrderedDict()

    async def exist(self, topic: TopicName) -> bool:
        """Return whether this pool has had local cursors in the namespace of a topic.

        Raises:
            MetadataError: the metadata store does not answer, or its node is damaged.
        """
        now, cursors = asyncio.get_running_loop().time(), cursor_topic(topic, self._pool.identity)
        at, found = self._kept.get(cursors, (0.0, None))
        if found is not None and now - at < KEPT_S:
            return found
        try:
            found = bool(await self._stored.partitions(cursors))
        except MetadataUnavailableError:
            if found is None:
                raise
            return found
        self._kept[cursors] = (now, found)
        self._kept.move_to_end(cursors)
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return found

    async def check(self, topic: TopicName, identity: Identity, subscribe: CommandSubscribe) -> None:
        """Check that a subscription that does not exist at the owner is not a local one.

        A guard would show local cursors for one read of the metadata store, but an owner may have let it expire.

        Raises:
            OwnerRefusedError: it is one; the text has the remedy.
            OwnerUnavailableError: the broker that has the partition does not answer.
            MetadataError: the metadata store does not answer.
        """
        if not await self.exist(topic):
            return
        name = subscribe.subscription
        key = await self._cursors.key_of(topic, name)
        if await self._stored.has_subscription(topic, name):
            return
        peer = await self._cursors.place(key)
        if peer:
            await self._ask(peer, identity, subscribe)
        else:
            await (await self._cursors.open(key)).check_absent(_Asker(topic, identity, subscribe))

    async def answer(self, topic: TopicName, identity: Identity, subscribe: CommandSubscribe) -> None:
        """Answer LocalRequest.CHECK; the answer is an error.

        Raises:
            OwnerRefusedError: the pool keeps the subscription; or SubscriptionNotFound: it does not.
            OwnerUnavailableError: another broker has the partition, or it cannot be opened.
            MetadataError: the metadata store does not answer.
        """
        name = subscribe.subscription
        if await self.exist(topic):
            key = await self._cursors.key_of(topic, name)
            if await self._cursors.place(key):
                raise OwnerUnavailableError(f"another broker has the local cursors in {key.topic}; try again")
            await (await self._cursors.open(key)).check_absent(_Asker(topic, identity, subscribe))
        raise OwnerRefusedError(ServerError.SubscriptionNotFound, f"this pool keeps no subscription {name} of {topic}")

    async def _ask(self, peer: str, identity: Identity, subscribe: CommandSubscribe) -> None:
        """Ask the broker of the pool that has a partition."""
        member = self._pool.members.get(peer)
        question = CommandSubscribe(
            topic=subscribe.topic,
            subscription=subscribe.subscription,
            sub_type=subscribe.sub_type,
            consumer_id=0,
            request_id=0,
            consumer_name=subscribe.consumer_name,
        )
        for request in (LocalRequest.CHECK, LocalRequest.FORCE):  # a broker that does not know CHECK creates nothing
            question.metadata.add(key=request.value, value="true")
        peer_url = self._owners.peer_url(peer, "" if member is None else member.tls_url)
        asking = OwnerConsumer(self._owners, identity, question, NoEvents(), zero_permit=False, peer_url=peer_url)
        try:
            await asking.subscribe()
        except OwnerRefusedError as error:
            if error.code == ServerError.SubscriptionNotFound:
                return
            raise
        await asking.close()
        raise OwnerUnavailableError(f"{peer} may have a local cursor of {subscribe.subscription}; try again")
