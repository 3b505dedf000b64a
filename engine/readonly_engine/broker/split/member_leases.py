"""The members of a split subscription, as its coordinator knows them: who is connected, and when each lease ends. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from readonly_engine.broker.split.leases import LEASE_S, MAX_MEMBERS


@dataclass(slots=True)
class MemberState:
    """A member.

    Attributes:
        until: end of its lease.
        answered: number of its last report, which the next grant answers; 0 for none.
        connected: whether it can get grants.
    """

    until: float = 0.0
    answered: int = 0
    connected: bool = True


M = TypeVar("M", bound=MemberState)


class MemberLeases(Generic[M]):
    """Keeps the members of one coordinator.

    Args:
        epoch: identifies the coordinator among all that the subscription ever has; above 0.

    Attributes:
        epoch: as above.
        lost: number of members whose leases have ended without a word.
    """

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.lost = 0
        self._members: dict[str, M] = {}

    @property
    def members(self) -> list[str]:
        """The members that are connected."""
        return [name for name, member in self._members.items() if member.connected]

    def join(self, name: str, now: float) -> bool:
        """Add a member, or connect it again; its report with all that it has must follow.

        Returns:
            False if there are too many.
        """
        member = self._members.get(name)
        if member is None:
            if len(self._members) >= MAX_MEMBERS:
                return False
            member = self._members[name] = self._new_member()
        member.connected, member.answered = True, 0
        member.until = max(member.until, now + LEASE_S)
        self._on_joined(member)
        return True

    def disconnect(self, name: str) -> None:
        """Handle the end of a member's connection: what it has comes back at the end of its lease, unless it returns."""
        member = self._members.get(name)
        if member is not None:
            member.connected = False

    def leave(self, name: str) -> None:
        """Handle the end of a member that has stopped, and has nothing."""
        member = self._members.pop(name, None)
        if member is not None:
            self._on_left(name, member)

    def _new_member(self) -> M:
        """Make a member."""
        raise NotImplementedError

    def _on_joined(self, member: M) -> None:
        """Handle a new connection of a member."""

    def _on_left(self, name: str, member: M) -> None:
        """Handle the end of a member: others may have what it had."""

    def _reporting(self, name: str, epoch: int) -> M | None:
        """Return the member whose report has come; None if it does not count: it is for another coordinator."""
        member = self._members.get(name)
        return member if member is not None and member.connected and epoch in {0, self.epoch} else None

    def _renew(self, member: M, number: int, now: float) -> None:
        """Extend a member's lease by its report with a number."""
        member.answered = max(member.answered, number)
        member.until = now + LEASE_S

    # Time

    def next_timer(self, own: str = "") -> float | None:
        """Return the time of the next `on_timer`: the first end of the lease of another member; None without one."""
        return min((member.until for name, member in self._members.items() if name != own), default=None)

    def next_end(self, own: str = "") -> float | None:
        """Return the end of the last lease of the other members; None without any. Until then, `may_resign` returns False."""
        return max((member.until for name, member in self._members.items() if name != own), default=None)

    def on_timer(self, now: float, own: str = "") -> list[str]:
        """Take back what the other members have whose leases have ended.

        Returns:
            Those that are connected, and stand still: they must begin again.
        """
        lost = [name for name, member in self._members.items() if name != own and member.until <= now]
        still = [name for name in lost if self._members[name].connected]
        for name in lost:
            self.lost += 1
            self.leave(name)
        return still

    def may_resign(self, now: float, own: str = "") -> bool:
        """Return whether another coordinator may begin: no other member can have a valid lease.

        Args:
            now: the time.
            own: the member of this broker, which has stopped.
        """
        return all(member.until <= now for name, member in self._members.items() if name != own)
