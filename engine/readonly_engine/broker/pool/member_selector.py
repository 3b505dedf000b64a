"""Selection of the member for the next consumer, and of members with too many consumers. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.config.listeners import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Collection

    from readonly_engine.broker.pool.membership import Member

TOLERANCE = 1.2
"""Ratio to the mean above which a member gets no more consumers. Loads are known late, and must not oscillate."""

SLACK = 1
"""Additional consumers, so that small numbers are not moved back and forth."""


def max_consumers(members: Collection[Member]) -> float:
    """Return the number of consumers above which others get the next ones."""
    return TOLERANCE * sum(member.consumers for member in members) / len(members) + SLACK if members else 0.0


def excess(own: int, members: Collection[Member]) -> int:
    """Return how many of this broker's consumers others should serve; 0 within its allowance.

    Args:
        own: this broker's consumers now.
        members: all members, this one too.
    """
    if len(members) < 2 or own <= max_consumers(members):
        return 0
    return own - round(sum(member.consumers for member in members) / len(members))


class MemberSelector:
    """Selects members in turn, and skips those above their share.

    Each broker that answers lookups has its own selector. They need not agree: each starts elsewhere, so their sum is even too.

    Args:
        start: where to begin: any number.
    """

    def __init__(self, start: int) -> None:
        self._turn = start

    def choose(self, members: Collection[Member], *, tls: bool = False, listener: str = DEFAULT) -> Member | None:
        """Return the member for the next consumer; None if there is none.

        Args:
            members: all live ones.
            tls: whether the client needs one that is reached with TLS.
            listener: the client's.
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
