"""Rates of the figures that are shown, between two requests for them. Pure; the time is an argument, in seconds."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, NamedTuple, TypeVar

from readonly_engine.broker.consumer.rates import Rate

K = TypeVar("K")

MIN_INTERVAL_S: Final = 1.0
"""Shortest interval of a rate. A request before its end gets the last rate, so many viewers do not shorten the interval."""

MAX_AGE_S: Final = 90.0
"""Age of a sample above which it gives no rate."""

MAX_KEPT: Final = 2000
"""Number of samples. The one that was used the longest ago is dropped."""


class _Sample(NamedTuple):
    at: float
    messages: int
    bytes: int
    rate: Rate | None


class RecentRates(Generic[K]):
    """Rates of counters by key. Nothing runs, and little is kept, while nobody asks."""

    def __init__(self) -> None:
        self._samples: OrderedDict[K, _Sample] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self._samples)

    def of(self, key: K, messages: int, bytes_: int, now: float) -> Rate | None:
        """Return the rate since the last call for this key; None at the first call.

        Args:
            key: key of the counters.
            messages: number of messages so far.
            bytes_: number of bytes so far.
            now: the time.
        """
        sample = self._samples.get(key)
        if sample is not None and now - sample.at < MIN_INTERVAL_S:
            self._samples.move_to_end(key)
            return sample.rate
        rate = None
        if sample is not None and now - sample.at <= MAX_AGE_S:
            passed = now - sample.at
            rate = Rate(max(0, messages - sample.messages) / passed, max(0, bytes_ - sample.bytes) / passed)
        self._samples[key] = _Sample(now, messages, bytes_, rate)
        self._samples.move_to_end(key)
        if len(self._samples) > MAX_KEPT:
            self._samples.popitem(last=False)
        return rate
