"""OwnerLease as a machine of the model: its calls, and the passing of time. A tick is as long as a lease."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_engine.owner.lease import OWNER_LEASE_S, OwnerLease

if TYPE_CHECKING:
    from collections.abc import Callable

NOW: Final = 0.0
LONG_AGO: Final = -2 * OWNER_LEASE_S

make: Callable[[], OwnerLease] = OwnerLease


def subscribed(lease: OwnerLease, ticks: int) -> None:
    """Record the owner's acceptance of a consumer that was requested `ticks` ticks ago."""
    lease.subscribed(NOW - ticks * OWNER_LEASE_S)


def answered(lease: OwnerLease) -> None:
    """Record the owner's answer to a request that was sent now."""
    lease.answered(NOW)


def detached(lease: OwnerLease) -> None:
    """Record a broken connection, or a consumer that the owner closed."""
    lease.detached(NOW)


def shifted(lease: OwnerLease) -> None:
    """Let a tick pass, and check the lease as the guard does."""
    lease.until = max(lease.until - OWNER_LEASE_S, LONG_AGO)
    lease.holds(NOW)


def holds(lease: OwnerLease) -> bool:
    """Return whether messages may be delivered."""
    return lease.holds(NOW)


def lapsed(lease: OwnerLease) -> bool:
    """Return whether the lease has expired since the last comparison of the cursor's copy."""
    return lease.lapsed
