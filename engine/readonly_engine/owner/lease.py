"""Time limit for the delivery of a durable subscription without an answer of its owner. Pure: time is an argument.

An owner may give the subscription of a silent consumer to another consumer. For Exclusive it does so 5 s after another consumer
subscribes (connectionLivenessCheckTimeoutMillis), for Failover as soon as the connection counts as broken. This broker may not
notice that. So it delivers messages for OWNER_LEASE_S after the sending of the last request that the owner has answered.

A dead owner serves no other consumer. Its address refuses connections, which proves its death. Only another broker could serve
one then. It would have to load the topic first, which creates a ledger in the metadata store. So each check of both, in this
order, renews the lease, and the death of an owner does not stop reads.
"""

from __future__ import annotations

from typing import Final

OWNER_LEASE_S: Final = 5.0
"""At most the time for which an owner waits for a PONG of the present consumer (connectionLivenessCheckTimeoutMillis)."""

PROBE_S: Final = 1.0
"""The owner gets a PING when its last answered request was sent this long ago."""

NEVER: Final = float("-inf")


class OwnerLease:
    """The lease of one consumer on its owner.

    Attributes:
        until: messages may be delivered before this time.
        attached: whether the owner has the consumer, and the cursor replica has been compared with the owner's cursor since.
        lapsed: whether the lease has expired since that comparison: another consumer may have been served meanwhile.
    """

    __slots__ = ("attached", "lapsed", "until")

    def __init__(self) -> None:
        self.until = NEVER
        self.attached = False
        self.lapsed = False

    def subscribed(self, sent: float) -> None:
        """Start the lease: the owner has the consumer, and the cursor replica is no older.

        Args:
            sent: time at which an answered request was sent, the SUBSCRIBE or a later one.
        """
        self.attached, self.lapsed = True, False
        self._extend(sent)

    def answered(self, sent: float) -> None:
        """Renew the lease: the owner has answered a request that was sent at this time, on the consumer's connection."""
        if self.attached:
            self._extend(sent)

    def detached(self, now: float) -> None:
        """Stop renewals: the connection broke, or the owner closed the consumer."""
        self.attached = False
        self.holds(now)

    def extend_unowned(self, checked_at: float) -> None:
        """Renew the lease while no broker has the topic: its owner is dead, and no other broker has loaded it since.

        Args:
            checked_at: time at which the connection to the owner was tried.
        """
        if not self.attached and not self.lapsed:
            self._extend(checked_at)

    def holds(self, now: float) -> bool:
        """Return whether messages may be delivered."""
        if now < self.until:
            return True
        if not self.attached:
            self.lapsed = True
        return False

    def _extend(self, sent: float) -> None:
        self.until = max(self.until, sent + OWNER_LEASE_S)
