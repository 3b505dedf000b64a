"""OwnerLease as a machine of the model: its calls, and time that passes. A tick is as long as a lease."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_engine.owner.lease import OWNER_LEASE_S, OwnerLease

if TYPE_CHECKING:
    from collections.abc import Callable

NOW: Final = 0.0
LONG_AGO: Final = -2 * OWNER_LEASE_S

make: Callable[[], OwnerLease] = OwnerLease


def subscribed(lease: OwnerLease, ticks: int) -> None:
    """The owner has the consumer, which has asked for that so many ticks ago."""
    lease.subscribed(NOW - ticks * OWNER_LEASE_S)


def answered(lease: OwnerLease) -> None:
    """The owner has answered what was sent now."""
    lease.answered(NOW)


def detached(lease: OwnerLease) -> None:
    """The connection broke, or the owner has closed the consumer."""
    lease.detached(NOW)


def shifted(lease: OwnerLease) -> None:
    """A tick has passed, and the guard looks."""
    lease.until = max(lease.until - OWNER_LEASE_S, LONG_AGO)
    lease.holds(NOW)


def holds(lease: OwnerLease) -> bool:
    """Whether messages may be delivered."""
    return lease.holds(NOW)


def lapsed(lease: OwnerLease) -> bool:
    """Whether it has run out since the copy of the cursor was last compared."""
    return lease.lapsed
