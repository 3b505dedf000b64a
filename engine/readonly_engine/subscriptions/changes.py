"""Changes of local subscriptions through the pool: seek, delete, import and export.

The owner authorizes each change, because the pool asks it with the user's credentials. The URL of the pool may be wrong. So each
change is compared with the owner's subscriptions: a pool that keeps the subscription has none at the owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pulsar

from readonly_engine.broker.cursors.local_requests import LocalRequest, migration_of
from readonly_engine.subscriptions.pool_client import ConsumersConnectedError
from readonly_engine.tool.errors import ToolError
from readonly_engine.topic.position import EARLIEST, Position

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pulsar.asyncio import Consumer

    from readonly_engine.broker.cursors.local_cursor import LocalCursor
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.subscriptions.cursors import PoolCursors
    from readonly_engine.subscriptions.forced import ForcedChanges
    from readonly_engine.subscriptions.pool_client import PoolClient
    from readonly_engine.tool.start import Start

_MAX_INT64: Final = (1 << 63) - 1


def seek_target(to: Start) -> Position | int:
    """Return the next message to deliver, or the time of the first one, in ms."""
    if to == "earliest":
        return EARLIEST
    if to == "latest":
        return Position(_MAX_INT64, _MAX_INT64)
    assert not isinstance(to, str)
    return to


class Changes:
    """Changes subscriptions of one topic, or of all partitions of one.

    Args:
        cursors: reads the local cursors.
        pool: client of the pool.
        forced: changes subscriptions that have consumers.
        topics: the topic, or its partitions.
        subscription: name of the subscription.
    """

    def __init__(
        self,
        cursors: PoolCursors,
        pool: PoolClient,
        forced: ForcedChanges,
        topics: Sequence[TopicName],
        subscription: str,
    ) -> None:
        self._cursors = cursors
        self._forced = forced
        self._pool = pool
        self._topics = topics
        self._name = subscription

    async def seek(self, to: Start, *, force: bool) -> AsyncIterator[str]:
        """Move the cursor; yield a line for each topic.

        Args:
            to: the next message to deliver.
            force: whether to move it although it has consumers.

        Raises:
            ToolError: the subscription does not exist, has consumers, or the change is refused.
            RelayError: the admin API does not answer; or the pool, with `force`.
        """
        target = seek_target(to)
        if isinstance(to, Position) and len(self._topics) > 1:
            raise ToolError(f"--to {to}: a position belongs to one partition; name it, as in {self._topics[0]}")
        for topic in await self._existing():
            try:
                async with self._pool.consumer(topic, self._name, LocalRequest.EXISTING) as consumer:
                    await self._check_pool(topic, consumer)
                    position = target if isinstance(target, int) else pulsar.MessageId(-1, *target, -1)
                    await self._pool.answer(topic, consumer.seek(position))
            except ConsumersConnectedError as error:
                if not force:
                    raise ToolError(f"{error}, or use --force") from error
                await self._forced.seek(topic, self._name, target)
            found = await self._cursors.find(topic, self._name)
            yield f"{topic}: moved" + (f", mark-delete position {found.mark_delete}" if found is not None else "")

    async def delete(self, *, force: bool) -> AsyncIterator[str]:
        """Delete the subscription; yield a line for each topic.

        Args:
            force: whether to delete it although it has consumers.

        Raises:
            ToolError: it does not exist, has consumers, or the change is refused.
            RelayError: the admin API does not answer; or the pool, with `force`.
        """
        for topic in await self._existing():
            try:
                async with self._pool.consumer(topic, self._name, LocalRequest.EXISTING) as consumer:
                    await self._check_pool(topic, consumer)
                    await self._pool.answer(topic, consumer.unsubscribe())
                yield f"{topic}: deleted"
            except ConsumersConnectedError as error:
                if not force:
                    raise ToolError(f"{error}, or use --force") from error
                await self._forced.delete(topic, self._name)
                yield f"{topic}: deleted, and its consumers closed"

    async def import_subscription(self) -> AsyncIterator[str]:
        """Move the subscription from the owner to the pool; yield a line for each topic.

        Raises:
            ToolError: neither has it, it has consumers, or the change is refused.
            RelayError: the admin API does not answer.
        """
        moved = []
        for topic in self._topics:
            at_owner = await self._cursors.admin.describe(topic, self._name) is not None
            if at_owner or await self._cursors.find(topic, self._name) is not None:
                moved.append((topic, at_owner))
        if not moved:
            raise ToolError(f"the owner of {_listed(self._topics)} has no subscription {self._name}")
        for topic, at_owner in moved:
            before = await self._cursors.find(topic, self._name)
            if not at_owner and before is not None and migration_of(before.definition) is None:
                yield f"{topic}: already imported, mark-delete position {before.mark_delete}"
                continue
            async with self._pool.consumer(topic, self._name, LocalRequest.IMPORT):
                found = await self._cursors.find(topic, self._name)
            if found is None or migration_of(found.definition) is not None:
                raise self._wrong_pool(topic, "nothing was imported")
            yield f"{topic}: imported, mark-delete position {found.mark_delete}"

    async def give_back(self) -> AsyncIterator[str]:
        """Move the subscription from the pool to the owner; yield a line for each topic.

        Raises:
            ToolError: neither has it, it has consumers, or the change is refused.
            RelayError: the admin API does not answer.
        """
        moved = []
        for topic in self._topics:
            at_owner = await self._cursors.admin.describe(topic, self._name) is not None
            found = await self._cursors.find(topic, self._name)
            if at_owner or found is not None:
                moved.append((topic, at_owner, found))
        if all(found is None for _, _, found in moved) and not any(at_owner for _, at_owner, _ in moved):
            raise self._missing()
        for topic, at_owner, found in moved:
            if found is None:
                yield f"{topic}: already at the owner"
                continue
            if at_owner and migration_of(found.definition) is not LocalRequest.EXPORT:
                raise self._both(topic, found)
            async with self._pool.consumer(topic, self._name, LocalRequest.EXPORT) as consumer:
                left = await self._cursors.find(topic, self._name)
                if left is not None and not at_owner:
                    await self._pool.answer(topic, consumer.unsubscribe())  # this consumer has created it
            if left is not None:
                raise self._wrong_pool(topic, "nothing was exported")
            yield f"{topic}: exported"

    async def _existing(self) -> list[TopicName]:
        """Return the topics with the local subscription.

        Raises:
            ToolError: there is none, or one that another migration must finish first.
        """
        found = {topic: await self._cursors.find(topic, self._name) for topic in self._topics}
        existing = {topic: cursor for topic, cursor in found.items() if cursor is not None}
        if not existing:
            raise self._missing()
        for topic, cursor in existing.items():
            if await self._cursors.admin.describe(topic, self._name) is not None:
                raise self._both(topic, cursor)
        return list(existing)

    async def _check_pool(self, topic: TopicName, consumer: Consumer) -> None:
        """Check that a consumer is not at the owner.

        Raises:
            ToolError: it is, so the pool does not keep the subscription.
        """
        if await self._cursors.admin.describe(topic, self._name) is not None:
            await self._pool.answer(topic, consumer.unsubscribe())  # this consumer has created it
            raise self._wrong_pool(topic, "nothing was changed")

    def _missing(self) -> ToolError:
        return ToolError(
            f"the pool keeps no subscription {self._name} of {_listed(self._topics)}; `pulsar-readonly subscriptions ls` lists"
            " those that it keeps"
        )

    def _both(self, topic: TopicName, cursor: LocalCursor) -> ToolError:
        migration = migration_of(cursor.definition)
        if migration is not None:
            word = migration.word
            return ToolError(
                f"the {word} of subscription {self._name} is not finished: run `pulsar-readonly subscriptions {word} {topic}"
                f" {self._name}` first"
            )
        return ToolError(
            f"the pool and the owner of {topic} each have a subscription {self._name}: delete the owner's by pulsar-admin, if it"
            " is not needed"
        )

    def _wrong_pool(self, topic: TopicName, outcome: str) -> ToolError:
        return ToolError(
            f"--pool-service-url is not that of a pool that keeps the subscriptions of {topic}: {outcome}; give the URL of the "
            "pool of --pool"
        )


def _listed(topics: Sequence[TopicName]) -> str:
    return str(topics[0]) if len(topics) == 1 else f"{topics[0].base} ({len(topics)} partitions)"
