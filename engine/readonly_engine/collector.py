"""Frequency of Python's garbage collector."""

from __future__ import annotations

import gc
from typing import Final

THRESHOLDS: Final = (50_000, 20, 50)
"""Reads make tens of thousands of entry objects per second. With the default (700, 10, 10), the collector takes much of the CPU
of reading small entries (measured). Entries are in no cycles, so higher thresholds keep none of them longer."""


def tune_garbage_collector() -> None:
    """Collect garbage less often, and never among the present objects (imported modules). Call it at the start of a process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
