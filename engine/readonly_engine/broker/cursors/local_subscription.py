"""A local subscription that has consumers on this broker: who is active, where its cursor is, and what changes it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from readonly_engine.background import ends
from readonly_engine.broker.cursors.consumers import FAILOVER_DELAY_S, LocalConsumers
from readonly_engine.owner.consumer_events import OwnerCursorState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_engine.broker.cursors.consumers import LocalConsumer
    from readonly_engine.broker.cursors.local_cursor import LocalCursor, ServedCursor
    from readonly_engine.broker.cursors.store import CursorStore
    from readonly_engine.broker.cursors.topic_cursors import TopicCursors
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.topic.position import Position


class ServedSubscription(Protocol):
    """A subscription with its dispatcher."""

    @property
    def cursor(self) -> ServedCursor:
        """Its cursor."""

    @property
    def backlog(self) -> int:
        """Number of readable unacked entries."""

    def follow_owner(self, state: OwnerCursorState) -> bool:
        """Move the cursor to a mark-delete position, unless it is ahead."""


class Member(Protocol):
    """A consumer of the subscription.

    Attributes:
        number: its number.
    """

    number: int

    def active_changed(self, *, active: bool) -> None:
        """Handle that it has become active or inactive (Failover)."""

    def end(self, reason: str) -> None:
        """Close the consumer, so that its client subscribes again."""


class LocalSubscription:
    """The consumers of one local subscription, and its cursor.

    Args:
        topic: the topic.
        cursor: the cursor.
        cursors: the topic's cursors, which store it; None for one that is stored nowhere, because it was exported.
        store: stores the cursors.

    Attributes:
        topic: as above.
        cursor: as above.
        members: the consumers.
        consumers: who may subscribe, and who is active.
        served: the subscription with its dispatcher; None before and after.
    """

    __slots__ = ("_active", "_cursors", "_store", "_timer", "consumers", "cursor", "members", "served", "topic")

    def __init__(self, topic: TopicName, cursor: LocalCursor, cursors: TopicCursors | None, store: CursorStore) -> None:
        self.topic = topic
        self.cursor = cursor
        self.consumers = LocalConsumers(str(topic), topic.partition)
        self.served: ServedSubscription | None = None
        self._cursors = cursors
        self._store = store
        self.members: list[Member] = []
        self._active: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    # Consumers

    def add(self, member: Member, consumer: LocalConsumer) -> None:
        """Add a consumer. `announce` must follow.

        Raises:
            ConsumerBusyError: the consumers that are there exclude it.
        """
        self.consumers.add(consumer)
        self.members.append(member)

    def announce(self, member: Member) -> None:
        """Tell a new consumer of Failover which one is active. If that has changed, tell all, after FAILOVER_DELAY_S."""
        if self.consumers.elects:
            if self.consumers.active != self._active:
                self._change_active()
            elif self._timer is None and member in self.members:
                member.active_changed(active=member.number == self._active)

    def remove(self, member: Member) -> bool:
        """Remove a consumer, if it is there. Return whether none is left."""
        if member in self.members:
            self.members.remove(member)
            self.consumers.remove(member.number)
            if self.consumers.elects and self.consumers.active != self._active:
                self._change_active()
        return not self.members

    def _change_active(self) -> None:
        former, self._active = self._active, self.consumers.active
        for member in list(self.members):
            if member.number == former:
                member.active_changed(active=False)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(FAILOVER_DELAY_S, self._announce_all)

    @ends("_end_members")
    def _announce_all(self) -> None:
        self._timer = None
        for member in list(self.members):
            member.active_changed(active=member.number == self._active)

    def _end_members(self) -> None:
        for member in list(self.members):
            member.end("internal error")

    # The cursor

    def acked(self) -> int:
        """Store the cursor soon, which an ack changes; return the number of the commit."""
        if self._cursors is None:
            return 0
        self._cursors.acked(self.cursor)
        return self._store.changed(self._cursors)

    @property
    def mark_delete(self) -> Position:
        """Every entry up to here is acked."""
        return self.cursor.mark_delete if self.served is None else self.served.cursor.mark_delete

    def serve(self, served: ServedSubscription) -> None:
        """Take the cursor of a dispatcher from now on."""
        self.served = served
        self.cursor.served = served.cursor

    def is_served_by(self, served: ServedSubscription) -> bool:
        """Return whether acks of a dispatcher are stored: no SEEK or UNSUBSCRIBE has made its cursor void.

        The dispatcher may still be that of consumers which have just left, so `served` may be another one or None.
        """
        return self.cursor.served is served.cursor

    def release(self, served: ServedSubscription) -> None:
        """Keep the state of a dispatcher's cursor, which ends."""
        if self.served is not served:
            return
        self.served = None
        if self.cursor.served is not served.cursor:
            return  # the cursor was moved or deleted meanwhile
        if self._cursors is None:
            self.cursor.refresh()
            self.cursor.served = None
        else:
            self._cursors.released(self.cursor)
            self._store.changed(self._cursors)

    def expire(self, mark_delete: Position) -> None:
        """Move the cursor as the owner has moved its guard."""
        if self.served is not None:
            self.served.follow_owner(OwnerCursorState(mark_delete, mark_delete))
            self.acked()

    async def move(self, mark_delete: Position, batches: Iterable[tuple[Position, int]] = ()) -> None:
        """Move the cursor, and store it.

        Raises:
            CursorStoreError: it cannot be stored here any more.
        """
        if self._cursors is None:
            self.cursor.mark_delete, self.cursor.ranges, self.cursor.batches = mark_delete, (), tuple(batches)
            self.cursor.served = None
            return
        self._cursors.reset(self.cursor, mark_delete, batches)
        await self._store.wait_stored(self._store.changed(self._cursors))

    def forget(self) -> None:
        """Store no acks any more: the subscription was deleted with its topic."""
        self._cursors = None

    async def delete(self) -> None:
        """Delete the subscription.

        Raises:
            CursorStoreError: that cannot be stored here any more.
        """
        self.cursor.served = None
        cursors, self._cursors = self._cursors, None  # later acks change nothing
        if cursors is not None:
            if cursors.find(self.cursor.name) is self.cursor:
                cursors.delete(self.cursor)
            await self._store.wait_stored(self._store.changed(cursors))
