"""Local cursors in compacted topics of the source cluster, with guards of the retention at the owners."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from readonly_engine.broker.cursors.deletions import TopicDeletions
from readonly_engine.broker.cursors.held_partition import HeldPartition
from readonly_engine.broker.cursors.owner_names import OwnerSubscriptionNames
from readonly_engine.broker.cursors.partitions import check_cursor_topic, guard_name, topic_properties
from readonly_engine.broker.cursors.store import CursorStore
from readonly_engine.broker.cursors.topic_records import TopicRecords

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pulsar.asyncio import Client

    from readonly_engine.broker.cursors.guard_policies import GuardPolicies
    from readonly_engine.broker.cursors.owner_access import OwnerAccess
    from readonly_engine.broker.pool.claims import ClaimKey
    from readonly_engine.metadata.cluster import StoredTopic
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.cursor_admin import CursorAdmin

SWITCH_INTERVAL_S: Final = 0.0005
"""Interval at which a thread gets the interpreter from a busy event loop: the client's, for the receipt of each record. With
100,000 subscriptions and Python's 5 ms, 179 and 204 commits took longer than a second; with this interval and CHEAP_PAUSE_S
32 and 8 (make bench)."""


class TopicBackend:
    """Keeps the cursors of a pool in one compacted topic for each namespace (CursorBackend).

    Args:
        client: makes the client of the source cluster, with the broker's own credentials.
        admin: topics of cursors, and subscriptions at owners.
        access: asks owners whether clients may consume.
        identity: identity of the pool.
        partitions: number of partitions of a new topic with cursors; an existing one keeps its number.
        is_bound: returns whether a binding covers a topic.
        stored_topic: returns a topic as the metadata store has it.
        policies_of: returns what owners do to the guards of a topic; None if unknown.
    """

    def __init__(
        self,
        client: Callable[[], Client],
        admin: CursorAdmin,
        access: OwnerAccess,
        identity: str,
        partitions: int,
        is_bound: Callable[[TopicName], bool],
        stored_topic: Callable[[TopicName], Awaitable[StoredTopic | None]],
        policies_of: Callable[[TopicName], Awaitable[GuardPolicies | None]],
    ) -> None:
        self._make_client = client
        self._client: Client | None = None
        self._admin = admin
        self._access = access
        self._identity = identity
        self._new_partitions = partitions
        self._is_bound = is_bound
        self._stored_topic = stored_topic
        self._policies_of = policies_of
        self._owner_names = OwnerSubscriptionNames(admin)

    async def partitions(self, cursors: TopicName) -> int:
        """Return the number of partitions of a topic with cursors, which is created if necessary.

        Raises:
            OwnerUnavailableError: the admin API does not answer.
            OwnerRefusedError: the topic cannot be created, or belongs to somebody else.
        """
        found = await self._admin.partitioned(cursors)
        if not found.partitions:
            properties = topic_properties(self._identity, self._new_partitions)
            await self._admin.create_partitioned(cursors, self._new_partitions, properties)
            found = await self._admin.partitioned(cursors)
        return check_cursor_topic(cursors, found, self._identity)

    async def open(self, key: ClaimKey, on_lost: Callable[[str], None], is_held: Callable[[], bool]) -> HeldPartition:
        """Return the cursors of a partition that this broker has claimed.

        Raises:
            CursorStoreError: they cannot be read or written now.
        """
        if self._client is None:
            sys.setswitchinterval(min(SWITCH_INTERVAL_S, sys.getswitchinterval()))
            self._client = self._make_client()
        store = CursorStore(TopicRecords(self._client, key.topic, self._admin), on_lost)
        await store.open()
        guard = guard_name(self._identity, key.topic.partition)
        return HeldPartition(
            store,
            self._admin,
            self._access,
            self._owner_names,
            guard,
            self._is_bound,
            TopicDeletions(self._stored_topic, self._admin, guard).was_deleted,
            is_held=is_held,
            policies_of=self._policies_of,
        )

    def close(self) -> None:
        """Ask no owners any more."""
        self._access.close()

    async def disconnect(self) -> None:
        """Close the client. A drain that ran out of time did not get that far."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()
