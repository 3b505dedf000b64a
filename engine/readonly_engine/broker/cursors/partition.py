"""The local subscriptions of one partition, whatever their clients are asked for and whatever holds the retention for them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from contextlib import nullcontext
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol

from readonly_engine.broker.cursors.consumers import ConsumerAssignError, ConsumerBusyError
from readonly_engine.broker.cursors.expected_consumers import ARRIVAL_S, ExpectedConsumers
from readonly_engine.broker.cursors.local_cursor import LocalCursor
from readonly_engine.broker.cursors.local_requests import own_properties
from readonly_engine.broker.cursors.local_subscription import LocalSubscription, Member
from readonly_engine.broker.cursors.owner_access import Authorized
from readonly_engine.broker.cursors.store import CursorStoreError
from readonly_engine.broker.cursors.topic_cursors import CursorLimitError
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError, RelayError
from readonly_engine.waiting import await_shared
from readonly_engine.wire.cursor_records import SubscriptionDefinition
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandSubscribe, ServerError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from contextlib import AbstractAsyncContextManager

    from readonly_engine.broker.cursors.consumers import LocalConsumer
    from readonly_engine.broker.cursors.store import CursorStore
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.connection import OwnerConnection
    from readonly_engine.owner.identity import Identity
    from readonly_engine.topic.position import Position

log = logging.getLogger(__name__)

POLL_INTERVAL_S: Final = 0.05
"""Interval between checks for an expected consumer."""

_NUMBERS: Final = count(1)


def non_durable_cursor(name: str, start: Position) -> LocalCursor:
    """Return a cursor that is stored nowhere."""
    return LocalCursor(0, SubscriptionDefinition(0, name, 0, start, 0, ()))


def properties_of(subscribe: CommandSubscribe) -> tuple[tuple[str, str], ...]:
    """Return the application's properties of a subscription."""
    return own_properties((item.key, item.value) for item in subscribe.subscription_properties)


async def end_all(members: Iterable[Member], reason: str) -> None:
    """End consumers; let other clients have their turn meanwhile."""
    for number, member in enumerate(members):
        member.end(reason)
        if number % 1000 == 999:
            await asyncio.sleep(0)


class PartitionConsumer(Authorized, Member, Protocol):
    """A consumer of a subscription in the partition."""

    def as_local(self) -> LocalConsumer:
        """Return the consumer as the subscription's rules know it."""


class Access(Protocol):
    """Decides about the consumers of a partition, and knows the topic's end."""

    async def begin_at(self, consumer: Authorized, position: Position) -> Position:
        """Return the mark-delete position of a cursor that reads a position next, or the nearest one that exists.

        Raises:
            RelayError: the client may not consume, or that is not known now.
        """

    async def last(self, consumer: Authorized) -> BaseCommand:
        """Return the answer to GET_LAST_MESSAGE_ID, which others may share.

        Raises:
            RelayError: the client may not consume, or that is not known now.
        """

    def connection(self, topic: TopicName, identity: Identity) -> OwnerConnection | None:
        """Return a client's connection to a topic's owner; None without one."""

    def add(self, consumer: Authorized) -> None:
        """Follow the rights of a consumer until `remove`."""

    def remove(self, consumer: Authorized) -> bool:
        """Forget a consumer; return whether it was added."""


class CursorPartition:
    """The local subscriptions of one partition.

    Args:
        store: stores the cursors; it is open.
        access: decides about consumers.

    Attributes:
        store: as above.
        access: as above.
    """

    def __init__(self, store: CursorStore, access: Access) -> None:
        self.store = store
        self.access = access
        self._followed: Counter[TopicName] = Counter()  # consumers of each topic; their broker watches it
        self._subscriptions: dict[tuple[TopicName, str], LocalSubscription] = {}
        self._expected = ExpectedConsumers()
        self._changes: set[asyncio.Task[None]] = set()

    @staticmethod
    def next_number() -> int:
        """Return the number of a new consumer."""
        return next(_NUMBERS)

    @property
    def subscriptions(self) -> list[LocalSubscription]:
        """The subscriptions with consumers."""
        return list(self._subscriptions.values())

    async def subscribe(self, consumer: PartitionConsumer) -> LocalSubscription:
        """Add a consumer to its subscription, which is created if necessary; `leave` must follow.

        Raises:
            RelayError: the consumer is refused, or that cannot be decided now.
            CursorStoreError: the subscription cannot be stored here.
        """
        raise NotImplementedError

    async def position_at(self, topic: TopicName, publish_ms: int) -> Position:
        """Return the position of the first message of a publish time or a later one.

        Raises:
            RelayError: it is not known now.
        """
        raise NotImplementedError

    def _retained(self, topic: TopicName, mark_delete: Position) -> AbstractAsyncContextManager[None]:
        """Return a context in which nothing after a position is deleted."""
        raise NotImplementedError

    async def forget_if_deleted(self, topic: TopicName) -> bool:
        """Forget the subscriptions of a topic if it was deleted; return whether it was."""
        raise NotImplementedError

    async def check_absent(self, asker: Authorized) -> None:
        """Check that there is no local cursor of a subscription, which a consumer wants to have at the owner.

        Raises:
            RelayError: there is one, or that is not known now.
        """
        raise NotImplementedError

    # Consumers

    def _new(self, topic: TopicName, subscribe: CommandSubscribe, start: Position) -> LocalSubscription:
        cursors = self.store.of(str(topic))
        properties = properties_of(subscribe)
        try:
            cursor = cursors.create(subscribe.subscription, start, time.time_ns() // 1_000_000, properties)
        except CursorLimitError as error:
            raise OwnerRefusedError(ServerError.NotAllowedError, str(error)) from error
        return LocalSubscription(topic, cursor, cursors, self.store)

    def _find(self, topic: TopicName, subscribe: CommandSubscribe) -> LocalSubscription | None:
        """Return a subscription with consumers, or a stored one; None if it does not exist."""
        name = subscribe.subscription
        found = self._subscriptions.get((topic, name))
        cursor = self.store.find(str(topic), name)
        if found is None and cursor is not None:
            found = LocalSubscription(topic, cursor, self.store.of(str(topic)), self.store)
        return found

    def _check_open(self) -> None:
        if self.store.lost:
            raise CursorStoreError(self.store.lost)

    def _set_properties(self, found: LocalSubscription, subscribe: CommandSubscribe) -> None:
        """Set the properties of a subscription that has none, as PersistentTopic.getDurableSubscription does."""
        properties = properties_of(subscribe)
        if properties and not found.cursor.definition.properties:
            cursors = self.store.of(str(found.topic))
            try:
                cursors.set_properties(found.cursor, properties)
            except CursorLimitError as error:
                raise OwnerRefusedError(ServerError.NotAllowedError, str(error)) from error
            self.store.changed(cursors)

    def _add(self, found: LocalSubscription, consumer: PartitionConsumer) -> LocalSubscription:
        """Add a consumer to a subscription, or to that of the same name which has consumers; return this one."""
        key, added = (found.topic, found.cursor.name), consumer.as_local()
        if not self._expected.admits(key, added, time.monotonic()):
            raise OwnerUnavailableError(f"a redirected consumer of {found.topic} is reserved for 5 s; try again")
        found = self._subscriptions.setdefault(key, found)
        try:
            found.add(consumer, added)
        except (ConsumerBusyError, ConsumerAssignError) as error:
            if not found.members:
                del self._subscriptions[key]
            busy = isinstance(error, ConsumerBusyError)
            code = ServerError.ConsumerBusy if busy else ServerError.ConsumerAssignError
            raise OwnerRefusedError(code, str(error)) from error
        self._expected.arrived(key, added.name)
        self.access.add(consumer)
        self._followed[found.topic] += 1
        return found

    def _join(self, found: LocalSubscription, consumer: PartitionConsumer) -> LocalSubscription:
        """Return the subscription for a consumer that changes it, and is none of its members."""
        found = self._subscriptions.get((found.topic, found.cursor.name), found)
        kind = found.consumers.kind
        if kind not in {None, consumer.as_local().kind}:
            raise OwnerRefusedError(ServerError.ConsumerBusy, "the consumers of the subscription have another type")
        return found

    async def _await_expected(self, topic: TopicName, name: str, consumer: LocalConsumer) -> None:
        """Wait for a consumer on its way here that may exclude another one: until it has arrived, or its time is over."""
        key, until = (topic, name), time.monotonic() + ARRIVAL_S
        while True:
            now = time.monotonic()
            if now >= until or self._expected.admits(key, consumer, now):
                return
            await asyncio.sleep(POLL_INTERVAL_S)

    def expect_return(self, consumer: PartitionConsumer) -> None:
        """Keep the place of a consumer that another broker redirects here, until it has arrived."""
        key = (consumer.topic, consumer.subscribe_command.subscription)
        self._expected.expect(key, consumer.as_local(), time.monotonic())

    def leave(self, consumer: PartitionConsumer, found: LocalSubscription) -> None:
        """Remove a consumer from its subscription."""
        if self.access.remove(consumer):
            self._followed[found.topic] -= 1
            if not self._followed[found.topic]:
                del self._followed[found.topic]
        key = (found.topic, found.cursor.name)
        if found.remove(consumer) and self._subscriptions.get(key) is found:
            del self._subscriptions[key]

    # Cursors

    async def move(
        self, by: Member, found: LocalSubscription, mark_delete: Position, batches: Iterable[tuple[Position, int]]
    ) -> None:
        """Move the cursor of a subscription, and end its other consumers, whose cursor is the old one.

        Args:
            by: the consumer that asks for it; its caller ends it.
            found: the subscription.
            mark_delete: its new mark-delete position.
            batches: partly acked batches after it, with the bits of their unacked messages.

        Raises:
            RelayError: the owner does not hold the retention for it.
            CursorStoreError: it cannot be stored here.
        """
        retained = self._retained(found.topic, mark_delete)
        await self._change(retained, lambda one: one.move(mark_delete, batches), by, found, "seek")

    async def delete(self, by: Member, found: LocalSubscription) -> None:
        """Delete a subscription, and end its other consumers.

        Raises:
            RelayError: it was deleted meanwhile.
            CursorStoreError: that cannot be stored here.
        """

        async def change(present: LocalSubscription) -> None:
            self._subscriptions.pop((present.topic, present.cursor.name), None)  # the next SUBSCRIBE makes a new one
            if present is not found:
                found.forget()
            await present.delete()

        await self._change(nullcontext(), change, by, found, "unsubscribe by force")

    async def _change(
        self,
        prepared: AbstractAsyncContextManager[None],
        change: Callable[[LocalSubscription], Awaitable[None]],
        by: Member,
        found: LocalSubscription,
        reason: str,
    ) -> None:
        """Complete a change, also if the client that asks for it has gone: the others must not go on with the old cursor.

        Consumers may have left and come back while it is prepared, or may never have been those of `found`: it changes the
        subscription of the cursor as it is then.
        """

        async def complete() -> None:
            async with prepared:
                present = self._subscriptions.get((found.topic, found.cursor.name), found)
                if present.cursor is not found.cursor:
                    raise OwnerUnavailableError(f"subscription {found.cursor.name} was deleted meanwhile; try again")
                try:
                    await change(present)
                finally:
                    for member in list(present.members):
                        if member is not by:
                            member.end(reason)

        task = asyncio.get_running_loop().create_task(complete())
        self._changes.add(task)
        task.add_done_callback(self._change_done)
        await await_shared(task)

    def _change_done(self, task: asyncio.Task[None]) -> None:
        self._changes.discard(task)
        # The client may have gone: then nobody else gets the error.
        if not task.cancelled() and isinstance(task.exception(), (CursorStoreError, RelayError)):
            log.info("a change of a local subscription failed: error=%s", task.exception())

    async def end(self, reason: str) -> None:
        """Close all consumers, then store their cursors, so that another broker can have the partition."""
        await end_all([member for one in self.subscriptions for member in one.members], reason)
        await asyncio.sleep(0)
        await self.store.close()
