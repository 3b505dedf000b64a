"""A consumer's seat among others that stand at the end of a topic, and what those who sit together have had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from readonly_engine.net.sending import send_many

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.topic.position import Position
    from readonly_engine.topic.tail_batch import TailBatch

NO_DESCRIPTOR: Final = -1

FanoutKey = tuple[int, int, int]
"""Consumer id, partition and epoch: all with the same get the same bytes."""

MAX_CONNECTION_BATCH_BYTES: Final = 2 << 20
"""More than this does not go to one connection in one piece: then each of its consumers looks for itself how much it takes."""


class FanoutSubscriber(Protocol):
    """Who joins: a subscription, for its one consumer that gets messages."""

    def leave_fanout(self) -> None:
        """Leave the seat, and hear of bursts alone."""

    def read_more(self) -> None:
        """Get what is new alone."""


class DirectWriter(Protocol):
    """A connection of a client.

    Attributes:
        direct_subscribers: who gets bytes past the transport; all of them part when that cannot be any more.
    """

    direct_subscribers: dict[FanoutSubscriber, None]

    @property
    def descriptor(self) -> int:
        """Where bytes go into its socket at once; NO_DESCRIPTOR while they may not."""

    @property
    def tls(self) -> bool:
        """Whether they may never, as they are encrypted first."""

    def send(self, data: bytes) -> None:
        """Send frames, at the end of the event loop's turn or before."""

    def flush_all(self) -> None:
        """Send what waits for the end of the event loop's turn, to all clients."""

    def write_remainder(self, data: bytes, written: int) -> None:
        """The socket has taken only so many bytes."""


class DeliveredTotals(NamedTuple):
    """What a consumer got together with others.

    Attributes:
        entries: so many.
        messages: in them.
        bytes: their frames.
        following: the position after the last.
    """

    entries: int
    messages: int
    bytes: int
    following: Position


class FanoutMember:
    """A consumer's place.

    Attributes:
        subscriber: who has it.
        writer: the client's connection.
        key: what its frames are made for.
        permitted_until: the sum of the group's messages that the client's permits go up to.
        bytes: what it got that others in its group did not.
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
        """The client takes so many messages more."""
        self.permitted_until += permits

    @property
    def following(self) -> Position:
        """The next entry."""
        return self._group.following

    def take_totals(self) -> DeliveredTotals:
        """What was had since it was asked last."""
        group, (entries, messages, size), own = self._group, self._since, self.bytes
        self._since, self.bytes = (group.entries, group.messages, group.bytes), 0
        return DeliveredTotals(
            group.entries - entries, group.messages - messages, group.bytes - size + own, group.following
        )

    def leave(self) -> None:
        """Part."""
        self._group.remove(self)

    def move_to(self, group: FanoutGroup) -> None:
        """Sit down in another group, which stands at the same entry; nothing of what was had is lost."""
        delivered, left = self.take_totals(), self.permitted_until - self._group.messages
        self._group.remove(self)
        self._group = group
        self._since = (group.entries - delivered.entries, group.messages - delivered.messages, group.bytes)
        self.bytes = delivered.bytes
        self.permitted_until = group.messages + left
        group.add(self)


class FanoutGroup:
    """Those who sit together, and the sums of what they have had.

    Args:
        following: the next entry.
        on_left: called when one has left.
    """

    __slots__ = (
        "_changed",
        "_on_left",
        "_order",
        "_permitted_until",
        "bytes",
        "entries",
        "following",
        "members",
        "messages",
    )

    def __init__(self, following: Position, on_left: Callable[[FanoutMember], None]) -> None:
        self.members: dict[FanoutMember, None] = {}
        self.following = following
        self.entries = 0
        self.messages = 0
        self.bytes = 0
        self._on_left = on_left
        self._order: list[FanoutMember] = []
        self._changed = False
        self._permitted_until = 0

    def join(self, subscriber: FanoutSubscriber, writer: DirectWriter, key: FanoutKey, permits: int) -> FanoutMember:
        """A seat for somebody who has had the newest burst alone."""
        member = FanoutMember(self, subscriber, writer, key, permits)
        self.add(member)
        return member

    def add(self, member: FanoutMember) -> None:
        """A seat is one of these."""
        self.members[member] = None
        self._changed = True

    def remove(self, member: FanoutMember) -> None:
        """Somebody parts."""
        del self.members[member]
        self._changed = True
        self._on_left(member)

    def deliver(self, batch: TailBatch) -> None:
        """Send a burst to all who have permits for it; the others look alone."""
        raise NotImplementedError

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
        """Those who are here are put in order."""
        self._order = list(self.members)

    def _count(self, batch: TailBatch) -> None:
        """All have had it, as soon as the first bytes of it go out: to send them may make some part."""
        self.entries += len(batch)
        self.messages += batch.messages
        self.following = batch.following


class BroadcastGroup(FanoutGroup):
    """Consumers that get the same bytes, each past the transport of a connection on which it is the only one.

    Args:
        key: what the frames are made for.
        following: the next entry.
        on_left: called when one has left.
    """

    __slots__ = ("_descriptors", "_key")

    def __init__(self, key: FanoutKey, following: Position, on_left: Callable[[FanoutMember], None]) -> None:
        super().__init__(following, on_left)
        self._key = key
        self._descriptors: list[int] = []

    def deliver(self, batch: TailBatch) -> None:
        """Send a burst to all who have permits for it; the others look alone."""
        self._prepare(batch)
        order, frames = self._order, batch.frames(*self._key)
        left = send_many(self._descriptors, frames)
        self._count(batch)
        self.bytes += len(frames)
        for index, taken in left:
            order[index].writer.write_remainder(frames, taken)

    def _arrange(self) -> None:
        super()._arrange()
        self._descriptors = [member.writer.descriptor for member in self._order]


class ConnectionGroup(FanoutGroup):
    """Consumers on one connection: what is new goes to all of them in one piece."""

    __slots__ = ()

    def deliver(self, batch: TailBatch) -> None:
        """Send a burst to all who have permits for it; the others look alone."""
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
