"""Localities that have members again: consumers that were sent elsewhere meanwhile may look up again. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

STABLE_S: Final = 15.0
"""Time for which a returned locality must have members, so that a member that restarts again and again moves nothing."""

MAX_ABSENT: Final = 100
"""Localities without members that are remembered; beyond it, the one that is absent for longest is forgotten."""


class Period(NamedTuple):
    """Times of subscribing of the consumers that should look up again.

    Attributes:
        since: inclusive.
        until: exclusive.
    """

    since: float
    until: float

    def merge(self, other: Period | None) -> Period:
        """Return the shortest period that covers both."""
        return self if other is None else Period(min(self.since, other.since), max(self.until, other.until))


class ReturnedLocalities:
    """Follows the localities that have members. Times are in seconds of any clock.

    A broker does not know the localities of its consumers, because another broker may have answered their lookups. It knows when
    each consumer subscribed, and when a locality had no members.
    """

    def __init__(self) -> None:
        self._started: float | None = None
        self._updated = 0.0
        self._present: dict[str, float] = {}  # time of appearance
        self._absent: dict[str, float] = {}  # earliest time of disappearance, until the return is handled

    def update(self, localities: Collection[str], now: float) -> Period | None:
        """Set the localities that have members; return the period of a locality that has returned, None without one.

        Args:
            localities: the localities of all live members; an empty one, of a member whose locality is unknown, is ignored.
            now: the time.
        """
        present = {locality for locality in localities if locality}
        if self._started is None:
            self._started = self._updated = now
            self._present = dict.fromkeys(present, now)
            return None
        for locality in self._present.keys() - present:
            del self._present[locality]
            self._absent.setdefault(locality, self._updated)  # it disappeared at some time since then
        for locality in present - self._present.keys():
            self._present[locality] = now
            # A locality that was not seen before may have been absent since before the start of this broker.
            self._absent.setdefault(locality, self._started)
        self._updated = now
        while len(self._absent) > MAX_ABSENT:
            del self._absent[min(self._absent, key=self._absent.__getitem__)]
        found: Period | None = None
        for locality, since in list(self._absent.items()):
            returned = self._present.get(locality)
            if returned is not None and now - returned >= STABLE_S:
                del self._absent[locality]
                found = Period(since, returned).merge(found)
        return found
