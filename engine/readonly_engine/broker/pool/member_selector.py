"""Selection of the member for the next consumer, and of members with too many consumers. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from readonly_engine.config.listeners import DEFAULT
from readonly_engine.metadata.racks import distance

if TYPE_CHECKING:
    from collections.abc import Collection

    from readonly_engine.broker.pool.membership import Member

TOLERANCE = 1.2
"""Ratio to the mean above which a member gets no more consumers. It prevents oscillation, because loads are known late."""

SLACK = 1
"""Additional consumers of a member, so that a few consumers are not moved back and forth."""

REFUSED_S = 15.0
"""Time for which a member that refused a connection gets no clients. It is longer than the session of a killed broker, 10 s."""


def max_consumers(members: Collection[Member]) -> float:
    """Return the number of consumers above which a member gets no more; 0 without members."""
    return TOLERANCE * sum(member.consumers for member in members) / len(members) + SLACK if members else 0.0


def excess(own: int, members: Collection[Member]) -> int:
    """Return the number of consumers that this broker should move to others; 0 within its allowance.

    Args:
        own: this broker's number of consumers.
        members: all members, this broker included.
    """
    if len(members) < 2 or own <= max_consumers(members):
        return 0
    return own - round(sum(member.consumers for member in members) / len(members))


class Nearness(StrEnum):
    """Locality of a selected member, as its client sees it."""

    SAME = "same"
    OTHER = "other"
    UNKNOWN = "unknown"
    """The client's locality is unknown."""


class MemberSelector:
    """Selects members in turn: those nearest to the client, and of these none above its share.

    Each broker that answers lookups has its own selector. Each starts at another member, so the sum is even, too.

    Args:
        start: index of the first member, modulo their number.

    Attributes:
        selected: number of selections by nearness.
    """

    def __init__(self, start: int) -> None:
        self.selected = dict.fromkeys(Nearness, 0)
        self._start = start
        self._turn = 0
        self._refused: dict[str, float] = {}  # URLs of members, with the time when they get clients again
        self._turns: dict[
            str, int
        ] = {}  # the last turn of each member; members of one locality take turns among themselves

    def note_refused(self, url: str, members: Collection[Member], now: float) -> None:
        """Note that an address refused a connection of this broker.

        A killed broker is a member until its session ends. Some clients try the address of a lookup's answer and no other:
        the Rust client pulsar 6.9.1 gives up after 40 s.

        Args:
            url: URL of the address; ignored unless it is a member's.
            members: the live members.
            now: the time.
        """
        self._refused = {each: end for each, end in self._refused.items() if end > now}
        for member in members:
            if url in {member.url, member.tls_url}:
                self._refused[member.url] = now + REFUSED_S

    def choose(
        self,
        members: Collection[Member],
        *,
        tls: bool = False,
        listener: str = DEFAULT,
        locality: str = "",
        now: float = 0.0,
    ) -> Member | None:
        """Return the member for the next consumer; None without one. One that refused a connection is the last resort.

        Args:
            members: the live members.
            tls: whether the client needs a TLS address.
            listener: name of the client's listener.
            locality: locality of the client; empty if unknown: then all members are equally near.
            now: the time.
        """
        candidates = sorted((m for m in members if m.urls_for(listener).serve(tls=tls)), key=lambda member: member.url)
        if not candidates:
            return None
        if self._refused:
            candidates = [one for one in candidates if self._refused.get(one.url, now) <= now] or candidates
        nearness = Nearness.UNKNOWN
        if locality:
            distances = [distance(locality, member.locality) for member in candidates]
            least = min(distances)
            candidates = [member for member, far in zip(candidates, distances, strict=True) if far == least]
            nearness = Nearness.OTHER if least else Nearness.SAME
        self.selected[nearness] += 1
        limit = max_consumers(candidates)
        count = len(candidates)
        order = [candidates[(self._start + step) % count] for step in range(count)]
        member = min((one for one in order if one.consumers <= limit), key=lambda one: self._turns.get(one.url, -1))
        if len(self._turns) > len(members):
            live = {one.url for one in members}
            self._turns = {url: turn for url, turn in self._turns.items() if url in live}
        self._turns[member.url] = self._turn
        self._turn += 1
        return member
