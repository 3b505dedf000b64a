"""Selection of the member for the next consumer, and of members with too many consumers. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.config.listeners import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Collection

    from readonly_engine.broker.pool.membership import Member

TOLERANCE = 1.2
"""Ratio to the mean above which a member gets no more consumers. It prevents oscillation, because loads are known late."""

SLACK = 1
"""Additional consumers of a member, so that a few consumers are not moved back and forth."""


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


class MemberSelector:
    """Selects members in turn, and skips those above their share.

    Each broker that answers lookups has its own selector. Each starts at another member, so the sum is even, too.

    Args:
        start: index of the first member, modulo their number.
    """

    def __init__(self, start: int) -> None:
        self._turn = start

    def choose(self, members: Collection[Member], *, tls: bool = False, listener: str = DEFAULT) -> Member | None:
        """Return the member for the next consumer; None without one.

        Args:
            members: the live members.
            tls: whether the client needs a TLS address.
            listener: name of the client's listener.
        """
        candidates = sorted((m for m in members if m.urls_for(listener).serve(tls=tls)), key=lambda member: member.url)
        if not candidates:
            return None
        limit = max_consumers(candidates)
        for step in range(len(candidates)):
            member = candidates[(self._turn + step) % len(candidates)]
            if member.consumers <= limit:
                break
        self._turn += step + 1
        return member
