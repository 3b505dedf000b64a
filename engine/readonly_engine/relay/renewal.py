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

Who = TypeVar("Who")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Who]):
    """What follows from an event.

    Attributes:
        credentials: pass these on to the owners, never printed; None where nothing changes.
        expel: clients to send away.
    """

    credentials: bytes | None = field(default=None, repr=False)
    expel: frozenset[Who] = frozenset()


class Renewal(Generic[Who]):
    """One renewal.

    Args:
        expired: the credentials that the owner wants renewed.
        asked: the clients that share them.
        deadline: when those that have not answered are sent away, in seconds of the caller's clock.
    """

    def __init__(self, expired: bytes, asked: Iterable[Who], deadline: float) -> None:
        self.deadline = deadline
        self.credentials: bytes | None = None
        self._expired = expired
        self._silent = set(asked)
        self._unchanged: set[Who] = set()

    @property
    def over(self) -> bool:
        """Whether everybody has answered, or is gone."""
        return not self._silent

    def ask(self, who: Who) -> None:
        """Somebody else who shares the credentials is asked too."""
        self._silent.add(who)

    def answer(self, who: Who, credentials: bytes) -> Outcome[Who]:
        """A client answered."""
        if who not in self._silent:
            return Outcome()
        self._silent.discard(who)
        if self.credentials is not None:
            return Outcome() if credentials == self.credentials else Outcome(None, frozenset({who}))
        if credentials == self._expired:
            # It may have read its file too early: another's answer is better, and this one is for want of any.
            self._unchanged.add(who)
            return self._last_resort()
        self.credentials = credentials
        behind, self._unchanged = frozenset(self._unchanged), set()
        return Outcome(credentials, behind)

    def leave(self, who: Who) -> Outcome[Who]:
        """A client is gone."""
        self._silent.discard(who)
        self._unchanged.discard(who)
        return self._last_resort()

    def time_passed(self, now: float) -> Outcome[Who]:
        """Look at the clock."""
        if now < self.deadline:
            return Outcome()
        late, self._silent = frozenset(self._silent), set()
        return Outcome(self._last_resort().credentials, late)

    def _last_resort(self) -> Outcome[Who]:
        if self.credentials is None and self._unchanged and not self._silent:
            self.credentials = self._expired
            return Outcome(self.credentials)
        return Outcome()
