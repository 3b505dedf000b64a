"""Rates of counters, computed between two requests for them, without a timer. Pure; the time is an argument, in seconds."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K")

MIN_INTERVAL_S = 1.0
"""Shortest interval of a rate. A request before its end gets the last rate."""

MAX_KEPT = 100_000
"""Number of samples. The one that was used the longest ago is dropped."""


class Rate(NamedTuple):
    """Messages and bytes per second."""

    messages: float = 0.0
    bytes: float = 0.0


class _Sample(NamedTuple):
    at: float
    messages: int
    bytes: int
    rate: Rate


class Rates(Generic[K]):
    """Rates of many pairs of counters, by key."""

    def __init__(self) -> None:
        self._samples: OrderedDict[K, _Sample] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self._samples)

    def of(self, key: K, messages: int, bytes_: int, now: float) -> Rate:
        """Return the rate since the last call for this key; 0 at the first call.

        Args:
            key: key of the counters.
            messages: number of messages so far.
            bytes_: number of bytes so far.
            now: the time.
        """
        sample = self._samples.get(key)
        if sample is None:
            self._samples[key] = _Sample(now, messages, bytes_, Rate())
            if len(self._samples) > MAX_KEPT:
                self._samples.popitem(last=False)
            return Rate()
        self._samples.move_to_end(key)
        passed = now - sample.at
        if passed < MIN_INTERVAL_S:
            return sample.rate
        rate = Rate(max(0, messages - sample.messages) / passed, max(0, bytes_ - sample.bytes) / passed)
        self._samples[key] = _Sample(now, messages, bytes_, rate)
        return rate
