"""One object as one run of bytes, read through windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from readonly_engine.tiered.objects import Objects
    from readonly_engine.tiered.windows import WindowCache

_THROUGH_WINDOWS = 4
"""What is longer than so many windows is read by itself, and not kept."""


class RangedObject:
    """An object of which no more is read than what is wanted, and a little ahead of one who reads in order.

    Args:
        objects: the store.
        key: the object.
        windows: what is kept of all objects.
    """

    def __init__(self, objects: Objects, key: str, windows: WindowCache) -> None:
        self.key = key
        self._objects = objects
        self._windows = windows
        self._latest = -1

    async def window(self, offset: int, end: int) -> tuple[bytes, int]:
        """The bytes around an offset, and the offset of the first of them.

        Args:
            offset: where.
            end: nothing behind this is read ahead, nor returned.

        Raises:
            TieredStorageError: they cannot be read.
        """
        number = offset // self._windows.size
        if number == self._latest + 1:
            self._windows.ahead(self._objects, self.key, number + 1, end)
        self._latest = number
        data = await self._windows.get(self._objects, self.key, number)
        base = number * self._windows.size
        return (data if base + len(data) <= end else data[: end - base]), base

    async def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` to before `end`; fewer where the object ends.

        Raises:
            TieredStorageError: they cannot be read.
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
