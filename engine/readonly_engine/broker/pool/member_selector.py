"""Who of a pool gets the next consumer, and who has too many: pure choices over the members as they are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.config.listeners import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Collection

    from readonly_engine.broker.pool.membership import Member

TOLERANCE = 1.2
"""A member may have so many times the mean before it gets no more: loads are known late, and brokers must not swing."""

SLACK = 1
"""And so many more, which keeps few consumers from being moved about."""


def max_consumers(members: Collection[Member]) -> float:
    """How many consumers a member may have before others get the next ones."""
    return TOLERANCE * sum(member.consumers for member in members) / len(members) + SLACK if members else 0.0


def excess(own: int, members: Collection[Member]) -> int:
    """How many of this broker's consumers others should have; 0 while it has no more than its allowance.

    Args:
        own: this broker's consumers now.
        members: all members, this one too.
    """
    if len(members) < 2 or own <= max_consumers(members):
        return 0
    return own - round(sum(member.consumers for member in members) / len(members))


class MemberSelector:
    """Hands consumers to the members in turn, past those that have more than their share.

    Each broker that answers lookups has a rotation of its own: they need not agree, and together they spread evenly too, since
    each begins somewhere else.

    Args:
        start: where to begin: any number.
    """

    def __init__(self, start: int) -> None:
        self._turn = start

    def choose(self, members: Collection[Member], *, tls: bool = False, listener: str = DEFAULT) -> Member | None:
        """The member for the next consumer; None where there is none.

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
