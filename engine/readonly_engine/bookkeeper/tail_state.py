"""The choices of following a LAC, pure: how to poll, which bookie sends entries along, when to look for what no poll has told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

POLL_S: Final = (0.5, 10.0)
"""A poll for a LAC that was not polled for before waits so long at most; then four times as long, up to the second."""

IDLE_S: Final = 0.05
"""The LAC is at rest when nothing was heard for so long."""

FLOWING_S: Final = 0.2
"""So often it is looked whether entries still flow, where the writer tells its LAC by itself: nothing hurries then."""

GRACE_S: Final = 0.1
"""So much later than another bookie the leader may tell of something new; then the other one becomes the leader."""

RETURN_S: Final = 30.0
"""So long after the leader was changed, the best bookie leads again."""

EXPLICIT_LAC_WAIT_S: Final = 0.5
"""Where the writer tells its LAC by itself: after so long a rest it is looked whether an entry is left unconfirmed."""

QUICK_S: Final = 2.5e-3
"""On the average so little time between two entries, and they are not waited for one by one."""

NOT_QUICK_S: Final = 4 * QUICK_S
"""And with so much they are again: one that turns often between the two reads an entry twice each time."""

SLOW_S: Final = 0.1
"""A longer time between two entries counts as this, so that a rest is soon forgotten."""

STALL_S: Final = 0.5
"""A flow that stops for less than this, as it does where a disk or a machine is busy, goes on in the same way."""

GAP_WEIGHT: Final = 0.2
"""What the newest entry counts for in the average."""

PROBE_S: Final = (0.05, 10.0)
"""While an entry is left unconfirmed it is looked again after the first of these, then after twice as long, up to the second."""


class LongPollSchedule:
    """What to ask one bookie in the next long poll, so that the bookie does not forget it.

    Whenever the LAC that a bookie knows rises, it drops all waiting polls, and answers those only that wait for a lower one
    (TransientLedgerInfo and Watchable of BookKeeper 4.17; FileInfo does the same). Three kinds of poll are lost that way and wait
    until their time is up, whatever is written meanwhile:

    - A bookie does not keep in memory the LAC of a ledger that nobody has asked for: it learns it at the first read of an entry
      (not at READ_LAC), and drops the poll that is waiting for just that LAC. So the first poll does not wait; its answer is the
      bookie's LAC, which the bookie knows from then on.
    - The LAC may be known from elsewhere before this bookie knows it. So the bookie is asked for what is above its own.
    - The bookie tells the waiting polls of a LAC a moment after it answers others with it. A poll that comes in between is lost
      too, and nobody can know it. So the poll that follows news does not wait long; the next one comes when that moment is over.

    Args:
        above_own: ask for what is above the bookie's own LAC. Not where each bookie has a part of the entries only: most of what
            it would send is known from the others already.
    """

    def __init__(self, *, above_own: bool) -> None:
        self.lac: int | None = None
        """The bookie's own LAC as far as it has told; None where it has not."""
        self._above_own = above_own
        self._previous: int | None = None
        self._wait = POLL_S[0]

    def next(self, lac: int) -> tuple[int, float]:
        """What to ask now: above which LAC, and how long to wait in seconds, 0 for not at all.

        Args:
            lac: the highest one that is known.
        """
        if self.lac is None:
            return lac, 0.0
        previous = min(lac, self.lac) if self._above_own else lac
        return previous, self.wait(previous)

    def wait(self, previous: int) -> float:
        """How long to wait for a LAC above this one, of which the bookie was or was not asked before."""
        self._wait = min(4 * self._wait, POLL_S[1]) if previous == self._previous else POLL_S[0]
        self._previous = previous
        return self._wait

    def on_lac(self, lac: int) -> None:
        """The bookie told its LAC, and keeps it in memory."""
        self.lac = lac if self.lac is None else max(lac, self.lac)

    def forget(self) -> None:
        """The bookie may have been restarted, and know less than it did."""
        self.lac = None


class ArrivalRate:
    """How quickly entries come: one by one, so that each is waited for, or so that some are read at a time.

    Seconds are those of any one clock.
    """

    def __init__(self) -> None:
        self._gap = SLOW_S
        self._quick = False
        self._came_at: float | None = None

    def on_entries(self, entries: int, now: float) -> None:
        """So many have come."""
        if self._came_at is not None:
            gap = min((now - self._came_at) / entries, SLOW_S)
            self._gap = gap + (self._gap - gap) * (1 - GAP_WEIGHT) ** entries
            self._quick = self._gap < (NOT_QUICK_S if self._quick else QUICK_S)
        self._came_at = now

    def quick(self, now: float) -> bool:
        """Whether it is better not to wait for each."""
        return self._quick and self._came_at is not None and now - self._came_at < STALL_S


class PollTarget:
    """The one bookie that is polled for entries, where each bookie of the ensemble holds every entry and is told every LAC.

    The others are listened to: they tell that there is something new, and send no entry. Seconds are those of any one clock.

    Args:
        order: the bookies, best first.
        now: the time.
    """

    def __init__(self, order: Sequence[str], now: float) -> None:
        self.bookie = order[0]
        self._failed: set[str] = set()
        self._changed_at = now

    def answered(self, bookie: str) -> None:
        """A bookie answered: it may lead again."""
        self._failed.discard(bookie)

    def failed(self, bookie: str, order: Sequence[str], now: float) -> None:
        """A bookie did not answer, or closed the connection: the best one of the others leads."""
        self._failed.add(bookie)
        if bookie == self.bookie:
            others = [other for other in order if other != bookie]
            willing = [other for other in others if other not in self._failed]
            self._change((willing or others or [bookie])[0], now)

    def overdue(self, bookie: str, lac_then: int, lac_now: int, now: float) -> bool:
        """GRACE_S ago a bookie knew more than `lac_then`; where nobody has told of it meanwhile, that bookie leads.

        Returns:
            Whether the leader was changed.
        """
        if bookie == self.bookie or lac_now > lac_then:
            return False
        self._change(bookie, now)
        return True

    def switch_to_best(self, order: Callable[[], Sequence[str]], now: float) -> None:
        """Now and then, let the bookie lead that is the best one by now."""
        if now - self._changed_at < RETURN_S:
            return
        best = next((bookie for bookie in order() if bookie not in self._failed), self.bookie)
        self._change(best, now)

    def _change(self, bookie: str, now: float) -> None:
        self.bookie = bookie
        self._changed_at = now


class IdleProbe:
    """When the LAC has come to rest, and when to look for an entry beyond it.

    Most of the time entries flow, and `heard` is all that is called. One look is enough: whatever comes later is heard of.
    Only an entry that is found unconfirmed is looked for again and again.
    """

    def __init__(self, now: float) -> None:
        self._answered_at = now
        self._probe_at: float | None = None
        self._pause = PROBE_S[0]
        self._probed = False

    def on_answer(self, now: float) -> None:
        """A bookie told something, or the LAC rose."""
        self._answered_at = now
        self._probe_at = None
        self._probed = False

    def flows(self, now: float) -> bool:
        """Whether something was heard just now."""
        return now - self._answered_at < IDLE_S

    def idle_for(self, now: float) -> float:
        """Seconds since something was heard."""
        return now - self._answered_at

    def next(self, *, explicit: bool) -> float | None:
        """When to call `due`, at the earliest; None for not before something is heard.

        Args:
            explicit: whether the writer tells its LAC by itself.
        """
        if self._probed:
            return self._probe_at
        return self._answered_at + (EXPLICIT_LAC_WAIT_S if explicit else IDLE_S)

    def due(self, now: float, *, explicit: bool) -> bool:
        """Whether to look beyond the LAC now; the caller does so, and says what it found."""
        at = self.next(explicit=explicit)
        return at is not None and now >= at

    def probed(self, began: float, now: float, *, unconfirmed: bool) -> None:
        """Take what was found: an entry that is left unconfirmed, or none (also where nobody answered: polls are under way).

        What was heard after the look began may have come after it: then there is one more look.
        """
        if self._answered_at > began:
            return
        self._pause = min(2 * self._pause, PROBE_S[1]) if self._probed else PROBE_S[0]
        self._probed = True
        self._probe_at = now + self._pause if unconfirmed else None
