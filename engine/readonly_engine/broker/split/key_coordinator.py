"""The coordinator of a split Key_Shared subscription: leases slots of keys to the members. Pure; time is an argument.

Consistent hashing over the consumers of all members assigns the slots, as on one broker. A slot moves in this order: its member
is told to leave it, dispatches nothing more of it, and releases it when its consumers have acked what they have (PIP-379, over
several brokers). Only then the next member may use it, which reads the owner's cursor first. A lost member's slots are free at
the end of its lease.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from readonly_engine.broker.dispatch.leased_keys import ConsistentHashRing
from readonly_engine.broker.split.keys import MAX_CONSUMERS, KeyConsumer, KeyGrant
from readonly_engine.broker.split.leases import LEASE_S, MAX_MEMBERS

if TYPE_CHECKING:
    from readonly_engine.broker.split.keys import KeyReport, LocalConsumer


@dataclass(slots=True)
class _Member:
    """A member as the coordinator knows it.

    Attributes:
        slots: the slots that it may use, or has not released.
        leaving: those of them that it was told to leave.
        wanted: the slots of its consumers on the ring.
        until: end of its lease.
        answered: number of its last report.
        changed: whether it must get its slots again.
        connected: whether it has a connection.
        reported: whether it has reported on this connection, and can get slots.
    """

    slots: int = 0
    leaving: int = 0
    wanted: int = 0
    until: float = 0.0
    answered: int = 0
    changed: bool = True
    connected: bool = True
    reported: bool = False


class KeyCoordinator:
    """Leases the slots of one subscription.

    Args:
        epoch: identifies this coordinator among all that the subscription ever has; above 0.
    """

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self._members: dict[str, _Member] = {}
        self._consumers: tuple[KeyConsumer, ...] = ()

    @property
    def members(self) -> list[str]:
        """The members that are connected."""
        return [name for name, member in self._members.items() if member.connected]

    # Members

    def join(self, name: str, now: float) -> bool:
        """Add a member, or connect it again; its report with all slots that it has must follow.

        Returns:
            False if there are too many.
        """
        member = self._members.get(name)
        if member is None:
            if len(self._members) >= MAX_MEMBERS:
                return False
            member = self._members[name] = _Member()
        member.connected, member.reported, member.changed, member.answered = True, False, True, 0
        member.until = max(member.until, now + LEASE_S)
        return True

    def report(self, name: str, report: KeyReport, now: float) -> bool:
        """Handle a report.

        Returns:
            False if it does not count: it is for another coordinator, or there are too many consumers. The member must begin
            again.
        """
        member = self._members.get(name)
        if member is None or not member.connected or report.epoch not in {0, self.epoch}:
            return False
        if report.held is not None:
            if report.held & ~member.slots:
                return False  # it has been away for longer than its lease
            self._free(member, member.slots & ~report.held)  # of a grant or a report that was lost
        self._free(member, report.released & member.leaving)
        if report.consumers is not None and not self._place(name, report.consumers):
            return False
        member.reported = True
        member.answered = max(member.answered, report.number)
        member.until = now + LEASE_S
        return True

    def disconnect(self, name: str) -> None:
        """Handle the end of a member's connection: its slots are free at the end of its lease, unless it returns."""
        member = self._members.get(name)
        if member is not None:
            member.connected = False

    def leave(self, name: str) -> None:
        """Handle the end of a member that has stopped, and has nothing."""
        if self._members.pop(name, None) is not None:
            self._place(name, ())

    def _free(self, member: _Member, slots: int) -> None:
        member.slots &= ~slots
        member.leaving &= ~slots

    def _place(self, name: str, consumers: tuple[LocalConsumer, ...]) -> bool:
        """Put the consumers of a member on the ring, after the present ones; return False if there are too many."""
        local = {consumer.number for consumer in consumers}
        placed = [one for one in self._consumers if one.member != name or one.number in local]
        known = {one.number for one in placed if one.member == name}
        if len(placed) + len(local - known) > MAX_CONSUMERS:
            return False
        for consumer in consumers:
            if consumer.number not in known:
                taken = {one.index for one in placed if one.name == consumer.name}
                index = next(index for index in range(len(taken) + 1) if index not in taken)
                placed.append(KeyConsumer(name, consumer.number, consumer.name, index))
        if tuple(placed) != self._consumers:
            self._consumers = tuple(placed)
            self._assign()
        return True

    def _assign(self) -> None:
        """Compute the slots of all members after a change of the consumers."""
        numbers = {name: number for number, name in enumerate(self._members)}
        present = [one for one in self._consumers if one.member in numbers]
        wanted = ConsistentHashRing(present).slots([numbers[one.member] for one in present], len(numbers))
        for (_, member), slots in zip(self._members.items(), wanted, strict=True):
            member.wanted, member.changed = slots, True

    # Time

    def next_timer(self, own: str = "") -> float | None:
        """Return the time of the next `on_timer`: the first end of the lease of another member; None without one."""
        return min((member.until for name, member in self._members.items() if name != own), default=None)

    def on_timer(self, now: float, own: str = "") -> list[str]:
        """Free the slots of the other members whose leases have ended.

        Returns:
            Those that are connected, and stand still: they must begin again.
        """
        lost = [name for name, member in self._members.items() if name != own and member.until <= now]
        still = [name for name in lost if self._members[name].connected]
        for name in lost:
            self.leave(name)
        return still

    def may_resign(self, now: float, own: str = "") -> bool:
        """Return whether another coordinator may begin: no other member can have a valid lease."""
        return all(member.until <= now for name, member in self._members.items() if name != own)

    # Leases

    def grants(self, now: float, valid_until: float) -> dict[str, KeyGrant]:
        """Return the next grants, one for each member whose slots change, or which waits for an answer.

        Args:
            now: the time.
            valid_until: end of this broker's claim, which no lease outlasts.
        """
        if now >= valid_until:
            return {}
        used = 0
        for member in self._members.values():
            used |= member.slots
        grants = {}
        for name, member in self._members.items():
            if not (member.connected and member.reported):
                continue
            member.leaving |= member.slots & ~member.wanted
            gained = member.wanted & ~used
            member.slots |= gained
            if not (gained or member.changed or member.answered):
                continue
            state: tuple[tuple[KeyConsumer, ...] | None, int] = (None, 0)
            if gained or member.changed:
                state = (self._consumers, member.slots & ~member.leaving)
            grants[name] = KeyGrant(self.epoch, member.answered, min(LEASE_S, valid_until - now), *state)
            member.answered, member.changed = 0, False
        return grants
