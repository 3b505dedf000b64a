"""Leases of consumers on their owners: the shell around the state machine of owner/lease.py."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Protocol

from readonly_engine.clock import lease_time
from readonly_engine.owner.lease import OWNER_LEASE_S, PROBE_S

if TYPE_CHECKING:
    from readonly_engine.lease_guard import LeaseGuard
    from readonly_engine.owner.connection import OwnerConnection
    from readonly_engine.owner.lease import OwnerLease


log = logging.getLogger(__name__)


class Leaseholder(Protocol):
    """A consumer of a durable subscription that this broker serves.

    Attributes:
        lease: lease on the owner.
        lease_valid: whether the lease is valid, so that the consumer may be served.
    """

    lease: OwnerLease
    lease_valid: bool

    @property
    def owner_connection(self) -> OwnerConnection | None:
        """The consumer's connection to the owner; None while it subscribes again."""

    def on_lease_changed(self) -> None:
        """Handle a change of `lease_valid`."""


class OwnerLeases:
    """Sends PINGs to owners, and marks consumers whose lease has ended.

    While owners answer, the cost does not depend on the number of consumers.

    Args:
        guard: checks the leases before each delivery.
    """

    def __init__(self, guard: LeaseGuard) -> None:
        self._guard = guard
        self._holders_of: dict[OwnerConnection, set[Leaseholder]] = {}
        self._connection_of: dict[Leaseholder, OwnerConnection] = {}
        self._detached: set[Leaseholder] = set()
        self._unresponsive: set[OwnerConnection] = set()
        guard.add(self.check)

    def subscribed(self, holder: Leaseholder, sent: float) -> None:
        """Start the lease of a consumer that is on the owner, with a copy of the cursor no older than `sent`.

        Args:
            holder: the consumer.
            sent: time of an answered request (OwnerLease.subscribed).
        """
        connection = holder.owner_connection
        if connection is None:
            return
        self.remove(holder)
        holder.lease.subscribed(sent)
        if connection not in self._holders_of:
            connection.ping_listener = self._on_ping_answered
        self._holders_of.setdefault(connection, set()).add(holder)
        self._connection_of[holder] = connection
        self._update(connection, holder, lease_time())
        self._guard.note(connection.last_answered_ping + OWNER_LEASE_S)

    def detached(self, holder: Leaseholder) -> None:
        """Stop the renewal of a consumer's lease: the owner has closed it, or the connection broke."""
        connection = self._connection_of.get(holder)
        if connection is None:
            return
        holder.lease.answered(connection.last_answered_ping)
        self.remove(holder)
        holder.lease.detached(lease_time())
        self._detached.add(holder)
        self._guard.note(holder.lease.until)

    def extend_unowned(self, holder: Leaseholder, checked_at: float) -> None:
        """Extend the lease of a consumer whose topic has no owner (OwnerLease.extend_unowned)."""
        holder.lease.extend_unowned(checked_at)

    def remove(self, holder: Leaseholder) -> None:
        """Remove a consumer."""
        self._detached.discard(holder)
        connection = self._connection_of.pop(holder, None)
        if connection is None:
            return
        self._holders_of[connection].discard(holder)
        if not self._holders_of[connection]:
            del self._holders_of[connection]
            self._unresponsive.discard(connection)
            connection.ping_listener = None

    def check(self, now: float) -> float:
        """Send PINGs to owners without a recent answer, and mark ended leases; return the end of the next lease."""
        due = math.inf
        for connection, holders in list(self._holders_of.items()):
            if now - connection.last_answered_ping >= PROBE_S:
                connection.probe()
            ends = connection.last_answered_ping + OWNER_LEASE_S
            if now < ends:
                due = min(due, ends)
            else:
                for holder in [holder for holder in holders if holder.lease_valid]:
                    self._update(connection, holder, now)
        for holder in list(self._detached):
            if holder.lease.holds(now):
                due = min(due, holder.lease.until)
            else:
                self._detached.discard(holder)  # until it subscribes again
                self._set_valid(holder, lease_valid=False)
        return due

    def _on_ping_answered(self, connection: OwnerConnection) -> None:
        if connection not in self._unresponsive:
            return
        now = lease_time()
        if now >= connection.last_answered_ping + OWNER_LEASE_S:
            return  # the answer to an old PING
        self._unresponsive.discard(connection)
        for holder in list(self._holders_of.get(connection, ())):
            self._update(connection, holder, now)
        self._guard.check_all()

    def _update(self, connection: OwnerConnection, holder: Leaseholder, now: float) -> None:
        holder.lease.answered(connection.last_answered_ping)
        held = holder.lease.holds(now)
        if not held:
            self._unresponsive.add(connection)
        self._set_valid(holder, lease_valid=held)

    @staticmethod
    def _set_valid(holder: Leaseholder, *, lease_valid: bool) -> None:
        if holder.lease_valid != lease_valid:
            holder.lease_valid = lease_valid
            holder.on_lease_changed()
