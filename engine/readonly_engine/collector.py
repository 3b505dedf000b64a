"""How often Python looks for garbage in cycles."""

from __future__ import annotations

import gc
from typing import Final

THRESHOLDS: Final = (50_000, 20, 50)
"""Entries come by the ten thousand a second, and each is an object: by the default (700, 10, 10) much of the CPU of reading small
ones goes into looking at them again and again (measured). They are in no cycles: nothing is kept longer for it."""


def relax() -> None:
    """Look for garbage seldom, and not at all among what is there now: the imported modules. For the start of a process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
