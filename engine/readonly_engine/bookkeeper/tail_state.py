"""Decisions of the LAC follower, pure: parameters of polls, the bookie to poll for entries, and the times of probes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

POLL_S: Final = (0.5, 10.0)
"""Timeout of the first poll above some LAC, and the upper bound; each further poll above the same LAC has 4x the timeout."""

IDLE_S: Final = 0.05
"""The LAC is idle after this time without an answer."""

FLOWING_S: Final = 0.2
"""Interval of the check for idleness with an explicit LAC, which makes a probe less urgent."""

GRACE_S: Final = 0.1
"""Allowed delay of the poll target behind another bookie; after it, the other one becomes the poll target."""

RETURN_S: Final = (1.0, 30.0)
"""Shortest and longest time after a change of the poll target until the best bookie becomes it again. It doubles with each change
soon after the one before. The best bookie may be the only one of this zone, and one late reply must not cost much traffic."""

STEADY_S: Final = 60.0
"""After this time without a change of the poll target the next return is as early as the first one."""

EXPLICIT_LAC_WAIT_S: Final = 0.5
"""Idle time until the probe for an unconfirmed entry, if the writer sends an explicit LAC."""

QUICK_S: Final = 2.5e-3
"""Batch reads start below this average interval between entries."""

NOT_QUICK_S: Final = 4 * QUICK_S
"""Batch reads end above this average interval: each change between polls and batch reads reads an entry twice."""

SLOW_S: Final = 0.1
"""Upper bound of an interval in the average, so that idle times count little."""

STALL_S: Final = 0.5
"""Batch reads continue after a shorter interruption, such as that of a busy disk or machine."""

GAP_WEIGHT: Final = 0.2
"""Weight of the newest interval in the average."""

PROBE_S: Final = (0.05, 10.0)
"""First and longest interval between probes while an entry stays unconfirmed; it doubles each time."""


class LongPollSchedule:
    """Sets the parameters of one bookie's next long poll, so that the bookie does not lose it.

    Whenever a bookie's LAC rises, it drops all waiting polls, and answers only those that wait for a lower LAC
    (TransientLedgerInfo and Watchable of BookKeeper 4.17; FileInfo does the same). Three kinds of poll are lost that way, and
    wait until their timeout, whatever is written meanwhile:

    - A bookie loads the LAC of a ledger at the first read of an entry (not at READ_LAC), and drops the poll for just that LAC.
      So the first poll does not wait. Its reply has the bookie's LAC, which the bookie keeps from then on.
    - The LAC may be known from elsewhere before this bookie has it. So the poll asks for a LAC above the bookie's own.
    - A bookie notifies waiting polls of a LAC a moment after its first replies with it. A poll in between is lost too, and
      cannot be detected. So the poll after a rise has a short timeout, and the next one comes after that moment.

    Args:
        above_own: ask for a LAC above the bookie's own. False for striped ledgers: most entries of the reply would be known from
            the other bookies already.
    """

    def __init__(self, *, above_own: bool) -> None:
        self.lac: int | None = None
        """The bookie's own LAC from its replies; None before the first."""
        self._above_own = above_own
        self._previous: int | None = None
        self._wait = POLL_S[0]

    def next(self, lac: int) -> tuple[int, float]:
        """Return the LAC for the next poll and its timeout in seconds; 0 for no wait.

        Args:
            lac: the highest known LAC.
        """
        if self.lac is None:
            return lac, 0.0
        previous = min(lac, self.lac) if self._above_own else lac
        return previous, self.wait(previous)

    def wait(self, previous: int) -> float:
        """Return the timeout of the next poll for a LAC above this one; it grows with each poll above the same LAC."""
        self._wait = min(4 * self._wait, POLL_S[1]) if previous == self._previous else POLL_S[0]
        self._previous = previous
        return self._wait

    def on_lac(self, lac: int) -> None:
        """Record the LAC of a reply, which the bookie keeps in memory."""
        self.lac = lac if self.lac is None else max(lac, self.lac)

    def forget(self) -> None:
        """Forget the bookie's LAC: it may have restarted and lost it."""
        self.lac = None


class ArrivalRate:
    """Measures the rate of entries, to choose between a poll for each entry and batch reads.

    Seconds are those of any one clock.
    """

    __slots__ = ("_came_at", "_gap", "_quick")

    def __init__(self) -> None:
        self._gap = SLOW_S
        self._quick = False
        self._came_at: float | None = None

    def on_entries(self, entries: int, now: float) -> None:
        """Record the arrival of a number of entries."""
        if self._came_at is not None:
            gap = min((now - self._came_at) / entries, SLOW_S)
            self._gap = gap + (self._gap - gap) * (1 - GAP_WEIGHT) ** entries
            self._quick = self._gap < (NOT_QUICK_S if self._quick else QUICK_S)
        self._came_at = now

    def quick(self, now: float) -> bool:
        """Whether batch reads are better than a poll for each entry."""
        return self._quick and self._came_at is not None and now - self._came_at < STALL_S


class PollTarget:
    """Chooses the one bookie to poll for entries, in an ensemble whose bookies all receive every entry and every LAC.

    The others are polled for the LAC only. Seconds are those of any one clock.

    Args:
        order: the bookies, best first.
        now: the time.
    """

    def __init__(self, order: Sequence[str], now: float) -> None:
        self.bookie = order[0]
        self._failed: tuple[str, ...] = ()
        self._left_at = now - STEADY_S
        self._pause = RETURN_S[0]
        self._check_at = now + RETURN_S[1]

    def answered(self, bookie: str) -> None:
        """Record a bookie's answer: it may become the poll target again."""
        if bookie in self._failed:
            self._failed = tuple(one for one in self._failed if one != bookie)

    def failed(self, bookie: str, order: Sequence[str], now: float) -> None:
        """Record a bookie's failure; if it is the poll target, the best one of the others replaces it."""
        if bookie not in self._failed:
            self._failed = (*self._failed, bookie)
        if bookie == self.bookie:
            others = [other for other in order if other != bookie]
            willing = [other for other in others if other not in self._failed]
            self._leave((willing or others or [bookie])[0], now)

    def overdue(self, bookie: str, lac_then: int, lac_now: int, now: float) -> bool:
        """Make a bookie the poll target if it reported a LAC above `lac_then` GRACE_S ago, and no other bookie has since.

        Returns:
            Whether the poll target was changed.
        """
        if bookie == self.bookie or lac_now > lac_then:
            return False
        self._leave(bookie, now)
        return True

    def switch_to_best(self, order: Callable[[], Sequence[str]], now: float) -> None:
        """Some time after a change, and every RETURN_S[1], make the best bookie the poll target."""
        if now < self._check_at:
            return
        self.bookie = next((bookie for bookie in order() if bookie not in self._failed), self.bookie)
        self._check_at = now + RETURN_S[1]

    def _leave(self, bookie: str, now: float) -> None:
        """Make another bookie the poll target for a while."""
        self._pause = RETURN_S[0] if now - self._left_at >= STEADY_S else min(2 * self._pause, RETURN_S[1])
        self._left_at = now
        self._check_at = now + self._pause
        self.bookie = bookie


class IdleProbe:
    """Decides whether the LAC is idle, and when to probe for an entry beyond it.

    While entries arrive, only `on_answer` is called. One probe is enough, because polls report later entries. Only a probe
    that found an unconfirmed entry is repeated.
    """

    __slots__ = ("_answered_at", "_pause", "_probe_at", "_probed")

    def __init__(self, now: float) -> None:
        self._answered_at = now
        self._probe_at: float | None = None
        self._pause = PROBE_S[0]
        self._probed = False

    def on_answer(self, now: float) -> None:
        """Record an answer of a bookie, or a rise of the LAC."""
        self._answered_at = now
        self._probe_at = None
        self._probed = False

    def flows(self, now: float) -> bool:
        """Whether the last answer is less than IDLE_S ago."""
        return now - self._answered_at < IDLE_S

    def idle_for(self, now: float) -> float:
        """Return the seconds since the last answer."""
        return now - self._answered_at

    def next(self, *, explicit: bool) -> float | None:
        """Return the time of the next probe; None for no probe before the next answer.

        Args:
            explicit: whether the writer sends an explicit LAC.
        """
        if self._probed:
            return self._probe_at
        return self._answered_at + (EXPLICIT_LAC_WAIT_S if explicit else IDLE_S)

    def due(self, now: float, *, explicit: bool) -> bool:
        """Whether to probe beyond the LAC now; the caller does so, and calls `probed`."""
        at = self.next(explicit=explicit)
        return at is not None and now >= at

    def probed(self, began: float, now: float, *, unconfirmed: bool) -> None:
        """Record a probe's result: an unconfirmed entry, or none (also without any answer, because polls continue).

        An answer since the start of the probe may be of a later entry, so it leads to one more probe.
        """
        if self._answered_at > began:
            return
        self._pause = min(2 * self._pause, PROBE_S[1]) if self._probed else PROBE_S[0]
        self._probed = True
        self._probe_at = now + self._pause if unconfirmed else None
