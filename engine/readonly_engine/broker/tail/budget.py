"""Decides when the owner pushes a topic's entries and how many, pure. Times are seconds of any one clock."""

from __future__ import annotations

from typing import Final, NamedTuple

SUBSCRIPTION_PREFIX: Final = "pulsar-readonly-tail-"
"""Begin of the names of read-only brokers' subscriptions at owners."""

RETURN_SHARE: Final = 0.8
"""The owner pushes again below this share of the budget's rate: a rate at the limit does not change the source all the time."""

RETURN_S: Final = (5.0, 80.0)
"""Shortest and longest time of reads from bookies. It doubles with each change soon after the one before."""

STEADY_S: Final = 60.0
"""After this time of pushes the next reads from bookies are as short as the first ones."""

MAX_WINDOW: Final = 400
"""Most permits of an owner at once. A change of the bound takes effect when half of them are used."""

FEW_READERS: Final = 3
"""Number of subscriptions up to which a topic is pushed at high rates, too. There the pushes cost about as much as these readers
would, and bookies more. With more readers the owner is spared: bookies cost the broker little more per delivered message."""


class PushRate(NamedTuple):
    """Bound of what an owner delivers to one broker for one topic.

    Attributes:
        messages: messages per second.
        burst: messages at once, after a quiet time.
        bytes: bytes per second.
    """

    messages: float = 1500.0
    burst: int = 3000
    bytes: float = 4e6

    @property
    def window(self) -> int:
        """Permits of the owner, filled when half of them are used."""
        return max(min(self.burst // 2, MAX_WINDOW), 1)


ACROSS_ZONES: Final = PushRate(20.0, 40, 40e3)
"""Bound where some bookies are nearer than others. The owner's zone is not known: what it pushes may cross zones once more."""

MANY_READERS: Final = PushRate(400.0, 800, 4e6)
"""Bound of a topic with more than FEW_READERS subscriptions: above it entries come in groups from bookies too (ArrivalRate)."""

ANY_RATE: Final = PushRate(1e9, 1 << 30, 1e15)
"""No bound, in fact."""


class PushTotals(NamedTuple):
    """What owners have pushed.

    Attributes:
        messages: messages.
        bytes: bytes of their entries.
    """

    messages: int = 0
    bytes: int = 0

    def plus(self, other: PushTotals) -> PushTotals:
        """Return the sum of both."""
        return PushTotals(self.messages + other.messages, self.bytes + other.bytes)


class TailSettings(NamedTuple):
    """How owners push new entries to this broker.

    Attributes:
        subscription: name of the broker's subscription at each topic's owner.
        rate: bound of the pushes of a topic with few readers.
        rate_many_readers: the bound for a topic with more than FEW_READERS subscriptions, or none that needs all entries.
        rate_across_zones: the bound for a topic some of whose bookies are nearer than others.
    """

    subscription: str
    rate: PushRate = PushRate()
    rate_many_readers: PushRate = MANY_READERS
    rate_across_zones: PushRate = ACROSS_ZONES

    def rate_for(self, readers: int, *, across_zones: bool, end_only: bool = False) -> PushRate:
        """Return the bound for a topic.

        Args:
            readers: number of its subscriptions on this broker.
            across_zones: whether some of its bookies are nearer than others.
            end_only: whether no subscription needs all entries. Polls at bookies then return few of them.
        """
        if across_zones:
            return self.rate_across_zones
        return self.rate_many_readers if end_only or readers > FEW_READERS else self.rate


class PushBudget:
    """Token bucket of messages and bytes, whose tokens are given to the owner as permits.

    The owner delivers at most `rate.burst` messages and `rate.messages` per second more. A batch is delivered whole, so the last
    one may exceed the permits. Then the tokens are in debt.

    Args:
        rate: the bound.
        now: the time.

    Attributes:
        permits: permits that the owner has; below 0 after a batch that exceeded them.
        bytes_left: bytes that the owner may deliver now; below 0 if the delivered ones exceed their rate.
    """

    __slots__ = ("_at", "_bytes_granted", "_permits_granted", "_rate", "_tokens", "bytes_left", "permits")

    def __init__(self, rate: PushRate, now: float) -> None:
        self._rate = rate
        self._tokens = float(rate.burst)
        self.bytes_left = rate.bytes * rate.burst / rate.messages
        self._at = now
        self.permits = 0
        self._permits_granted = 0
        self._bytes_granted = self.bytes_left

    @property
    def delivered(self) -> PushTotals:
        """What the owner has delivered: all that it was granted, less what is left. So a delivery counts nothing more."""
        return PushTotals(self._permits_granted - self.permits, round(self._bytes_granted - self.bytes_left))

    def set_rate(self, rate: PushRate) -> None:
        """Apply another bound from now on. The owner keeps its permits."""
        self._rate = rate

    def take(self, permits: int, now: float) -> int:
        """Take tokens for permits; return 0, and take none, if there are not enough for all of them.

        A full bucket suffices for any number: a batch may have more messages than the burst. Then the tokens are in debt.
        """
        elapsed, self._at = max(now - self._at, 0.0), max(now, self._at)
        rate = self._rate
        self._tokens = min(self._tokens + elapsed * rate.messages, rate.burst - max(self.permits, 0))
        before = self.bytes_left
        self.bytes_left = min(before + elapsed * rate.bytes, rate.bytes * rate.burst / rate.messages)
        self._bytes_granted += self.bytes_left - before
        if self.bytes_left < 0 or self._tokens < min(permits, rate.burst):
            return 0
        self._tokens -= permits
        self.permits += permits
        self._permits_granted += permits
        return permits

    def on_delivered(self, messages: int, size: int) -> None:
        """Record a delivery.

        Args:
            messages: messages of the entries.
            size: their bytes.
        """
        self.permits -= messages
        self.bytes_left -= size

    def end(self) -> None:
        """Take back the permits that the owner has not used, or pay the debt, because its subscription has ended."""
        self._tokens += self.permits
        self._permits_granted -= self.permits
        self.permits = 0


class SourceSchedule:
    """Decides when the owner may push again after its budget was exhausted.

    Args:
        rate: bound of the pushes.
    """

    __slots__ = ("_hold", "_limit", "_pushed_at", "_read_at")

    def __init__(self, rate: PushRate) -> None:
        self.set_rate(rate)
        self._hold = RETURN_S[0]
        self._pushed_at: float | None = None
        self._read_at = 0.0

    def set_rate(self, rate: PushRate) -> None:
        """Apply another bound from now on."""
        self._limit = rate.messages * RETURN_SHARE

    def pushed(self, now: float) -> None:
        """Record the start of pushes."""
        self._pushed_at = now

    def exhausted(self, now: float) -> float:
        """Record the end of pushes for want of tokens; return the seconds until `may_push` decides."""
        steady = self._pushed_at is None or now - self._pushed_at >= STEADY_S
        self._hold = RETURN_S[0] if steady else min(2 * self._hold, RETURN_S[1])
        self._pushed_at = None
        self._read_at = now
        return self._hold

    def may_push(self, messages: float, now: float) -> bool:
        """Return whether the owner may push again; else the next question is due RETURN_S[0] later.

        Args:
            messages: messages of the topic since the last call or `exhausted`.
            now: the time.
        """
        elapsed, self._read_at = now - self._read_at, now
        return messages < self._limit * max(elapsed, 1e-3)
