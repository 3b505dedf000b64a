"""Fan-out groups: consumers at the end of one topic that get each tail batch together, and their totals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from readonly_engine.net.sending import send_many

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.net.direct_writer import DirectWriter
    from readonly_engine.topic.position import Position
    from readonly_engine.topic.tail_batch import TailBatch

FanoutKey = tuple[int, int, int, bool]
"""Consumer id, partition, epoch, and whether the owner's own metadata is exposed: members with equal keys get the same bytes."""

MAX_CONNECTION_BATCH_BYTES: Final = 2 << 20
"""Largest batch of one group of a connection, for all its consumers together. Above this, each consumer reads for itself."""


class GroupSplice(Protocol):
    """Delivers to the only member of a group, past the group (see broker/tail/tail_splice.py)."""

    @property
    def following(self) -> Position:
        """The position of the next entry."""

    def flush(self) -> None:
        """Count what was delivered."""

    def end(self) -> None:
        """Count what was delivered, and deliver no more."""


class FanoutSubscriber(Protocol):
    """A subscription, which joins a group for its active consumer."""

    def leave_fanout(self) -> None:
        """Leave the fan-out group, and listen to the topic again."""

    def read_more(self) -> None:
        """Deliver new entries outside of the group."""


class DeliveredTotals(NamedTuple):
    """Totals of the entries that a consumer got as a member.

    Attributes:
        entries: number of entries.
        messages: number of messages in them.
        bytes: size of their frames.
        following: the position after the last entry.
    """

    entries: int
    messages: int
    bytes: int
    following: Position


class FanoutMember:
    """A consumer in a fan-out group.

    Attributes:
        subscriber: its subscription.
        writer: the client's connection.
        key: the key of its frames.
        permitted_until: total of the group's messages at which the client's permits end.
        bytes: bytes of frames for this member alone, which the group's total does not include.
    """

    __slots__ = ("_group", "_since", "bytes", "key", "permitted_until", "subscriber", "writer")

    def __init__(
        self, group: FanoutGroup, subscriber: FanoutSubscriber, writer: DirectWriter, key: FanoutKey, permits: int
    ) -> None:
        self.subscriber = subscriber
        self.writer = writer
        self.key = key
        self.permitted_until = group.messages + permits
        self.bytes = 0
        self._group = group
        self._since = (group.entries, group.messages, group.bytes)

    def add_permits(self, permits: int) -> None:
        """Add permits of the client."""
        self.permitted_until += permits

    @property
    def following(self) -> Position:
        """Position of the next entry."""
        return self._group.following

    def take_totals(self) -> DeliveredTotals:
        """Return the totals since the last call."""
        group = self._group
        if group.splice is not None:
            group.splice.flush()
        (entries, messages, size), own = self._since, self.bytes
        self._since, self.bytes = (group.entries, group.messages, group.bytes), 0
        return DeliveredTotals(
            group.entries - entries, group.messages - messages, group.bytes - size + own, group.following
        )

    @property
    def group(self) -> FanoutGroup:
        """Its group."""
        return self._group

    @property
    def permits(self) -> int:
        """The client's permits, as far as they are counted."""
        return self.permitted_until - self._group.messages

    @property
    def alone(self) -> bool:
        """Whether its group has no members left, which it has left itself."""
        return not self._group.members

    def leave(self) -> None:
        """Leave the group."""
        self._group.remove(self)

    def move_to(self, group: FanoutGroup) -> None:
        """Move to another group at the same position; the totals since the last call are kept."""
        delivered, left = self.take_totals(), self.permitted_until - self._group.messages
        self._group.remove(self)
        self._group = group
        self._since = (group.entries - delivered.entries, group.messages - delivered.messages, group.bytes)
        self.bytes = delivered.bytes
        self.permitted_until = group.messages + left
        group.add(self)


class FanoutGroup:
    """Consumers that get each batch together, and the totals of the group.

    Args:
        following: the position of the next entry.
        on_left: called with a member that has left.

    Attributes:
        splice: delivers past the group; None for nothing.
    """

    __slots__ = (
        "_changed",
        "_following",
        "_on_left",
        "_order",
        "_permitted_until",
        "bytes",
        "entries",
        "members",
        "messages",
        "splice",
    )

    def __init__(self, following: Position, on_left: Callable[[FanoutMember], None]) -> None:
        self.members: dict[FanoutMember, None] = {}
        self.splice: GroupSplice | None = None
        self._following = following
        self.entries = 0
        self.messages = 0
        self.bytes = 0
        self._on_left = on_left
        self._order: list[FanoutMember] = []
        self._changed = False
        self._permitted_until = 0

    @property
    def following(self) -> Position:
        """The position of the next entry."""
        return self._following if self.splice is None else self.splice.following

    def join(self, subscriber: FanoutSubscriber, writer: DirectWriter, key: FanoutKey, permits: int) -> FanoutMember:
        """Add a consumer that already has the latest batch."""
        member = FanoutMember(self, subscriber, writer, key, permits)
        self.add(member)
        return member

    def add(self, member: FanoutMember) -> None:
        """Add a member."""
        self._end_splice()
        self.members[member] = None
        self._changed = True

    def remove(self, member: FanoutMember) -> None:
        """Remove a member."""
        self._end_splice()
        del self.members[member]
        self._changed = True
        self._on_left(member)

    def deliver(self, batch: TailBatch) -> None:
        """Send a batch to all members with enough permits. The others leave, and read for themselves."""
        raise NotImplementedError

    def count_spliced(self, entries: int, messages: int, size: int, following: Position) -> None:
        """Count entries that were delivered past the group.

        Args:
            entries: number of entries.
            messages: number of their messages.
            size: bytes of their frames.
            following: the position after the last entry.
        """
        self.entries += entries
        self.messages += messages
        self.bytes += size
        self._following = following

    def _end_splice(self) -> None:
        if self.splice is not None:
            self.splice.end()

    def _prepare(self, batch: TailBatch) -> None:
        wanted = self.messages + batch.messages
        if not self._changed and wanted <= self._permitted_until:
            return
        without_permits = [member.subscriber for member in self.members if member.permitted_until < wanted]
        for subscriber in without_permits:
            subscriber.leave_fanout()
        self._arrange()
        self._permitted_until = min([member.permitted_until for member in self._order], default=0)
        self._changed = False
        for subscriber in without_permits:
            subscriber.read_more()

    def _arrange(self) -> None:
        """Rebuild the ordered list of members."""
        self._order = list(self.members)

    def _count(self, batch: TailBatch) -> None:
        """Count a batch for all members. Call it before the remainders are sent, because that may remove members."""
        self.entries += len(batch)
        self.messages += batch.messages
        self._following = batch.following


class BroadcastGroup(FanoutGroup):
    """Consumers that get the same bytes by one call of `send_many`; each is the only member on its connection.

    Args:
        key: the key of the frames.
        following: the position of the next entry.
        on_left: called with a member that has left.
    """

    __slots__ = ("_descriptors", "key")

    def __init__(self, key: FanoutKey, following: Position, on_left: Callable[[FanoutMember], None]) -> None:
        super().__init__(following, on_left)
        self.key = key
        self._descriptors: list[int] = []

    def deliver(self, batch: TailBatch) -> None:
        """Send a batch to all members with enough permits. The others leave, and read for themselves."""
        self._prepare(batch)
        order, frames = self._order, batch.frames(*self.key)
        left = send_many(self._descriptors, frames)
        self._count(batch)
        self.bytes += len(frames)
        for index, taken in left:
            order[index].writer.write_remainder(frames, taken)

    def _arrange(self) -> None:
        super()._arrange()
        self._descriptors = [member.writer.descriptor for member in self._order]


class ConnectionGroup(FanoutGroup):
    """Some consumers of one connection. One write sends the frames of all of them."""

    __slots__ = ()

    def deliver(self, batch: TailBatch) -> None:
        """Send a batch to all members with enough permits. The others leave, and read for themselves."""
        self._prepare(batch)
        order = self._order
        parts = [batch.frames(*member.key) for member in order]
        sizes = [len(frames) for frames in parts]
        if not order or sum(sizes) > MAX_CONNECTION_BATCH_BYTES:
            self._disband()
            return
        for member, size in zip(order, sizes, strict=True):
            member.bytes += size
        self._count(batch)
        order[0].writer.send(b"".join(parts))

    def _disband(self) -> None:
        subscribers = [member.subscriber for member in self.members]
        for subscriber in subscribers:
            subscriber.leave_fanout()
        for subscriber in subscribers:
            subscriber.read_more()
