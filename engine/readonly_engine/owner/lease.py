"""How long a durable subscription may be delivered without its owner's word. Pure: time is an argument.

An owner that hears nothing of a consumer gives its place to another: of an Exclusive subscription 5 s after somebody asks for it
(connectionLivenessCheckTimeoutMillis), of a Failover subscription as soon as the connection counts as broken. This side may never
hear of that. So messages are delivered for OWNER_LEASE_S after the sending of the last request that the owner has answered.

An owner that has died gives nothing to anybody. That is known where the connection to its address is refused; from then on only
another broker could, and it would have to load the topic first, which shows in the metadata store as a new ledger. So each time
both have been looked at, in this order, the lease begins anew, and the death of an owner costs no reads.
"""

from __future__ import annotations

from typing import Final

OWNER_LEASE_S: Final = 5.0
"""No longer than an owner waits for a sign of life from the consumer that has what another asks for."""

PROBE_S: Final = 1.0
"""An owner is asked for a sign of life when its last answer was to something sent this long ago."""

NEVER: Final = float("-inf")


class OwnerLease:
    """The lease of one consumer at its owner.

    Attributes:
        until: messages may be delivered before this time.
        attached: whether the owner has the consumer, and the copy of the cursor has been compared with its own since it came.
        lapsed: whether the lease has run out since the copy was last compared: another consumer may have been served meanwhile.
    """

    __slots__ = ("attached", "lapsed", "until")

    def __init__(self) -> None:
        self.until = NEVER
        self.attached = False
        self.lapsed = False

    def subscribed(self, sent: float) -> None:
        """The owner has the consumer, and the copy of the cursor is no older than that.

        Args:
            sent: when something was sent, not before the SUBSCRIBE, that the owner has answered.
        """
        self.attached, self.lapsed = True, False
        self._extend(sent)

    def answered(self, sent: float) -> None:
        """The owner has answered what was sent then, over the connection on which it has the consumer."""
        if self.attached:
            self._extend(sent)

    def detached(self, now: float) -> None:
        """The connection broke, or the owner closed the consumer."""
        self.attached = False
        self.holds(now)

    def extend_unowned(self, checked_at: float) -> None:
        """No broker has the topic: its owner was found dead, and after that no other was found to have loaded it.

        Args:
            checked_at: when it was tried to reach the owner.
        """
        if not self.attached and not self.lapsed:
            self._extend(checked_at)

    def holds(self, now: float) -> bool:
        """Whether messages may be delivered."""
        if now < self.until:
            return True
        if not self.attached:
            self.lapsed = True
        return False

    def _extend(self, sent: float) -> None:
        self.until = max(self.until, sent + OWNER_LEASE_S)
