"""Settings of the C library's allocator for reads of large entries."""

from __future__ import annotations

import ctypes
from typing import Final

M_TRIM_THRESHOLD: Final = -1
M_TOP_PAD: Final = -2
M_MMAP_THRESHOLD: Final = -3

KEPT_BYTES: Final = 16 << 20
"""Freed memory at the heap's end that stays with the process: some reads of a backlog. By default glibc keeps less, and the
kernel clears each page again for the next read."""

GROWTH_BYTES: Final = 4 << 20
"""Growth of the heap in one step: one read of a backlog."""

MAPPED_BYTES: Final = 4 << 20
"""Larger blocks have a mapping of their own, which ends with them. The default of 128 KiB is the size of a producer's batches."""


def tune_allocator() -> None:
    """Keep freed memory for the next reads, and grow in large steps (mallopt of glibc). Call it at the start of a process.

    Does nothing with another C library.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(M_TOP_PAD, GROWTH_BYTES)
        mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES)
