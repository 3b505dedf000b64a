"""Whether owners still keep what is delivered here: the shell around the leases of relay/owner_lease.py."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Protocol

from readonly_engine.broker.pause import Pause
from readonly_engine.clock import lease_time
from readonly_engine.relay.owner_lease import OWNER_LEASE_S, PROBE_S

if TYPE_CHECKING:
    from readonly_engine.broker.consumer import Consumer
    from readonly_engine.broker.lease_guard import LeaseGuard
    from readonly_engine.broker.subscription import Subscription
    from readonly_engine.relay.connection import OwnerConnection
    from readonly_engine.relay.owner_lease import OwnerLease


log = logging.getLogger(__name__)


class Leaseholder(Protocol):
    """A consumer of a durable subscription that is served here.

    Attributes:
        lease: its lease at the owner.
        vouched: whether it may be served.
    """

    lease: OwnerLease
    vouched: bool

    @property
    def owner_connection(self) -> OwnerConnection | None:
        """The connection over which the owner has it; None while it is on its way."""

    def heed_owner(self) -> None:
        """`vouched` has changed."""


def heed_owner(subscription: Subscription, served: list[Consumer]) -> None:
    """Have a subscription deliver as long as its owner has given it to nobody else, for certain.

    Args:
        subscription: the subscription.
        served: those of its consumers who get messages.
    """
    if not served or any(consumer.vouched for consumer in served):
        if subscription.paused & Pause.OWNER:
            log.info("%s, %s: its owner answers again", subscription.topic, subscription.name)
            subscription.resume(Pause.OWNER)
    elif not subscription.paused & Pause.OWNER:
        log.warning(
            "%s, %s is suspended: its owner does not answer, and may serve others",
            subscription.topic,
            subscription.name,
        )
        subscription.pause(Pause.OWNER)


class OwnerLeases:
    """Asks owners for signs of life, and suspends consumers whose lease has ended.

    While owners answer, nothing is done for each consumer.

    Args:
        guard: has the leases checked before anything is delivered.
    """

    def __init__(self, guard: LeaseGuard) -> None:
        self._guard = guard
        self._at: dict[OwnerConnection, set[Leaseholder]] = {}
        self._of: dict[Leaseholder, OwnerConnection] = {}
        self._away: set[Leaseholder] = set()
        self._silent: set[OwnerConnection] = set()
        guard.add(self.check)

    def subscribed(self, holder: Leaseholder, sent: float) -> None:
        """The owner has a consumer, and its copy of the cursor is no older than that (OwnerLease.subscribed)."""
        connection = holder.owner_connection
        if connection is None:
            return
        self.left(holder)
        holder.lease.subscribed(sent)
        if connection not in self._at:
            connection.answer_listener = self._answered
        self._at.setdefault(connection, set()).add(holder)
        self._of[holder] = connection
        self._weigh(connection, holder, lease_time())
        self._guard.run()

    def detached(self, holder: Leaseholder) -> None:
        """The owner has a consumer no more, or the connection broke."""
        connection = self._of.get(holder)
        if connection is None:
            return
        holder.lease.answered(connection.answered)
        self.left(holder)
        holder.lease.detached(lease_time())
        self._away.add(holder)
        self._guard.run()

    def unowned(self, holder: Leaseholder, looked: float) -> None:
        """No broker has a consumer's topic (OwnerLease.unowned)."""
        holder.lease.unowned(looked)

    def left(self, holder: Leaseholder) -> None:
        """A consumer has gone."""
        self._away.discard(holder)
        connection = self._of.pop(holder, None)
        if connection is None:
            return
        self._at[connection].discard(holder)
        if not self._at[connection]:
            del self._at[connection]
            self._silent.discard(connection)
            connection.answer_listener = None

    def check(self, now: float) -> float:
        """Ask the owners that have not answered lately, and suspend what has lapsed; returns when the next lease ends."""
        due = math.inf
        for connection, holders in list(self._at.items()):
            if now - connection.answered >= PROBE_S:
                connection.probe()
            ends = connection.answered + OWNER_LEASE_S
            if now < ends:
                due = min(due, ends)
            else:
                for holder in [holder for holder in holders if holder.vouched]:
                    self._weigh(connection, holder, now)
        for holder in list(self._away):
            if holder.lease.holds(now):
                due = min(due, holder.lease.until)
            else:
                self._heed(holder, vouched=False)
        return due

    def _answered(self, connection: OwnerConnection) -> None:
        if connection not in self._silent:
            return
        now = lease_time()
        if now >= connection.answered + OWNER_LEASE_S:
            return  # an answer to what was asked long ago
        self._silent.discard(connection)
        for holder in list(self._at.get(connection, ())):
            self._weigh(connection, holder, now)
        self._guard.run()

    def _weigh(self, connection: OwnerConnection, holder: Leaseholder, now: float) -> None:
        holder.lease.answered(connection.answered)
        held = holder.lease.holds(now)
        if not held:
            self._silent.add(connection)
        self._heed(holder, vouched=held)

    @staticmethod
    def _heed(holder: Leaseholder, *, vouched: bool) -> None:
        if holder.vouched != vouched:
            holder.vouched = vouched
            holder.heed_owner()
