"""Renewal of credentials that several clients share, as a pure state machine.

An owner asks each of its clients for newer credentials when theirs have expired. A shared connection gets one challenge, and
every client with the expired credentials must answer it, as it would on the owner. The first new credentials go to the owners.
A client with other credentials no longer shares them: it is disconnected, and reconnects under its own identity.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

Client = TypeVar("Client")


@dataclass(frozen=True, slots=True)
class RefreshOutcome(Generic[Client]):
    """The actions after an event.

    Attributes:
        credentials: credentials for the owners, never printed; None for no change.
        disconnect: clients to disconnect.
    """

    credentials: bytes | None = field(default=None, repr=False)
    disconnect: frozenset[Client] = frozenset()


class AuthRefresh(Generic[Client]):
    """One renewal.

    Args:
        expired: the credentials that the owner asks to renew.
        asked: the clients that share them.
        deadline: time at which clients without an answer are disconnected, in seconds of the caller's clock.
    """

    def __init__(self, expired: bytes, asked: Iterable[Client], deadline: float) -> None:
        self._deadline = deadline
        self.credentials: bytes | None = None
        self._expired = expired
        self._unanswered = set(asked)
        self._unchanged: set[Client] = set()

    @property
    def done(self) -> bool:
        """Whether every client has answered or disconnected."""
        return not self._unanswered

    def ask(self, client: Client) -> None:
        """Add a client with the same credentials."""
        self._unanswered.add(client)

    def answer(self, client: Client, credentials: bytes) -> RefreshOutcome[Client]:
        """Handle the answer of a client."""
        if client not in self._unanswered:
            return RefreshOutcome()
        self._unanswered.discard(client)
        if self.credentials is not None:
            return RefreshOutcome() if credentials == self.credentials else RefreshOutcome(None, frozenset({client}))
        if credentials == self._expired:
            # It may have read its file too early: the answer of another client is preferred.
            self._unchanged.add(client)
            return self._reuse_expired()
        self.credentials = credentials
        outdated, self._unchanged = frozenset(self._unchanged), set()
        return RefreshOutcome(credentials, outdated)

    def leave(self, client: Client) -> RefreshOutcome[Client]:
        """Handle the disconnect of a client."""
        self._unanswered.discard(client)
        self._unchanged.discard(client)
        return self._reuse_expired()

    def next_timer(self) -> float:
        """Return the time of `on_timer`."""
        return self._deadline

    def on_timer(self, now: float) -> RefreshOutcome[Client]:
        """Handle the deadline, if it has passed."""
        if now < self._deadline:
            return RefreshOutcome()
        late, self._unanswered = frozenset(self._unanswered), set()
        return RefreshOutcome(self._reuse_expired().credentials, late)

    def _reuse_expired(self) -> RefreshOutcome[Client]:
        if self.credentials is None and self._unchanged and not self._unanswered:
            self.credentials = self._expired
            return RefreshOutcome(self.credentials)
        return RefreshOutcome()
