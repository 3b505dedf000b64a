"""Unanswered requests, bounded in number and in bytes. Pure."""

from __future__ import annotations


class RequestQuota:
    """Counts unanswered requests.

    Args:
        max_count: the largest number of them.
        max_bytes: the largest sum of their frames.

    Attributes:
        count: the number now.
        bytes: the sum of their frames now.
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
        """Count a request of `size` bytes; return False, and count nothing, if it exceeds a limit."""
        if self.full or self.bytes + size > self._max_bytes:
            return False
        self.count += 1
        self.bytes += size
        return True

    def release(self, size: int) -> None:
        """Stop counting a request of `size` bytes: it was answered or given up."""
        self.count -= 1
        self.bytes -= size
