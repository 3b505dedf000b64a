"""Quota of unanswered requests, by number and bytes. Pure."""

from __future__ import annotations


class RequestQuota:
    """Counts unanswered requests.

    Args:
        max_count: limit of their number.
        max_bytes: limit of the bytes of their frames.

    Attributes:
        count: their number.
        bytes: bytes of their frames.
    """

    __slots__ = ("_max_bytes", "_max_count", "bytes", "count")

    def __init__(self, max_count: int, max_bytes: int) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self.count = 0
        self.bytes = 0

    @property
    def full(self) -> bool:
        """Whether the number is at its limit."""
        return self.count >= self._max_count

    def acquire(self, size: int) -> bool:
        """Count a request of `size` bytes and return True. If it exceeds a limit, count nothing and return False."""
        if self.full or self.bytes + size > self._max_bytes:
            return False
        self.count += 1
        self.bytes += size
        return True

    def release(self, size: int) -> None:
        """Stop counting a request of `size` bytes that was answered or given up."""
        self.count -= 1
        self.bytes -= size
