"""What has been asked for and is not answered yet, bounded in number and in bytes. Pure."""

from __future__ import annotations


class Outstanding:
    """Counts requests.

    Args:
        most: so many there may be at once.
        most_bytes: so long their commands may be in all.
    """

    __slots__ = ("_most", "_most_bytes", "bytes", "count")

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self.count = 0
        self.bytes = 0

    @property
    def full(self) -> bool:
        """Whether there may be no more, however short."""
        return self.count >= self._most

    def begin(self, size: int) -> bool:
        """Count a request of so many bytes; False where it would be one too many, and then it is not counted."""
        if self.full or self.bytes + size > self._most_bytes:
            return False
        self.count += 1
        self.bytes += size
        return True

    def end(self, size: int) -> None:
        """A request that was counted is answered, or given up."""
        self.count -= 1
        self.bytes -= size
