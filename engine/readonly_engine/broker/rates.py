"""Rates of counters between the moments at which somebody asks: nothing is sampled while nobody does. Pure."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K")

SHORTEST_S = 1.0
"""Over less time than this a rate would be noise: the time before it counts on."""


class Rate(NamedTuple):
    """Per second."""

    messages: float = 0.0
    bytes: float = 0.0


class _Seen(NamedTuple):
    at: float
    messages: int
    bytes: int
    rate: Rate


class Rates(Generic[K]):
    """The rates of many pairs of counters."""

    def __init__(self) -> None:
        self._seen: dict[K, _Seen] = {}

    def of(self, key: K, messages: int, bytes_: int, now: float) -> Rate:
        """The rate since the last time that this was asked for; 0 at the first time."""
        seen = self._seen.get(key)
        if seen is None:
            self._seen[key] = _Seen(now, messages, bytes_, Rate())
            return Rate()
        passed = now - seen.at
        if passed < SHORTEST_S:
            return seen.rate
        rate = Rate(max(0, messages - seen.messages) / passed, max(0, bytes_ - seen.bytes) / passed)
        self._seen[key] = _Seen(now, messages, bytes_, rate)
        return rate

    def keep(self, keys: set[K]) -> None:
        """Forget all others."""
        self._seen = {key: seen for key, seen in self._seen.items() if key in keys}
