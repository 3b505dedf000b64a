"""Consumers at the end of a topic that get all that is new together: a burst goes to all of them at once.

Those who get the same bytes, each on a connection of its own, get them by one call; those who share a connection get theirs in
one piece. A consumer joins after it has had a batch alone, and stays while nothing but further bursts happens to it. What it got
meanwhile is reckoned up when somebody asks, or when it parts: for a batch little is done for each of them but the sending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from readonly_engine.broker.lease_guard import LeaseGuard
from readonly_engine.broker.seat import NO_DESCRIPTOR, Cohort, Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.broker.seat import Follower, Group, Key, Link, Seat
    from readonly_engine.topic.position import Position
    from readonly_engine.topic.tail_batch import TailBatch


class Tail(Protocol):
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


class Owner(Protocol):
    """What the topic's owner lets consumers read: see TopicTransactions."""

    @property
    def guarded(self) -> bool:
        """Whether it must be asked."""


class Together:
    """Those who read one topic together.

    Args:
        tail: the topic.
        owner: what its owner lets consumers read.
        guard: checks the leases under which is delivered.
    """

    def __init__(self, tail: Tail, owner: Owner, guard: LeaseGuard | None = None) -> None:
        self._guard = guard or LeaseGuard()
        self._tail = tail
        self._owner = owner
        self._cohorts: dict[Key, Cohort] = {}
        self._rows: dict[Link, Row] = {}
        self._direct: dict[Link, Seat] = {}  # those of cohorts
        self._burst: TailBatch | None = None

    def join(self, follower: Follower, link: Link, key: Key, permits: int) -> Seat | None:
        """Join, right after the newest burst was had.

        Args:
            follower: who.
            link: the client's connection.
            key: consumer id, partition and epoch.
            permits: how many messages the client takes.

        Returns:
            The place; None where the owner must be asked about each entry, and where the client is slow.
        """
        newest = self._tail.latest_batch
        if newest is None or self._owner.guarded:
            return None
        if newest is not self._burst:
            self.news()  # those who are here already get it before anybody stands behind it
            self._burst = newest
        row = self._rows.get(link)
        direct = link.descriptor != NO_DESCRIPTOR
        if row is None and not direct and not link.tls:
            return None
        if not self._cohorts and not self._rows:
            self._tail.listen(self.news)
        if row is None and direct and link not in self._direct:
            return self._join_cohort(follower, link, key, permits, newest.following)
        if row is None:
            row = self._rows[link] = Row(newest.following, self._left_row)
            other = self._direct.get(link)
            if other is not None:
                other.move(row)
        return row.join(follower, link, key, permits)

    def _join_cohort(self, follower: Follower, link: Link, key: Key, permits: int, following: Position) -> Seat:
        cohort = self._cohorts.get(key)
        if cohort is None:
            cohort = self._cohorts[key] = Cohort(key, following, self._left_cohort)
        seat = self._direct[link] = cohort.join(follower, link, key, permits)
        link.direct[follower] = None
        return seat

    def news(self) -> None:
        """Called by the topic: something is new."""
        batch, before = self._tail.latest_batch, self._burst
        if batch is not None and batch is before:
            return
        self._guard.look()
        self._burst = batch
        if (
            batch is None
            or before is None
            or batch.first != before.following
            or not batch.uniform
            or self._owner.guarded
        ):
            self._dissolve()
            return
        for seat in self._direct.values():
            seat.link.end_turn()  # nothing of this goes past what waits already
            break
        for group in self._groups:
            group.take(batch)
        if not batch.complete:
            self._tail.await_notification(batch.following)

    @property
    def _groups(self) -> list[Group]:
        return [*self._cohorts.values(), *self._rows.values()]

    def _dissolve(self) -> None:
        """Something else has happened: everybody looks alone."""
        followers = [seat.follower for group in self._groups for seat in group.seats]
        for follower in followers:
            follower.part()
        for follower in followers:
            follower.pump()

    def _left_cohort(self, seat: Seat) -> None:
        del self._direct[seat.link]
        del seat.link.direct[seat.follower]
        if not self._cohorts[seat.key].seats:
            del self._cohorts[seat.key]
            self._rest()

    def _left_row(self, seat: Seat) -> None:
        if not self._rows[seat.link].seats:
            del self._rows[seat.link]
            self._rest()

    def _rest(self) -> None:
        """Nobody may be here any more."""
        if not self._cohorts and not self._rows:
            self._tail.unlisten(self.news)
