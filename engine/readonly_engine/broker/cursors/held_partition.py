"""The local subscriptions of one partition that this broker has: their cursors, consumers and guards."""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from readonly_engine.broker.cursors.guard_keeper import GuardKeeper
from readonly_engine.broker.cursors.local_requests import (
    LocalRequest,
    check_migratable,
    migration_of,
    request_of,
)
from readonly_engine.broker.cursors.local_subscription import LocalSubscription
from readonly_engine.broker.cursors.migration import Migration
from readonly_engine.broker.cursors.partition import CursorPartition, end_all, non_durable_cursor
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError, RelayError
from readonly_engine.owner.single_flight import SingleFlight
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe, ServerError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from contextlib import AbstractAsyncContextManager

    from readonly_engine.broker.cursors.guard_policies import GuardPolicies
    from readonly_engine.broker.cursors.owner_access import Authorized, OwnerAccess
    from readonly_engine.broker.cursors.owner_names import OwnerSubscriptionNames
    from readonly_engine.broker.cursors.partition import PartitionConsumer
    from readonly_engine.broker.cursors.store import CursorStore
    from readonly_engine.broker.cursors.topic_cursors import TopicCursors
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.consumer_events import OwnerCursorState
    from readonly_engine.owner.cursor_admin import CursorAdmin
    from readonly_engine.topic.position import Position

log = logging.getLogger(__name__)

_EXISTING: Final = frozenset({LocalRequest.EXISTING, LocalRequest.FORCE})


class HeldPartition(CursorPartition):
    """The local subscriptions of one partition.

    Args:
        store: stores the cursors; it is open.
        admin: asks and moves subscriptions at owners.
        access: asks owners whether clients may consume.
        owner_names: knows the durable subscriptions at owners.
        guard: name of the subscriptions that hold the retention at owners.
        is_bound: returns whether a binding covers a topic.
        was_deleted: returns whether a topic was deleted since its stored subscriptions were made (TopicDeletions).
        is_held: returns whether no other broker can have the partition now (GuardKeeper).
        policies_of: returns what the owner does to the guards of a topic (GuardPolicySource).

    Attributes:
        store: as above.
        admin: as above.
        access: as above.
        guards: the guards.
    """

    def __init__(
        self,
        store: CursorStore,
        admin: CursorAdmin,
        access: OwnerAccess,
        owner_names: OwnerSubscriptionNames,
        guard: str,
        is_bound: Callable[[TopicName], bool],
        was_deleted: Callable[[TopicName, TopicCursors], Awaitable[bool]],
        is_held: Callable[[], bool],
        policies_of: Callable[[TopicName], Awaitable[GuardPolicies | None]],
    ) -> None:
        super().__init__(store, access)
        self.admin = admin
        self.access: OwnerAccess = access
        self.guards = GuardKeeper(
            admin, guard, store, self._expire, self.forget_if_deleted, is_bound, is_held, policies_of
        )
        self._was_deleted = was_deleted
        self._comparing: SingleFlight[bool] = SingleFlight()
        self._owner_names = owner_names
        self._migration = Migration(store, admin, access, self.guards)
        self._migrating: set[tuple[TopicName, str]] = set()
        self._migrations = 0
        self._creating: Counter[tuple[TopicName, str]] = Counter()

    async def position_at(self, topic: TopicName, publish_ms: int) -> Position:
        """Return the position of the first message of a publish time or a later one, according to the owner.

        Raises:
            RelayError: the admin API does not answer.
        """
        return await self.admin.position_at(topic, publish_ms)

    def _retained(self, topic: TopicName, mark_delete: Position) -> AbstractAsyncContextManager[None]:
        return self.guards.retained(topic, mark_delete)

    # Consumers

    async def subscribe(self, consumer: PartitionConsumer) -> LocalSubscription:
        """Add a consumer to its subscription, which is created if necessary; `leave` must follow.

        Raises:
            RelayError: the owner or the subscription refuses the consumer, or the owner does not answer.
            CursorStoreError: the subscription cannot be stored here.
        """
        subscribe, topic = consumer.subscribe_command, consumer.topic
        request = request_of(subscribe)
        if request in {LocalRequest.IMPORT, LocalRequest.EXPORT}:
            return await self._migrate(consumer, subscribe, request)
        await self._finish_migration(topic, subscribe)
        await self._await_expected(topic, subscribe.subscription, consumer.as_local())
        state = await self._authorize(consumer, subscribe)
        if not self._followed[topic]:
            await self._comparing.run(topic, lambda: self.forget_if_deleted(topic))
        found = self._find(topic, subscribe)
        if found is None:
            if request in _EXISTING:
                raise OwnerRefusedError(
                    ServerError.NotAllowedError,
                    f"this pool keeps no subscription {subscribe.subscription} of {topic}",
                )
            if state is None:
                # It was deleted meanwhile, maybe with its topic. After "try again" the client for C++ and Python (3.13.0) would
                # wait for its timeout: it ignores its own second attempt, because the connection is still there.
                state = await self._authorize(consumer, subscribe)
            if state is None:
                raise OwnerUnavailableError(f"subscription {subscribe.subscription} was deleted meanwhile; try again")
            start = state.last if state.mark_delete is None else state.mark_delete
            return await self._create(consumer, subscribe, start)
        self._check_open()
        self._check_settled(topic, subscribe.subscription)
        self._set_properties(found, subscribe)
        return self._join(found, consumer) if request is LocalRequest.FORCE else self._add(found, consumer)

    async def _authorize(self, consumer: PartitionConsumer, subscribe: CommandSubscribe) -> OwnerCursorState | None:
        """Check at the owner that a client may consume (OwnerAccess.subscribe)."""
        new = self._find(consumer.topic, subscribe) is None
        try:
            return await self.access.subscribe(consumer, new=new)
        except OwnerRefusedError as error:
            if not new and error.code == ServerError.ConsumerBusy:
                # The owner has a Reader of the same name. It authorizes a client before it looks for others (ServerCnx).
                return None
            if new and error.code == ServerError.NotAllowedError:
                await self._owner_names.check(consumer.topic, subscribe.subscription)  # its text has the remedy
            raise

    async def _create(
        self, consumer: PartitionConsumer, subscribe: CommandSubscribe, start: Position
    ) -> LocalSubscription:
        key = consumer.topic, subscribe.subscription
        self._creating[key] += 1
        try:
            return await self._create_unless_at_owner(consumer, subscribe, start)
        finally:
            self._creating[key] -= 1
            if not self._creating[key]:
                del self._creating[key]

    async def _create_unless_at_owner(
        self, consumer: PartitionConsumer, subscribe: CommandSubscribe, start: Position
    ) -> LocalSubscription:
        topic, name = consumer.topic, subscribe.subscription
        migrations = self._migrations
        if not self.guards.has(topic):
            self._owner_names.forget(topic)  # without a guard nobody asked here before the owner got one of this name
        await self._owner_names.check(topic, name)
        if migrations != self._migrations:
            raise OwnerUnavailableError("a subscription was migrated meanwhile, maybe this one; try again")
        async with self.guards.retained(topic, start):
            self._check_open()
            self._check_settled(topic, name)
            found = self._find(topic, subscribe) or self._new(topic, subscribe, start)
            found = self._add(found, consumer)
            try:
                await self.store.wait_stored(found.acked())
            except BaseException:
                self.leave(consumer, found)
                raise
        return found

    async def check_absent(self, asker: Authorized) -> None:
        """Check that there is no local cursor of a subscription, which a consumer wants to have at the owner.

        Raises:
            OwnerRefusedError: there is one; or the owner does not authorize the client to know that.
            OwnerUnavailableError: it is being migrated or created, or the owner does not answer.
        """
        topic, name = asker.topic, asker.subscribe_command.subscription
        self._check_open()
        self._check_settled(topic, name)
        if self.store.find(str(topic), name) is None:
            if (topic, name) in self._creating:
                raise OwnerUnavailableError(f"subscription {name} of {topic} is being created; try again")
            self._owner_names.forget(topic)  # the owner will have it
            return
        if await self._comparing.run(topic, lambda: self.forget_if_deleted(topic)):
            return
        await self.access.subscribe(asker, new=False)
        raise OwnerRefusedError(
            ServerError.NotAllowedError,
            f"this pool has a local cursor of subscription {name} of {topic}, and the owner has no such subscription: a new one"
            f" there would not begin where it stands. Move it: pulsar-readonly subscriptions export {topic} {name}; or delete"
            f" it: pulsar-readonly subscriptions delete {topic} {name}",
        )

    # Migrations

    async def _migrate(
        self, consumer: PartitionConsumer, subscribe: CommandSubscribe, request: LocalRequest
    ) -> LocalSubscription:
        """Move a subscription from its owner to here, or back. After an export, its consumer has a cursor that is not stored.

        Raises:
            RelayError: the subscription cannot be moved now, or the owner refuses the client.
            CursorStoreError: a change cannot be stored here.
        """
        topic, name = consumer.topic, subscribe.subscription
        check_migratable(subscribe)
        self._check_open()
        with self._unsettled(topic, name):
            if request is LocalRequest.IMPORT:
                cursor = await self._migration.import_subscription(consumer)
                found = LocalSubscription(topic, cursor, self.store.of(str(topic)), self.store)
            else:
                mark_delete = await self._migration.give_back(consumer)
                found = LocalSubscription(topic, non_durable_cursor(name, mark_delete), None, self.store)
            return self._add(found, consumer)

    async def _finish_migration(self, topic: TopicName, subscribe: CommandSubscribe) -> None:
        """Finish the migration of a subscription, if only its mark is left of it (Migration.finish)."""
        cursor = self.store.find(str(topic), subscribe.subscription)
        if cursor is None or migration_of(cursor.definition) is None:
            return
        with self._unsettled(topic, subscribe.subscription):
            await self._migration.finish(topic, cursor)

    @contextmanager
    def _unsettled(self, topic: TopicName, name: str) -> Iterator[None]:
        """Keep consumers and migrations of a subscription away.

        Raises:
            OwnerRefusedError: it has consumers.
            OwnerUnavailableError: it is being migrated.
        """
        key = (topic, name)
        self._check_settled(topic, name)
        if key in self._subscriptions:
            raise OwnerRefusedError(
                ServerError.ConsumerBusy,
                f"the pool has consumers of subscription {name} of {topic}: close them, then try again",
            )
        self._migrating.add(key)
        try:
            yield
        finally:
            self._migrating.discard(key)
            self._migrations += 1
            self._owner_names.forget(topic)

    def _check_settled(self, topic: TopicName, name: str) -> None:
        if (topic, name) in self._migrating:
            raise OwnerUnavailableError(f"subscription {name} of {topic} is being migrated; try again")

    # Cursors

    async def forget_if_deleted(self, topic: TopicName) -> bool:
        """Forget the subscriptions of a topic and its guard, as its owner does, if it was deleted; return whether it was.

        It may have been created again meanwhile. The next look at the guard asks again if that is not known, or if a
        subscription of the topic is being migrated.
        """
        cursors = self.store.of(str(topic))
        if any(one == topic for one, _ in self._migrating):
            return False
        try:
            if not await self._was_deleted(topic, cursors):
                if cursors.has_changes:
                    self.store.changed(cursors)
                return False
        except (RelayError, MetadataError, WireError) as error:
            log.warning("cannot find out whether a topic was deleted: topic=%s error=%s", topic, error)
            return False
        log.info("topic was deleted, and its local subscriptions: topic=%s subscriptions=%d", topic, len(cursors))
        members = []
        for key in [key for key in self._subscriptions if key[0] == topic]:
            found = self._subscriptions.pop(key)
            found.forget()
            members += found.members
        for cursor in list(cursors):
            cursor.served = None
            cursors.delete(cursor)
        self.store.changed(cursors)
        self.guards.forget(topic)
        self._owner_names.forget(topic)
        await end_all(members, "the topic was deleted")
        return True

    def _expire(self, topic: str, mark_delete: Position) -> None:
        """Move the cursors that are before the position to which the owner has moved their guard."""
        cursors = self.store.of(topic)
        served = {one.cursor: one for one in self._subscriptions.values() if str(one.topic) == topic}
        for cursor in cursors:
            one = served.get(cursor)
            if one is not None and one.served is not None:
                if one.mark_delete < mark_delete:
                    one.expire(mark_delete)
            else:
                cursors.expire(cursor, mark_delete)
        self.store.changed(cursors)

    # The end

    async def end(self, reason: str) -> None:
        """Close all consumers, then store their cursors, so that another broker can have the partition."""
        self.guards.close()
        await super().end(reason)
