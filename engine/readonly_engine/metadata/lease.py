"""How long a session of the metadata store certainly lives. Pure: time is an argument, in seconds (see clock.py)."""

from __future__ import annotations

from typing import Final

LEASE_SHARE: Final = 0.6
"""The part of the session timeout that a lease lasts, counted from the sending of a request that was answered.

A follower tells ZooKeeper's leader only every half tick which sessions it has heard from, and a session lasts two ticks at least:
a quarter of the timeout may be gone already. A probe's interval is a tenth. The rest is for clocks that run unevenly.
"""

PROBE_SHARE: Final = 0.1
"""The part of the session timeout between two probes."""

SILENCE_SHARE: Final = 0.5
"""The part of the session timeout after which a connection that answers nothing is given up, so that another server is tried."""

NO_SESSION: Final = 0
NEVER: Final = float("-inf")


class SessionLease:
    """What the answers of the store prove: the session lives until then, at least.

    A session ends at the store once its timeout has passed since the store last heard from it. When that was, only an answer
    proves: requests that are sent and not answered may never have arrived.

    Attributes:
        session: which; NO_SESSION before the first answer.
        until: when it may end.
    """

    __slots__ = ("session", "until")

    def __init__(self) -> None:
        self.session = NO_SESSION
        self.until = NEVER

    def answered(self, session: int, sent: float, timeout: float) -> bool:
        """Take an answer into account.

        Args:
            session: in which the request was sent and answered.
            sent: when it was sent.
            timeout: the session's, as negotiated, in seconds.

        Returns:
            Whether the lease is longer now, or that of another session.
        """
        until = sent + LEASE_SHARE * timeout
        if session == self.session and until <= self.until:
            return False
        self.session, self.until = session, until
        return True

    def ended(self) -> None:
        """The session is known to have ended."""
        self.until = NEVER

    def holds(self, now: float) -> bool:
        """Whether the session lives for certain."""
        return now < self.until
