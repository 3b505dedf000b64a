"""Consumers at the end of a topic that get all that is new together: a burst goes to all of them at once.

Those who get the same bytes, each on a connection of its own, get them by one call; those who share a connection get theirs in
one piece. A consumer joins after it has had a batch alone, and stays while nothing but further bursts happens to it. What it got
meanwhile is reckoned up when somebody asks, or when it parts: for a batch little is done for each of them but the sending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from readonly_engine.broker.fanout.groups import NO_DESCRIPTOR, BroadcastGroup, ConnectionGroup
from readonly_engine.lease_guard import LeaseGuard

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.broker.fanout.groups import (
        DirectWriter,
        FanoutGroup,
        FanoutKey,
        FanoutMember,
        FanoutSubscriber,
    )
    from readonly_engine.topic.position import Position
    from readonly_engine.topic.tail_batch import TailBatch


class TopicTail(Protocol):
    """The topic: see TopicView."""

    @property
    def latest_batch(self) -> TailBatch | None:
        """What the listeners were told of last."""

    def await_notification(self, position: Position) -> bool:
        """Have the listeners called for what is readable already."""

    def listen(self, listener: Callable[[], None]) -> None:
        """Call when there is something new."""

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Call no more."""


class OwnerReadLimit(Protocol):
    """What the topic's owner lets consumers read: see TopicTransactions."""

    @property
    def guarded(self) -> bool:
        """Whether it must be asked."""


class TailFanout:
    """Those who read one topic together.

    Args:
        tail: the topic.
        owner: what its owner lets consumers read.
        guard: checks the leases under which is delivered.
    """

    def __init__(self, tail: TopicTail, owner: OwnerReadLimit, guard: LeaseGuard | None = None) -> None:
        self._guard = guard or LeaseGuard()
        self._tail = tail
        self._owner = owner
        self._broadcast_groups: dict[FanoutKey, BroadcastGroup] = {}
        self._connection_groups: dict[DirectWriter, ConnectionGroup] = {}
        self._direct_members: dict[DirectWriter, FanoutMember] = {}  # those of cohorts
        self._latest_batch: TailBatch | None = None

    def join(
        self, subscriber: FanoutSubscriber, writer: DirectWriter, key: FanoutKey, permits: int
    ) -> FanoutMember | None:
        """Join, right after the newest burst was had.

        Args:
            subscriber: who.
            writer: the client's connection.
            key: consumer id, partition and epoch.
            permits: how many messages the client takes.

        Returns:
            The place; None where the owner must be asked about each entry, and where the client is slow.
        """
        latest = self._tail.latest_batch
        if latest is None or self._owner.guarded:
            return None
        if latest is not self._latest_batch:
            self.on_tail_batch()  # those who are here already get it before anybody stands behind it
            self._latest_batch = latest
        group = self._connection_groups.get(writer)
        direct = writer.descriptor != NO_DESCRIPTOR
        if group is None and not direct and not writer.tls:
            return None
        if not self._broadcast_groups and not self._connection_groups:
            self._tail.listen(self.on_tail_batch)
        if group is None and direct and writer not in self._direct_members:
            return self._join_broadcast(subscriber, writer, key, permits, latest.following)
        if group is None:
            group = self._connection_groups[writer] = ConnectionGroup(latest.following, self._connection_member_left)
            other = self._direct_members.get(writer)
            if other is not None:
                other.move_to(group)
        return group.join(subscriber, writer, key, permits)

    def _join_broadcast(
        self, subscriber: FanoutSubscriber, writer: DirectWriter, key: FanoutKey, permits: int, following: Position
    ) -> FanoutMember:
        group = self._broadcast_groups.get(key)
        if group is None:
            group = self._broadcast_groups[key] = BroadcastGroup(key, following, self._broadcast_member_left)
        member = self._direct_members[writer] = group.join(subscriber, writer, key, permits)
        writer.direct_subscribers[subscriber] = None
        return member

    def on_tail_batch(self) -> None:
        """Called by the topic: something is new."""
        batch, before = self._tail.latest_batch, self._latest_batch
        if batch is not None and batch is before:
            return
        self._guard.check_due()
        self._latest_batch = batch
        if (
            batch is None
            or before is None
            or batch.first != before.following
            or not batch.uniform
            or self._owner.guarded
        ):
            self._disband()
            return
        for member in self._direct_members.values():
            member.writer.flush_all()  # nothing of this goes past what waits already
            break
        for group in self._groups:
            group.deliver(batch)
        if not batch.complete:
            self._tail.await_notification(batch.following)

    @property
    def _groups(self) -> list[FanoutGroup]:
        return [*self._broadcast_groups.values(), *self._connection_groups.values()]

    def _disband(self) -> None:
        """Something else has happened: everybody looks alone."""
        subscribers = [member.subscriber for group in self._groups for member in group.members]
        for subscriber in subscribers:
            subscriber.leave_fanout()
        for subscriber in subscribers:
            subscriber.read_more()

    def _broadcast_member_left(self, member: FanoutMember) -> None:
        del self._direct_members[member.writer]
        del member.writer.direct_subscribers[member.subscriber]
        if not self._broadcast_groups[member.key].members:
            del self._broadcast_groups[member.key]
            self._stop_if_empty()

    def _connection_member_left(self, member: FanoutMember) -> None:
        if not self._connection_groups[member.writer].members:
            del self._connection_groups[member.writer]
            self._stop_if_empty()

    def _stop_if_empty(self) -> None:
        """Nobody may be here any more."""
        if not self._broadcast_groups and not self._connection_groups:
            self._tail.unlisten(self.on_tail_batch)
