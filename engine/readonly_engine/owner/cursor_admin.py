"""What local cursors need of the admin API: their topics, and subscriptions at owners that hold the retention."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from readonly_engine.metadata.topic_name import encode_name
from readonly_engine.owner.admin import LONG_TEXT, acked_ranges, position_of
from readonly_engine.owner.admin_requests import Accepted, Body
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.wire.pulsar_pb2 import ServerError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.admin import AdminClient

POLLS_PER_S: Final = 20.0
"""Bound of the questions that are not urgent, such as those where guards are: each costs the owner its internal statistics."""

_THERE: Final = frozenset({HTTPStatus.CONFLICT})
_MISSING: Final = frozenset({HTTPStatus.NOT_FOUND})


class PartitionedTopic(NamedTuple):
    """A partitioned topic.

    Attributes:
        partitions: number of its partitions; 0 if the topic does not exist, or has none.
        properties: its properties.
    """

    partitions: int
    properties: Mapping[str, str]


class CursorState(NamedTuple):
    """Where a subscription of an owner is.

    Attributes:
        mark_delete: its mark-delete position; None if there is no such subscription.
        ledgers: the topic's ledgers, each with its number of entries; that of the last one is unknown.
        entry_bytes: average size of the topic's last entries; 0 if unknown.
    """

    mark_delete: Position | None
    ledgers: tuple[tuple[int, int], ...]
    entry_bytes: int = 0


class AckedState(NamedTuple):
    """What a subscription of an owner has acked, at one moment.

    Attributes:
        ranges: acked ranges (lower, upper]; the first one ends at the mark-delete position.
        ledgers: the topic's ledgers, each with its number of entries; that of the last one is unknown.
    """

    ranges: tuple[tuple[Position, Position], ...]
    ledgers: tuple[tuple[int, int], ...]


class TopicLedgers(NamedTuple):
    """Where the entries of a topic are.

    Attributes:
        ledgers: the topic's ledgers, each with its number of entries; that of the last one is unknown.
        last_confirmed: the last entry; EARLIEST if the topic has no ledger.
    """

    ledgers: tuple[tuple[int, int], ...]
    last_confirmed: Position


class SubscriptionDescription(NamedTuple):
    """A subscription of an owner, as its statistics describe it.

    Attributes:
        properties: the application's properties.
        replicated: whether its state is replicated to other clusters.
        consumers: number of its consumers.
    """

    properties: tuple[tuple[str, str], ...]
    replicated: bool
    consumers: int


def _ledgers(stats: Mapping[str, Any]) -> list[tuple[int, int]]:
    return [(int(one["ledgerId"]), int(one.get("entries", 0))) for one in stats.get("ledgers", ())]


def _entry_bytes(stats: Mapping[str, Any]) -> int:
    for size, entries in (("currentLedgerSize", "currentLedgerEntries"), ("totalSize", "numberOfEntries")):
        if int(stats.get(entries) or 0) > 0:
            return -(-int(stats.get(size) or 0) // int(stats[entries]))
    return 0


class CursorAdmin:
    """Requests of local cursors to the admin API.

    Args:
        admin: client of the admin API.
    """

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._next_turn = 0.0

    async def take_turn(self) -> None:
        """Wait before a question that is not urgent; all such questions together are at most POLLS_PER_S."""
        now = asyncio.get_running_loop().time()
        turn = max(self._next_turn, now)
        self._next_turn = turn + 1 / POLLS_PER_S
        await asyncio.sleep(turn - now)

    async def partitioned(self, topic: TopicName) -> PartitionedTopic:
        """Return a partitioned topic.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or refused.
        """
        found = await self._admin.fetch(f"/admin/v2/{topic.rest_path}/partitions", accepted=_MISSING)
        found = found if isinstance(found, dict) else {}
        return PartitionedTopic(int(found.get("partitions", 0)), found.get("properties") or {})

    async def create_partitioned(self, topic: TopicName, partitions: int, properties: Mapping[str, str]) -> None:
        """Create a partitioned topic, unless the topic exists.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or refused.
        """
        body = {"partitions": partitions, "properties": dict(properties)}
        await self._admin.fetch(
            f"/admin/v2/{topic.rest_path}/partitions",
            accepted=_THERE,
            method="PUT",
            body=Body(body, "application/vnd.partitioned-topic-metadata+json"),
        )

    async def exists(self, topic: TopicName) -> bool:
        """Return whether there is a topic without partitions, or a partition.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or refused.
        """
        return await self._admin.stats(topic) is not None

    async def compact(self, topic: TopicName) -> None:
        """Begin a compaction of a topic, unless one is under way.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or refused.
        """
        await self._admin.fetch(f"/admin/v2/{topic.rest_path}/compaction", accepted=_THERE, method="PUT")

    async def subscriptions(self, topic: TopicName) -> frozenset[str]:
        """Return the names of a topic's durable subscriptions at its owner.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with the topic's internal statistics.
        """
        return frozenset((await self._admin.internal_stats(topic)).get("cursors", {}))

    async def cursor(self, topic: TopicName, subscription: str) -> CursorState:
        """Return where a subscription is, and the topic's ledgers.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with the topic's internal statistics.
        """
        stats = await self._admin.internal_stats(topic)
        cursor = stats.get("cursors", {}).get(encode_name(subscription), {})
        return CursorState(position_of(cursor.get("markDeletePosition")), tuple(_ledgers(stats)), _entry_bytes(stats))

    async def acked(self, topic: TopicName, subscription: str) -> AckedState | None:
        """Return what a subscription has acked; None if there is no such subscription.

        Concurrent callers share an answer, which may be as old as the first one's request.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with the topic's internal statistics.
        """
        stats = await self._admin.internal_stats(topic)
        cursor = stats.get("cursors", {}).get(encode_name(subscription))
        if cursor is None:
            return None
        if len(cursor.get("individuallyDeletedMessages", "")) < LONG_TEXT:
            ranges = acked_ranges(cursor)
        else:
            ranges = await asyncio.to_thread(acked_ranges, cursor)
        if "markDeletePosition" not in cursor or not ranges:
            raise OwnerUnavailableError(
                f"the internal statistics of {topic} have no position of subscription {subscription}"
            )
        return AckedState(tuple(ranges), tuple(_ledgers(stats)))

    async def ledgers(self, topic: TopicName) -> TopicLedgers:
        """Return where the entries of a topic are; a missing topic has none.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or refused.
        """
        stats = await self._admin.fetch(f"/admin/v2/{topic.rest_path}/internalStats", accepted=_MISSING)
        if not isinstance(stats, dict):
            return TopicLedgers((), EARLIEST)
        return TopicLedgers(tuple(_ledgers(stats)), position_of(stats.get("lastConfirmedEntry")) or EARLIEST)

    async def describe(self, topic: TopicName, subscription: str) -> SubscriptionDescription | None:
        """Return a durable subscription as its statistics describe it; None if there is no such subscription.

        Raises:
            OwnerRefusedError: there is no such topic.
            OwnerUnavailableError: the admin API did not answer, or not with statistics.
        """
        stats = await self._admin.stats(topic)
        if stats is None:
            raise OwnerRefusedError(ServerError.TopicNotFound, f"there is no topic {topic}")
        found = stats.get("subscriptions", {}).get(subscription)
        if found is None or not found.get("isDurable", True):
            return None
        properties = tuple(sorted((found.get("subscriptionProperties") or {}).items()))
        return SubscriptionDescription(properties, bool(found.get("isReplicated")), len(found.get("consumers", ())))

    async def create_subscription(
        self, topic: TopicName, subscription: str, mark_delete: Position, properties: Mapping[str, str] | None = None
    ) -> bool:
        """Create a durable subscription; return whether it was created, so that it did not exist before.

        Args:
            topic: the topic, or a partition.
            subscription: the name.
            mark_delete: the last entry that counts as acked.
            properties: properties of the subscription, for its statistics.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or refused.
        """
        answer = await self._admin.fetch(
            self._path(topic, subscription),
            accepted=_THERE,
            method="PUT",
            body=_next_to_read(mark_delete, {"properties": dict(properties)} if properties else {}),
        )
        return not isinstance(answer, Accepted)

    async def move_subscription(self, topic: TopicName, subscription: str, mark_delete: Position) -> bool:
        """Move the cursor of a subscription; return whether it exists.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or refused.
        """
        answer = await self._admin.fetch(
            f"{self._path(topic, subscription)}/resetcursor",
            accepted=_MISSING,
            method="POST",
            body=_next_to_read(mark_delete),
        )
        return not isinstance(answer, Accepted)

    async def delete_subscription(self, topic: TopicName, subscription: str) -> None:
        """Delete a subscription; a missing one is no error.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or refused.
        """
        await self._admin.fetch(self._path(topic, subscription), accepted=_MISSING, method="DELETE")

    async def position_at(self, topic: TopicName, timestamp_ms: int) -> Position:
        """Return the first message that was published at a time or later; if there is none, the position after the last one.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or refused.
        """
        found = await self._admin.fetch(f"/admin/v2/{topic.rest_path}/messageid/{timestamp_ms}")
        if not isinstance(found, dict) or "ledgerId" not in found or "entryId" not in found:
            raise OwnerUnavailableError(f"the admin API did not answer with a message of {topic} for a time")
        return Position(int(found["ledgerId"]), int(found["entryId"]))

    @staticmethod
    def _path(topic: TopicName, subscription: str) -> str:
        return f"/admin/v2/{topic.rest_path}/subscription/{quote(subscription, safe='')}"


def _next_to_read(mark_delete: Position, more: Mapping[str, object] = MappingProxyType({})) -> Body:
    """Return the message id of the next entry to read, as the admin API expects it (ResetCursorData)."""
    entry_id = -1 if mark_delete == EARLIEST else mark_delete.entry_id + 1
    return Body({"ledgerId": mark_delete.ledger_id, "entryId": entry_id, "partitionIndex": -1, **more})
