"""Moves a subscription without consumers from its owner to this pool (import), or back (export).

A migration may end after any step, with its broker or with its client, and is then repeated from its begin:

- Import: the local cursor is stored with a mark, as a copy of the owner's. Then the owner's subscription is deleted, then the
  mark. While both exist, the owner's cursor is the valid one, and the local cursor is copied again.
- Export: the local cursor gets a mark. Then its acks are sent to the owner's subscription, then the local cursor is deleted.
  Acks only add to what the owner's subscription has acked meanwhile, so nothing is lost or skipped.

Nobody consumes from a marked local cursor. At the owner, an Exclusive consumer keeps all others away meanwhile. It has no
permits, and ends when the owner closes it: then the migration fails, and nothing is deleted.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from itertools import islice
from typing import TYPE_CHECKING, Final

from readonly_engine.broker.cursors.coverage import Ledgers, covers, up_to
from readonly_engine.broker.cursors.local_requests import LocalRequest, marked, migration_of, own_properties
from readonly_engine.broker.cursors.topic_cursors import CursorLimitError
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.wire.bit_set import words_of
from readonly_engine.wire.cursor_records import MAX_RANGES, MAX_SEGMENTS
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandSubscribe,
    CommandUnsubscribe,
    ServerError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from readonly_engine.broker.cursors.guard_keeper import GuardKeeper
    from readonly_engine.broker.cursors.local_cursor import LocalCursor
    from readonly_engine.broker.cursors.owner_access import Authorized, OwnerAccess
    from readonly_engine.broker.cursors.store import CursorStore
    from readonly_engine.broker.cursors.topic_cursors import TopicCursors
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.consumer import OwnerConsumer
    from readonly_engine.owner.cursor_admin import AckedState, CursorAdmin
    from readonly_engine.topic.position import Position

MAX_ACKED_RANGES: Final = MAX_RANGES * MAX_SEGMENTS
"""Ranges of an imported subscription: what the records of one subscription can store."""

MAX_ACKED_ENTRIES: Final = 1_000_000
"""Entries after the mark-delete position that an export acks one by one."""

ACK_ENTRIES: Final = 1_000
"""Entries in one ACK of an export."""

ACKS_UNDER_WAY: Final = 10
"""ACKs of an export that are sent together."""

COPIES: Final = 5
"""Copies of an owner's cursor that an administrator moves meanwhile, before the import is refused."""

CHECKS: Final = 20
CHECK_INTERVAL_S: Final = 0.1
"""Number of checks whether the owner has applied the acks of an export, and their interval."""


class Migration:
    """The migrations of one partition's subscriptions. The caller keeps consumers and other migrations of the subscription away.

    Args:
        store: stores the local cursors.
        admin: asks owners where subscriptions are.
        access: asks owners, with the credentials of clients.
        guards: hold the retention for local cursors.
    """

    def __init__(self, store: CursorStore, admin: CursorAdmin, access: OwnerAccess, guards: GuardKeeper) -> None:
        self._store = store
        self._admin = admin
        self._access = access
        self._guards = guards

    # Import

    async def import_subscription(self, consumer: Authorized) -> LocalCursor:
        """Move a subscription from its owner to the pool; return its cursor.

        Raises:
            RelayError: the subscription cannot be moved now, or the owner refuses the client.
            CursorStoreError: the cursor cannot be stored here.
        """
        topic, name = consumer.topic, consumer.subscribe_command.subscription
        described = await self._admin.describe(topic, name)
        cursor = self._store.find(str(topic), name)
        if described is None:
            await self._access.subscribe(consumer, new=False)
            if cursor is None or migration_of(cursor.definition) is LocalRequest.EXPORT:
                raise _missing(f"the owner of {topic} has no subscription {name}")
            return await self._unmark(self._store.of(str(topic)), cursor)
        if cursor is not None and migration_of(cursor.definition) is not LocalRequest.IMPORT:
            raise _both(topic, name, cursor)
        if described.replicated:
            raise OwnerRefusedError(
                ServerError.NotAllowedError,
                f"the state of subscription {name} of {topic} is replicated to other clusters, so its owner must keep it",
            )
        properties = marked(described.properties, LocalRequest.IMPORT)
        async with self._at_owner(consumer, CommandSubscribe()) as owner:
            copied: tuple[tuple[Position, Position], ...] | None = None
            for _ in range(COPIES):
                state = await self._state(topic, name)
                if state.ranges == copied:
                    break
                await self._copy(topic, name, state, properties)
                copied = state.ranges
            else:
                raise OwnerUnavailableError(
                    f"the cursor of subscription {name} of {topic} moves at its owner; try again"
                )
            _check(await owner.request(BaseCommand(type=BaseCommand.UNSUBSCRIBE, unsubscribe=CommandUnsubscribe())))
        cursor = self._store.find(str(topic), name)
        if cursor is None:
            raise OwnerUnavailableError(f"subscription {name} of {topic} was deleted meanwhile")
        return await self._unmark(self._store.of(str(topic)), cursor)

    async def _copy(
        self, topic: TopicName, name: str, state: AckedState, properties: tuple[tuple[str, str], ...]
    ) -> None:
        """Store an owner's cursor as the local one."""
        (_, mark_delete), *ranges = state.ranges
        if len(ranges) > MAX_ACKED_RANGES:
            raise OwnerRefusedError(
                ServerError.NotAllowedError,
                f"subscription {name} of {topic} has {len(ranges):,} acked ranges, a local one at most {MAX_ACKED_RANGES:,}: let"
                " its consumers ack the messages between them first",
            )
        async with self._guards.retained(topic, mark_delete):
            cursors = self._store.of(str(topic))
            cursor = cursors.find(name)
            try:
                if cursor is None:
                    cursor = cursors.create(name, mark_delete, time.time_ns() // 1_000_000, properties)
                else:
                    cursors.set_properties(cursor, properties)
            except CursorLimitError as error:
                raise OwnerRefusedError(ServerError.NotAllowedError, str(error)) from error
            cursors.reset(cursor, mark_delete, ranges=ranges)
            await self._store.wait_stored(self._store.changed(cursors))

    async def finish(self, topic: TopicName, cursor: LocalCursor) -> LocalCursor:
        """Let a subscription with a mark have consumers again, if the owner has none of its name.

        Raises:
            OwnerRefusedError: the owner has one, so the migration must be repeated.
            OwnerUnavailableError: the admin API does not answer.
            CursorStoreError: the cursor cannot be stored here.
        """
        migration = migration_of(cursor.definition)
        if migration is None:
            return cursor
        if await self._admin.describe(topic, cursor.name) is not None:
            raise OwnerRefusedError(ServerError.NotAllowedError, _unfinished(topic, cursor.name, migration))
        return await self._unmark(self._store.of(str(topic)), cursor)

    # Export

    async def give_back(self, consumer: Authorized) -> Position:
        """Move a subscription from the pool to its owner; return its mark-delete position.

        Raises:
            RelayError: the subscription cannot be moved now, or the owner refuses the client.
            CursorStoreError: the change cannot be stored here.
        """
        topic, name = consumer.topic, consumer.subscribe_command.subscription
        described = await self._admin.describe(topic, name)
        if described is None:
            await self._access.subscribe(consumer, new=False)
        cursors = self._store.of(str(topic))
        cursor = cursors.find(name)
        if cursor is None:
            raise _missing(f"this pool keeps no subscription {name} of {topic}")
        migration = migration_of(cursor.definition)
        if described is not None and migration is not LocalRequest.EXPORT:
            raise _both(topic, name, cursor)
        if migration is not LocalRequest.EXPORT:
            cursors.set_properties(cursor, marked(cursor.definition.properties, LocalRequest.EXPORT))
            await self._store.wait_stored(self._store.changed(cursors))
        subscribe = CommandSubscribe()
        for key, value in own_properties(cursor.definition.properties):
            subscribe.subscription_properties.add(key=key, value=value)
        cursor.refresh()
        async with self._at_owner(consumer, subscribe) as owner:
            await self._ack(owner, topic, cursor)
            if cursors.find(name) is not cursor:
                raise OwnerUnavailableError(f"subscription {name} of {topic} was deleted meanwhile")
            cursors.delete(cursor)
            await self._store.wait_stored(self._store.changed(cursors))
        return cursor.mark_delete

    async def _ack(self, owner: OwnerConsumer, topic: TopicName, cursor: LocalCursor) -> None:
        """Ack everything at the owner that a local cursor has acked, and check that the owner has it."""
        acked = (up_to(cursor.mark_delete), *cursor.ranges)
        state = await self._state(topic, cursor.name)
        ledgers = Ledgers(state.ledgers)
        count = ledgers.count_in(cursor.ranges)
        if count > MAX_ACKED_ENTRIES:
            raise OwnerRefusedError(
                ServerError.NotAllowedError,
                f"subscription {cursor.name} of {topic} has acked {count:,} entries after its mark-delete position"
                f" {cursor.mark_delete}, and at most {MAX_ACKED_ENTRIES:,} can be exported: let its consumers ack the messages"
                " between them first",
            )
        acks = acks_of(ledgers, cursor)
        while some := list(islice(acks, ACKS_UNDER_WAY)):
            sends = [owner.request(BaseCommand(type=BaseCommand.ACK, ack=ack)) for ack in some]
            for answer in await asyncio.gather(*sends):
                _check(answer)
        for _ in range(CHECKS):
            state = await self._state(topic, cursor.name)
            if covers(Ledgers(state.ledgers), state.ranges, acked):
                return
            await asyncio.sleep(CHECK_INTERVAL_S)
        raise OwnerUnavailableError(
            f"the owner of {topic} has not applied all acks of subscription {cursor.name}; try again"
        )

    # Both

    async def _unmark(self, cursors: TopicCursors, cursor: LocalCursor) -> LocalCursor:
        if migration_of(cursor.definition) is not None:
            cursors.set_properties(cursor, own_properties(cursor.definition.properties))
            await self._store.wait_stored(self._store.changed(cursors))
        return cursor

    async def _state(self, topic: TopicName, name: str) -> AckedState:
        state = await self._admin.acked(topic, name)
        if state is None:
            raise OwnerUnavailableError(f"the owner of {topic} has no subscription {name} any more; try again")
        return state

    @asynccontextmanager
    async def _at_owner(self, consumer: Authorized, subscribe: CommandSubscribe) -> AsyncIterator[OwnerConsumer]:
        """Keep all consumers of a subscription away at its owner. A subscription that does not exist begins at the first message.

        Args:
            consumer: the client's consumer, whose credentials count.
            subscribe: further fields of the SUBSCRIBE.
        """
        asked = consumer.subscribe_command
        subscribe.topic, subscribe.subscription = asked.topic, asked.subscription
        subscribe.consumer_id = subscribe.request_id = 0
        subscribe.consumer_name = asked.consumer_name
        subscribe.sub_type = CommandSubscribe.Exclusive
        subscribe.initial_position = CommandSubscribe.Earliest
        subscribe.force_topic_creation = False
        owner = self._access.consumer_at_owner(consumer, subscribe)
        try:
            await owner.subscribe()
        except OwnerRefusedError as error:
            if error.code != ServerError.ConsumerBusy:
                raise
            raise OwnerRefusedError(
                error.code,
                f"the owner of {consumer.topic} has consumers of subscription {asked.subscription}: close them, then try again",
            ) from error
        try:
            yield owner
        finally:
            await owner.close()


def acks_of(ledgers: Ledgers, cursor: LocalCursor) -> Iterator[CommandAck]:
    """Yield the acks of everything that a local cursor has acked."""
    last = ledgers.last_entry(cursor.mark_delete)
    if last is not None and cursor.mark_delete.ledger_id >= 0:
        ack = CommandAck(ack_type=CommandAck.Cumulative)
        ack.message_id.add(ledger_id=last.ledger_id, entry_id=last.entry_id)
        yield ack
    entries = (entry for lower, upper in cursor.ranges for entry in ledgers.entries_in(lower, upper))
    while some := list(islice(entries, ACK_ENTRIES)):
        ack = CommandAck(ack_type=CommandAck.Individual)
        for entry in some:
            ack.message_id.add(ledger_id=entry.ledger_id, entry_id=entry.entry_id)
        yield ack
    yield from _batch_acks(cursor.batches)


def _batch_acks(batches: Iterable[tuple[Position, int]]) -> Iterator[CommandAck]:
    left = iter(batches)
    while some := list(islice(left, ACK_ENTRIES)):
        ack = CommandAck(ack_type=CommandAck.Individual)
        for position, unacked in some:
            ack.message_id.add(ledger_id=position.ledger_id, entry_id=position.entry_id, ack_set=words_of(unacked))
        yield ack


def _check(answer: BaseCommand) -> None:
    if answer.type == BaseCommand.ERROR:
        raise OwnerRefusedError(answer.error.error, answer.error.message)
    if answer.type == BaseCommand.ACK_RESPONSE and answer.ack_response.HasField("error"):
        raise OwnerRefusedError(answer.ack_response.error, answer.ack_response.message)


def _missing(text: str) -> OwnerRefusedError:
    return OwnerRefusedError(ServerError.NotAllowedError, text)  # which stock clients do not retry


def _unfinished(topic: TopicName, name: str, migration: LocalRequest) -> str:
    return (
        f"the {migration.word} of subscription {name} is not finished: run"
        f" `pulsar-readonly subscriptions {migration.word} {topic} {name}` again"
    )


def _both(topic: TopicName, name: str, cursor: LocalCursor) -> OwnerRefusedError:
    migration = migration_of(cursor.definition)
    text = f"this pool and the owner of {topic} each have a subscription {name}: delete the one that is not needed"
    if migration is not None:
        text = _unfinished(topic, name, migration)
    return OwnerRefusedError(ServerError.NotAllowedError, text)
