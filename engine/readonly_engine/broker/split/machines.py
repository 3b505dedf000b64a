"""The parts of a SplitSession that differ by the type of the subscription: its coordinator and its member. Pure.

| type | leases | coordinator, member | dispatcher |
|---|---|---|---|
| Shared | runs of entries | `Coordinator`, `Member` | `LeasedDispatcher` |
| Key_Shared | slots of keys | `KeyCoordinator`, `KeyMember` | `LeasedKeyDispatcher` |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from readonly_engine.broker.split.keys import KeyGrant, KeyReport
from readonly_engine.broker.split.leases import Grant, Report, Run

if TYPE_CHECKING:
    from readonly_engine.broker.dispatch.consumer_state import ConsumerState

AnyReport = Report | KeyReport
AnyGrant = Grant | KeyGrant

R = TypeVar("R", bound=AnyReport)
G = TypeVar("G", bound=AnyGrant)
R_co = TypeVar("R_co", bound=AnyReport, covariant=True)
R_contra = TypeVar("R_contra", bound=AnyReport, contravariant=True)
G_contra = TypeVar("G_contra", bound=AnyGrant, contravariant=True)


class LeaseCoordinator(Protocol[R_contra, G]):
    """Leases one subscription to the members."""

    @property
    def members(self) -> list[str]:
        """The members that are connected."""

    @property
    def indivisible(self) -> bool:
        """Whether one broker must serve the subscription alone."""

    def follow(self, max_unacked: int) -> None:
        """Apply a limit of unacked messages that has changed; 0 for none."""

    def join(self, name: str, now: float) -> bool:
        """Add a member, or connect it again; return False if there are too many."""

    def report(self, name: str, report: R_contra, now: float) -> bool:
        """Handle a report; return False if it does not count, and the member must begin again."""

    def disconnect(self, name: str) -> None:
        """Handle the end of a member's connection."""

    def leave(self, name: str) -> None:
        """Handle the end of a member that has stopped."""

    def grants(self, now: float, valid_until: float) -> dict[str, G]:
        """Return the next grants, none of which outlasts `valid_until`."""

    def last_grant(self) -> G:
        """Return the grant for all members when this coordinator stops."""

    @property
    def needs_cursor(self) -> bool:
        """Whether the owner's cursor must be read."""

    def reading_cursor(self) -> None:
        """Note the begin of a read of the owner's cursor."""

    def cursor_read(self) -> None:
        """Note its end."""

    def next_timer(self, own: str = "") -> float | None:
        """Return the time of the next `on_timer`."""

    def next_end(self, own: str = "") -> float | None:
        """Return the end of the last lease of the other members."""

    def on_timer(self, now: float, own: str = "") -> list[str]:
        """Take back what lost members have; return those that are connected, and must begin again."""

    def may_resign(self, now: float, own: str = "") -> bool:
        """Return whether no other member can have a valid lease."""


class LeaseMember(Protocol[R_co, G_contra]):
    """What this broker has of one subscription."""

    @property
    def epoch(self) -> int:
        """Epoch of the coordinator; 0 before its first grant."""

    @property
    def until(self) -> float:
        """End of the lease."""

    @property
    def outstanding(self) -> bool:
        """Whether a consumer has unacked messages."""

    @property
    def hurries(self) -> bool:
        """Whether the consumers may wait for what the next report asks for."""

    def add(self, consumer: ConsumerState) -> None:
        """Add a consumer."""

    def remove(self, consumer: ConsumerState) -> None:
        """Remove a consumer."""

    def placed(self, consumer: ConsumerState) -> bool:
        """Return whether a consumer gets its part of the new messages."""

    def connected(self) -> bool:
        """Handle a new connection to the coordinator; return False if the member must begin again."""

    def forget_coordinator(self) -> bool:
        """Begin anew with another coordinator; return False if the member must begin again instead."""

    def owner_moved(self) -> None:
        """Handle a new owner of the topic."""

    def on_grant(self, grant: G_contra, now: float) -> bool:
        """Apply a grant; return False if it does not count, and the member must begin again."""

    def inherit(self, grant: G_contra) -> None:
        """Keep the redelivery counts that the last grant of a coordinator has."""

    @property
    def redelivery_counts(self) -> tuple[Run, ...]:
        """Entries with redelivery counts, for the next coordinator if it is here."""

    def expired(self, now: float) -> bool:
        """Return whether the lease has ended."""

    def pause(self, now: float) -> float:
        """Return the seconds until the next `report` may have something to say without an event, or until the lease ends."""

    def report(self, now: float) -> R_co | None:
        """Return the next report; None if there is nothing new."""

    def last_report(self) -> R_co | None:
        """Return the report of a member that has stopped, if it has to say something."""

    @property
    def needs_cursor(self) -> bool:
        """Whether the owner's cursor must be read."""

    def reading_cursor(self) -> None:
        """Note the begin of a read of the owner's cursor."""

    def cursor_read(self) -> None:
        """Note its end."""
