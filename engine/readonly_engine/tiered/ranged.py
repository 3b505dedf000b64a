"""One object as a range of bytes, read through windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from readonly_engine.tiered.objects import Objects
    from readonly_engine.tiered.windows import WindowCache

_THROUGH_WINDOWS = 4
"""Windows of the longest range that is cached; a longer range is read directly."""


class RangedObject:
    """An object that is read by windows on demand, with read-ahead for sequential readers.

    Args:
        objects: the store.
        key: the object.
        windows: cached windows of all objects.
    """

    def __init__(self, objects: Objects, key: str, windows: WindowCache) -> None:
        self.key = key
        self._objects = objects
        self._windows = windows
        self._latest = -1

    async def window(self, offset: int, end: int) -> tuple[bytes | memoryview, int]:
        """Return the bytes around an offset, and the offset of their first byte.

        Args:
            offset: an offset in the object.
            end: offset after the last byte to return or read ahead.

        Raises:
            TieredStorageError: the window cannot be read.
        """
        number = offset // self._windows.size
        if number == self._latest + 1:
            self._windows.read_ahead(self._objects, self.key, number + 1, end)
        self._latest = number
        data = await self._windows.get(self._objects, self.key, number)
        base = number * self._windows.size
        return (data if base + len(data) <= end else data[: end - base]), base

    async def read(self, start: int, end: int) -> bytes | memoryview:
        """Return the bytes from `start` to before `end`; fewer at the end of the object.

        Raises:
            TieredStorageError: the range cannot be read.
        """
        size = self._windows.size
        if end - start > _THROUGH_WINDOWS * size:
            return await self._windows.read(self._objects, self.key, start, end)
        pieces = []
        for number in range(start // size, (end - 1) // size + 1):
            data = await self._windows.get(self._objects, self.key, number)
            base = number * size
            pieces.append(data[max(start - base, 0) : end - base])
            if len(data) < size:
                break
        return b"".join(pieces)
