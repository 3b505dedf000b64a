"""Lease of a session of the metadata store: the time for which it certainly lives. Pure: time is an argument, in s (clock.py)."""

from __future__ import annotations

from typing import Final

LEASE_SHARE: Final = 0.6
"""Duration of a lease as a share of the session timeout, from the sending of an answered request on.

A follower reports live sessions to ZooKeeper's leader only every half tick, and a session lasts at least two ticks. So a quarter
of the timeout may have passed already. A probe's interval is a tenth. The rest is a margin for clocks of different speed.
"""

PROBE_SHARE: Final = 0.1
"""Interval of probes as a share of the session timeout."""

SILENCE_SHARE: Final = 0.5
"""Share of the session timeout after which a silent connection is dropped, so that another server is tried."""

SESSION_TIMEOUT_S: Final = 10.0
"""Session timeout, after which a dead broker's nodes are removed.

It is shorter than Pulsar's 30 s, because a Shared subscription waits for the end of its dead broker's claim. It is longer than an
election of the store's leader (a few seconds), and longer than a busy machine delays heartbeats.
"""

EARLIER_SESSION_S: Final = 1.5 * SESSION_TIMEOUT_S
"""Longest wait for the end of an earlier session of this broker, which ends its claims."""

EARLIER_POLL_S: Final = 0.5
REGISTER_RETRY_S: Final = 1.0

NO_SESSION: Final = 0
NEVER: Final = float("-inf")


class SessionLease:
    """Lease of a session, extended by each answer of the store.

    The store ends a session when its timeout has passed since the last request that arrived. Only an answer proves that a request
    arrived.

    Attributes:
        session: id of the session; NO_SESSION before the first answer.
        until: time until which the session certainly lives.
    """

    __slots__ = ("session", "until")

    def __init__(self) -> None:
        self.session = NO_SESSION
        self.until = NEVER

    def answered(self, session: int, sent: float, timeout: float) -> bool:
        """Extend the lease after an answer.

        Args:
            session: session of the request and its answer.
            sent: time at which the request was sent.
            timeout: negotiated timeout of the session, in seconds.

        Returns:
            Whether the lease is longer now, or of another session.
        """
        until = sent + LEASE_SHARE * timeout
        if session == self.session and until <= self.until:
            return False
        self.session, self.until = session, until
        return True

    def ended(self) -> None:
        """End the lease: the session has ended."""
        self.until = NEVER

    def holds(self, now: float) -> bool:
        """Return whether the session certainly lives."""
        return now < self.until
