"""Whether owners still keep what is delivered here: the shell around the leases of owner/lease.py."""

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
    """A consumer of a durable subscription that is served here.

    Attributes:
        lease: its lease at the owner.
        lease_valid: whether it may be served.
    """

    lease: OwnerLease
    lease_valid: bool

    @property
    def owner_connection(self) -> OwnerConnection | None:
        """The connection over which the owner has it; None while it is on its way."""

    def on_lease_changed(self) -> None:
        """`lease_valid` has changed."""


class OwnerLeases:
    """Asks owners for signs of life, and suspends consumers whose lease has ended.

    While owners answer, nothing is done for each consumer.

    Args:
        guard: has the leases checked before anything is delivered.
    """

    def __init__(self, guard: LeaseGuard) -> None:
        self._guard = guard
        self._holders_of: dict[OwnerConnection, set[Leaseholder]] = {}
        self._connection_of: dict[Leaseholder, OwnerConnection] = {}
        self._detached: set[Leaseholder] = set()
        self._unresponsive: set[OwnerConnection] = set()
        guard.add(self.check)

    def subscribed(self, holder: Leaseholder, sent: float) -> None:
        """The owner has a consumer, and its copy of the cursor is no older than that (OwnerLease.subscribed)."""
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
        self._guard.check_all()

    def detached(self, holder: Leaseholder) -> None:
        """The owner has a consumer no more, or the connection broke."""
        connection = self._connection_of.get(holder)
        if connection is None:
            return
        holder.lease.answered(connection.last_answered_ping)
        self.remove(holder)
        holder.lease.detached(lease_time())
        self._detached.add(holder)
        self._guard.check_all()

    def extend_unowned(self, holder: Leaseholder, checked_at: float) -> None:
        """No broker has a consumer's topic (OwnerLease.extend_unowned)."""
        holder.lease.extend_unowned(checked_at)

    def remove(self, holder: Leaseholder) -> None:
        """A consumer has gone."""
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
        """Ask the owners that have not answered lately, and suspend what has lapsed; returns when the next lease ends."""
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
                self._set_valid(holder, lease_valid=False)
        return due

    def _on_ping_answered(self, connection: OwnerConnection) -> None:
        if connection not in self._unresponsive:
            return
        now = lease_time()
        if now >= connection.last_answered_ping + OWNER_LEASE_S:
            return  # an answer to what was asked long ago
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
