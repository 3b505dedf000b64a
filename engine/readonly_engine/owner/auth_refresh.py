"""Renewing credentials that several clients share, as a pure state machine: who was asked, who said what, and what follows.

An owner asks each of its clients for newer credentials when theirs have expired. Here it asks once on the shared connection, and
every client that came with the expired credentials must answer, as it would at the owner. The first new credentials are passed
on. Who has others than these shares them no longer: that client is sent away, and comes back with connections of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

Client = TypeVar("Client")


@dataclass(frozen=True, slots=True)
class RefreshOutcome(Generic[Client]):
    """What follows from an event.

    Attributes:
        credentials: pass these on to the owners, never printed; None where nothing changes.
        disconnect: clients to send away.
    """

    credentials: bytes | None = field(default=None, repr=False)
    disconnect: frozenset[Client] = frozenset()


class AuthRefresh(Generic[Client]):
    """One renewal.

    Args:
        expired: the credentials that the owner wants renewed.
        asked: the clients that share them.
        deadline: when those that have not answered are sent away, in seconds of the caller's clock.
    """

    def __init__(self, expired: bytes, asked: Iterable[Client], deadline: float) -> None:
        self.deadline = deadline
        self.credentials: bytes | None = None
        self._expired = expired
        self._unanswered = set(asked)
        self._unchanged: set[Client] = set()

    @property
    def done(self) -> bool:
        """Whether everybody has answered, or is gone."""
        return not self._unanswered

    def ask(self, client: Client) -> None:
        """Somebody else who shares the credentials is asked too."""
        self._unanswered.add(client)

    def answer(self, client: Client, credentials: bytes) -> RefreshOutcome[Client]:
        """A client answered."""
        if client not in self._unanswered:
            return RefreshOutcome()
        self._unanswered.discard(client)
        if self.credentials is not None:
            return RefreshOutcome() if credentials == self.credentials else RefreshOutcome(None, frozenset({client}))
        if credentials == self._expired:
            # It may have read its file too early: another's answer is better, and this one is for want of any.
            self._unchanged.add(client)
            return self._reuse_expired()
        self.credentials = credentials
        behind, self._unchanged = frozenset(self._unchanged), set()
        return RefreshOutcome(credentials, behind)

    def leave(self, client: Client) -> RefreshOutcome[Client]:
        """A client is gone."""
        self._unanswered.discard(client)
        self._unchanged.discard(client)
        return self._reuse_expired()

    def expire(self, now: float) -> RefreshOutcome[Client]:
        """Look at the clock."""
        if now < self.deadline:
            return RefreshOutcome()
        late, self._unanswered = frozenset(self._unanswered), set()
        return RefreshOutcome(self._reuse_expired().credentials, late)

    def _reuse_expired(self) -> RefreshOutcome[Client]:
        if self.credentials is None and self._unchanged and not self._unanswered:
            self.credentials = self._expired
            return RefreshOutcome(self.credentials)
        return RefreshOutcome()
