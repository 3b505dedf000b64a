"""A consumer's seat among others that stand at the end of a topic, and what those who sit together have had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from readonly_engine.broker.sending import send_many

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.topic.position import Position
    from readonly_engine.topic.tail_batch import TailBatch

NO_DESCRIPTOR: Final = -1

Key = tuple[int, int, int]
"""Consumer id, partition and epoch: all with the same get the same bytes."""

ROW_BYTES: Final = 2 << 20
"""More than this does not go to one connection in one piece: then each of its consumers looks for itself how much it takes."""


class Follower(Protocol):
    """Who joins: a subscription, for its one consumer that gets messages."""

    def part(self) -> None:
        """Leave the seat, and hear of bursts alone."""

    def pump(self) -> None:
        """Get what is new alone."""


class Link(Protocol):
    """A connection of a client.

    Attributes:
        direct: who gets bytes past the transport; all of them part when that cannot be any more.
    """

    direct: dict[Follower, None]

    @property
    def descriptor(self) -> int:
        """Where bytes go into its socket at once; NO_DESCRIPTOR while they may not."""

    @property
    def tls(self) -> bool:
        """Whether they may never, as they are encrypted first."""

    def send(self, data: bytes) -> None:
        """Send frames, at the end of the event loop's turn or before."""

    def end_turn(self) -> None:
        """Send what waits for the end of the event loop's turn, to all clients."""

    def left_over(self, data: bytes, taken: int) -> None:
        """The socket has taken only so many bytes."""


class Had(NamedTuple):
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


class Seat:
    """A consumer's place.

    Attributes:
        follower: who has it.
        link: the client's connection.
        key: what its frames are made for.
        until: the sum of the group's messages that the client's permits go up to.
        bytes: what it got that others in its group did not.
    """

    __slots__ = ("_group", "_since", "bytes", "follower", "key", "link", "until")

    def __init__(self, group: Group, follower: Follower, link: Link, key: Key, permits: int) -> None:
        self.follower = follower
        self.link = link
        self.key = key
        self.until = group.messages + permits
        self.bytes = 0
        self._group = group
        self._since = (group.entries, group.messages, group.bytes)

    def grant(self, permits: int) -> None:
        """The client takes so many messages more."""
        self.until += permits

    @property
    def following(self) -> Position:
        """The next entry."""
        return self._group.following

    def settle(self) -> Had:
        """What was had since it was asked last."""
        group, (entries, messages, size), own = self._group, self._since, self.bytes
        self._since, self.bytes = (group.entries, group.messages, group.bytes), 0
        return Had(group.entries - entries, group.messages - messages, group.bytes - size + own, group.following)

    def leave(self) -> None:
        """Part."""
        self._group.leave(self)

    def move(self, group: Group) -> None:
        """Sit down in another group, which stands at the same entry; nothing of what was had is lost."""
        had, left = self.settle(), self.until - self._group.messages
        self._group.leave(self)
        self._group = group
        self._since = (group.entries - had.entries, group.messages - had.messages, group.bytes)
        self.bytes = had.bytes
        self.until = group.messages + left
        group.sit(self)


class Group:
    """Those who sit together, and the sums of what they have had.

    Args:
        following: the next entry.
        left: called when one has left.
    """

    __slots__ = ("_changed", "_left", "_order", "_until", "bytes", "entries", "following", "messages", "seats")

    def __init__(self, following: Position, left: Callable[[Seat], None]) -> None:
        self.seats: dict[Seat, None] = {}
        self.following = following
        self.entries = 0
        self.messages = 0
        self.bytes = 0
        self._left = left
        self._order: list[Seat] = []
        self._changed = False
        self._until = 0

    def join(self, follower: Follower, link: Link, key: Key, permits: int) -> Seat:
        """A seat for somebody who has had the newest burst alone."""
        seat = Seat(self, follower, link, key, permits)
        self.sit(seat)
        return seat

    def sit(self, seat: Seat) -> None:
        """A seat is one of these."""
        self.seats[seat] = None
        self._changed = True

    def leave(self, seat: Seat) -> None:
        """Somebody parts."""
        del self.seats[seat]
        self._changed = True
        self._left(seat)

    def take(self, batch: TailBatch) -> None:
        """Send a burst to all who have permits for it; the others look alone."""
        raise NotImplementedError

    def _prepare(self, batch: TailBatch) -> None:
        wanted = self.messages + batch.messages
        if not self._changed and wanted <= self._until:
            return
        poor = [seat.follower for seat in self.seats if seat.until < wanted]
        for follower in poor:
            follower.part()
        self._arrange()
        self._until = min([seat.until for seat in self._order], default=0)
        self._changed = False
        for follower in poor:
            follower.pump()

    def _arrange(self) -> None:
        """Those who are here are put in order."""
        self._order = list(self.seats)

    def _book(self, batch: TailBatch) -> None:
        """All have had it, as soon as the first bytes of it go out: to send them may make some part."""
        self.entries += len(batch)
        self.messages += batch.messages
        self.following = batch.following


class Cohort(Group):
    """Consumers that get the same bytes, each past the transport of a connection on which it is the only one.

    Args:
        key: what the frames are made for.
        following: the next entry.
        left: called when one has left.
    """

    __slots__ = ("_descriptors", "_key")

    def __init__(self, key: Key, following: Position, left: Callable[[Seat], None]) -> None:
        super().__init__(following, left)
        self._key = key
        self._descriptors: list[int] = []

    def take(self, batch: TailBatch) -> None:
        """Send a burst to all who have permits for it; the others look alone."""
        self._prepare(batch)
        order, chunk = self._order, batch.frames(*self._key)
        left = send_many(self._descriptors, chunk)
        self._book(batch)
        self.bytes += len(chunk)
        for index, taken in left:
            order[index].link.left_over(chunk, taken)

    def _arrange(self) -> None:
        super()._arrange()
        self._descriptors = [seat.link.descriptor for seat in self._order]


class Row(Group):
    """Consumers on one connection: what is new goes to all of them in one piece."""

    __slots__ = ()

    def take(self, batch: TailBatch) -> None:
        """Send a burst to all who have permits for it; the others look alone."""
        self._prepare(batch)
        order = self._order
        chunks = [batch.frames(*seat.key) for seat in order]
        sizes = [len(chunk) for chunk in chunks]
        if not order or sum(sizes) > ROW_BYTES:
            self._scatter()
            return
        for seat, size in zip(order, sizes, strict=True):
            seat.bytes += size
        self._book(batch)
        order[0].link.send(b"".join(chunks))

    def _scatter(self) -> None:
        followers = [seat.follower for seat in self.seats]
        for follower in followers:
            follower.part()
        for follower in followers:
            follower.pump()
