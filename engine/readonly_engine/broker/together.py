"""Consumers at the end of a topic that get all that is new together, in the same bytes: a burst goes to all of them at once.

A consumer joins after it has had a burst alone, and stays while nothing but further bursts happens to it. What it got meanwhile
is reckoned up when somebody asks, or when it parts: for a burst nothing is done for each of them but the sending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from readonly_engine.broker.sending import send_many

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.topic.burst import Burst
    from readonly_engine.topic.position import Position

NO_DESCRIPTOR: Final = -1


class Follower(Protocol):
    """Who joins: a subscription, for its one consumer that gets messages."""

    def part(self) -> None:
        """Leave the seat, and hear of bursts alone."""

    def pump(self) -> None:
        """Get what is new alone."""


class Link(Protocol):
    """A connection of a client."""

    @property
    def descriptor(self) -> int:
        """Where bytes go into its socket at once; NO_DESCRIPTOR while they may not. All that is on it parts then."""

    def end_turn(self) -> None:
        """Send what waits for the end of the event loop's turn, to all clients."""

    def left_over(self, data: bytes, taken: int) -> None:
        """The socket has taken only so many bytes."""


class Tail(Protocol):
    """The topic: see TopicView."""

    @property
    def newest(self) -> Burst | None:
        """What the listeners were told of last."""

    def coming(self, position: Position) -> bool:
        """Have the listeners called for what is readable already."""

    def listen(self, listener: Callable[[], None]) -> None:
        """Call when there is something new."""

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Call no more."""


class Owner(Protocol):
    """What the topic's owner lets consumers read: see TopicTransactions."""

    @property
    def guarded(self) -> bool:
        """Whether it must be asked."""


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


class Together:
    """Those who read one topic together.

    Args:
        tail: the topic.
        owner: what its owner lets consumers read.
    """

    def __init__(self, tail: Tail, owner: Owner) -> None:
        self._tail = tail
        self._owner = owner
        self._cohorts: dict[tuple[int, int, int], _Cohort] = {}
        self._links: set[Link] = set()
        self._burst: Burst | None = None

    def join(self, follower: Follower, link: Link, key: tuple[int, int, int], permits: int) -> Seat | None:
        """Join, right after the newest burst was had.

        Args:
            follower: who.
            link: the client's connection.
            key: consumer id, partition and epoch: all with the same get the same bytes.
            permits: how many messages the client takes.

        Returns:
            The place; None where bytes cannot go straight to the client now, where the owner must be asked about each entry, and
            for a second consumer on a connection: what many of them get there is better sent in one piece when the turn ends.
        """
        newest = self._tail.newest
        if newest is None or link.descriptor == NO_DESCRIPTOR or self._owner.guarded or link in self._links:
            return None
        if newest is not self._burst:
            self.news()  # those who are here already get it before anybody stands behind it
            self._burst = newest
        if not self._cohorts:
            self._tail.listen(self.news)
        cohort = self._cohorts.get(key)
        if cohort is None:
            cohort = self._cohorts[key] = _Cohort(self, key, newest.following)
        self._links.add(link)
        return cohort.join(follower, link, permits)

    def news(self) -> None:
        """Called by the topic: something is new."""
        burst, before = self._tail.newest, self._burst
        if burst is not None and burst is before:
            return
        self._burst = burst
        if burst is None or before is None or burst.first != before.following or not burst.plain or self._owner.guarded:
            self._dissolve()
            return
        cohorts = list(self._cohorts.items())
        for _, cohort in cohorts[:1]:
            next(iter(cohort.seats)).link.end_turn()  # nothing of this goes past what waits already
        for key, cohort in cohorts:
            cohort.take(burst, burst.chunk(*key))
        if not burst.whole:
            self._tail.coming(burst.following)

    def _dissolve(self) -> None:
        """Something else has happened: everybody looks alone."""
        followers = [seat.follower for cohort in list(self._cohorts.values()) for seat in cohort.seats]
        for follower in followers:
            follower.part()
        for follower in followers:
            follower.pump()

    def left(self, link: Link, key: tuple[int, int, int]) -> None:
        """Somebody has left a cohort."""
        self._links.discard(link)
        if self._cohorts[key].seats:
            return
        del self._cohorts[key]
        if not self._cohorts:
            self._tail.unlisten(self.news)


class Seat:
    """A consumer's place among those who get the same bytes.

    Attributes:
        follower: who has it.
        link: the client's connection.
        until: the sum of the cohort's messages that the client's permits go up to.
    """

    __slots__ = ("_cohort", "_since", "follower", "link", "until")

    def __init__(self, cohort: _Cohort, follower: Follower, link: Link, until: int) -> None:
        self.follower = follower
        self.link = link
        self.until = until
        self._cohort = cohort
        self._since = (cohort.entries, cohort.messages, cohort.bytes)

    def grant(self, permits: int) -> None:
        """The client takes so many messages more."""
        self.until += permits

    @property
    def following(self) -> Position:
        """The next entry."""
        return self._cohort.following

    def settle(self) -> Had:
        """What was had since it was asked last."""
        cohort = self._cohort
        entries, messages, size = self._since
        self._since = (cohort.entries, cohort.messages, cohort.bytes)
        return Had(cohort.entries - entries, cohort.messages - messages, cohort.bytes - size, cohort.following)

    def leave(self) -> None:
        """Part."""
        self._cohort.leave(self)


class _Cohort:
    """All who get the same bytes, and the sums of what they have had."""

    def __init__(self, group: Together, key: tuple[int, int, int], following: Position) -> None:
        self.seats: dict[Seat, None] = {}
        self.following = following
        self.entries = 0
        self.messages = 0
        self.bytes = 0
        self._group = group
        self._key = key
        self._order: list[Seat] = []
        self._descriptors: list[int] = []
        self._changed = False
        self._until = 0

    def join(self, follower: Follower, link: Link, permits: int) -> Seat:
        seat = Seat(self, follower, link, self.messages + permits)
        self.seats[seat] = None
        self._changed = True
        return seat

    def leave(self, seat: Seat) -> None:
        del self.seats[seat]
        self._changed = True
        self._group.left(seat.link, self._key)

    def take(self, burst: Burst, chunk: bytes) -> None:
        """Send a burst to all who have permits for it; the others look alone."""
        if self._changed or self.messages + burst.messages > self._until:
            self._look(self.messages + burst.messages)
        order = self._order
        left = send_many(self._descriptors, chunk)
        self.entries += len(burst)
        self.messages += burst.messages
        self.bytes += len(chunk)
        self.following = burst.following
        for index, taken in left:
            order[index].link.left_over(chunk, taken)

    def _look(self, wanted: int) -> None:
        """Those who have too few permits part; who is left is put in order."""
        poor = [seat.follower for seat in self.seats if seat.until < wanted]
        for follower in poor:
            follower.part()
        self._order = list(self.seats)
        self._descriptors = [seat.link.descriptor for seat in self._order]
        self._until = min([seat.until for seat in self._order], default=0)
        self._changed = False
        for follower in poor:
            follower.pump()
