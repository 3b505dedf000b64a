"""Fan-out of tail batches: consumers at the end of one topic get each batch together.

Consumers with equal bytes, each alone on its connection, get a batch by one call into C. Consumers on one connection get it in
few writes. A consumer joins after it has read a batch alone, and leaves at any other event than the next batch. Its totals are
counted when a caller asks, or when it leaves. So a batch costs little more for each consumer than the write.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Protocol

from readonly_engine.broker.dispatch.latency import LatencySampler
from readonly_engine.broker.fanout.groups import BroadcastGroup, ConnectionGroup
from readonly_engine.lease_guard import LeaseGuard
from readonly_engine.net.direct_writer import NO_DESCRIPTOR

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.broker.fanout.groups import (
        FanoutGroup,
        FanoutKey,
        FanoutMember,
        FanoutSubscriber,
    )
    from readonly_engine.net.direct_writer import DirectWriter
    from readonly_engine.topic.position import Position
    from readonly_engine.topic.tail_batch import TailBatch


_NONE: Final[dict[Any, Any]] = {}
"""The groups of topics without members; nothing is added here."""

MAX_GROUP_MEMBERS: Final = 256
"""Consumers of one connection in one group. More get several writes: one write has a bound of its size."""


class TopicTail(Protocol):
    """The topic (see TopicView)."""

    @property
    def latest_batch(self) -> TailBatch | None:
        """The batch of the last notification; None without one."""

    def defer_to_notification(self, position: Position) -> bool:
        """Request a notification for entries that are readable already (see TailNotifier)."""

    def listen(self, listener: Callable[[], None]) -> None:
        """Add a listener for tail batches."""

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Remove a listener."""


class OwnerReadLimit(Protocol):
    """The owner's limit on reads (see TopicTransactions)."""

    def allows(self, position: Position) -> bool:
        """Whether the owner is known to deliver the entries up to this one."""


class TailFanout:
    """The fan-out groups of one topic.

    Args:
        tail: the topic.
        owner: the owner's limit on reads.
        guard: checks the leases before each delivery.
        latency: measures some deliveries.
    """

    __slots__ = (
        "_broadcast_groups",
        "_connection_groups",
        "_direct_members",
        "_guard",
        "_latency",
        "_latest_batch",
        "_owner",
        "_tail",
    )

    def __init__(
        self,
        tail: TopicTail,
        owner: OwnerReadLimit,
        guard: LeaseGuard | None = None,
        latency: LatencySampler | None = None,
    ) -> None:
        self._guard = guard or LeaseGuard()
        self._latency = latency or LatencySampler()
        self._tail = tail
        self._owner = owner
        self._broadcast_groups: dict[FanoutKey, BroadcastGroup] = _NONE
        self._connection_groups: dict[DirectWriter, list[ConnectionGroup]] = _NONE
        self._direct_members: dict[DirectWriter, FanoutMember] = _NONE  # members of broadcast groups
        self._latest_batch: TailBatch | None = None

    def join(
        self, subscriber: FanoutSubscriber, writer: DirectWriter, key: FanoutKey, permits: int
    ) -> FanoutMember | None:
        """Add a consumer that has just got the latest batch.

        Args:
            subscriber: its subscription.
            writer: the client's connection.
            key: the key of its frames.
            permits: permits of the client.

        Returns:
            The member; None without a latest batch, or if the client reads slowly.
        """
        latest = self._tail.latest_batch
        if latest is None:
            return None
        if latest is not self._latest_batch:
            self.on_tail_batch()  # deliver the batch to the present members before one joins that has it
            self._latest_batch = latest
        groups = self._connection_groups.get(writer)
        direct = writer.descriptor != NO_DESCRIPTOR
        if groups is None and not direct and not writer.tls:
            return None
        if not self._broadcast_groups and not self._connection_groups:
            self._broadcast_groups, self._connection_groups, self._direct_members = {}, {}, {}
            self._tail.listen(self.on_tail_batch)
        if groups is None and direct and writer not in self._direct_members:
            return self._join_broadcast(subscriber, writer, key, permits, latest.following)
        if groups is None:
            groups = self._connection_groups[writer] = []
        if not groups or len(groups[-1].members) >= MAX_GROUP_MEMBERS:
            groups.append(ConnectionGroup(latest.following, self._connection_member_left))
            other = self._direct_members.get(writer)
            if other is not None:
                other.move_to(groups[-1])
        return groups[-1].join(subscriber, writer, key, permits)

    def _join_broadcast(
        self, subscriber: FanoutSubscriber, writer: DirectWriter, key: FanoutKey, permits: int, following: Position
    ) -> FanoutMember:
        group = self._broadcast_groups.get(key)
        if group is None:
            group = self._broadcast_groups[key] = BroadcastGroup(key, following, self._broadcast_member_left)
        member = self._direct_members[writer] = group.join(subscriber, writer, group.key, permits)  # one key for all
        writer.direct_subscribers[subscriber] = None
        return member

    @property
    def shared(self) -> bool:
        """Whether consumers of several connections are members."""
        return len(self._direct_members) + len(self._connection_groups) > 1

    def sole_member(self) -> FanoutMember | None:
        """Return the only member of all groups; None without one, or with several."""
        if len(self._direct_members) + len(self._connection_groups) != 1:
            return None
        groups = self._groups
        return next(iter(groups[0].members)) if len(groups) == 1 and len(groups[0].members) == 1 else None

    def on_spliced(self, batch: TailBatch) -> None:
        """Continue after a batch that the only member has got past its group."""
        self._latest_batch = batch

    def on_tail_batch(self) -> None:
        """Deliver the latest batch to all groups, or disband them if it does not follow the last one. Called by the topic."""
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
            or not self._owner.allows(batch.last)
        ):
            self._disband()
            return
        for member in self._direct_members.values():
            member.writer.flush_all()  # direct writes must not overtake pending frames
            break
        for group in self._groups:
            group.deliver(batch)
        if self._latency.due and (self._broadcast_groups or self._connection_groups):
            self._latency.observe(batch.entries(batch.first, 1)[0], tail=True)
        if not batch.complete:
            self._tail.defer_to_notification(batch.following)

    @property
    def _groups(self) -> list[FanoutGroup]:
        return [*self._broadcast_groups.values(), *chain.from_iterable(self._connection_groups.values())]

    def _disband(self) -> None:
        """Remove all members, and let each subscription read for itself."""
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
        groups = self._connection_groups[member.writer]
        if member.alone:
            groups[:] = [group for group in groups if group.members]
        if not groups:
            del self._connection_groups[member.writer]
            self._stop_if_empty()

    def _stop_if_empty(self) -> None:
        """Stop listening to the topic if there is no member."""
        if not self._broadcast_groups and not self._connection_groups:
            self._broadcast_groups = self._connection_groups = self._direct_members = _NONE
            self._tail.unlisten(self.on_tail_batch)
