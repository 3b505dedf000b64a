"""Rates of counters between the moments at which somebody asks: nothing is sampled while nobody does. Pure."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K")

MIN_INTERVAL_S = 1.0
"""Over less time than this a rate would be noise: the time before it counts on."""


class Rate(NamedTuple):
    """Per second."""

    messages: float = 0.0
    bytes: float = 0.0


class _Sample(NamedTuple):
    at: float
    messages: int
    bytes: int
    rate: Rate


class Rates(Generic[K]):
    """The rates of many pairs of counters."""

    def __init__(self) -> None:
        self._samples: dict[K, _Sample] = {}

    def of(self, key: K, messages: int, bytes_: int, now: float) -> Rate:
        """The rate since the last time that this was asked for; 0 at the first time."""
        sample = self._samples.get(key)
        if sample is None:
            self._samples[key] = _Sample(now, messages, bytes_, Rate())
            return Rate()
        passed = now - sample.at
        if passed < MIN_INTERVAL_S:
            return sample.rate
        rate = Rate(max(0, messages - sample.messages) / passed, max(0, bytes_ - sample.bytes) / passed)
        self._samples[key] = _Sample(now, messages, bytes_, rate)
        return rate

    def keep(self, keys: set[K]) -> None:
        """Forget all others."""
        self._samples = {key: sample for key, sample in self._samples.items() if key in keys}
