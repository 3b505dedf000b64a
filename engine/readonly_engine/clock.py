"""The clock that leases are counted with."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

lease_time: Final[Callable[[], float]] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)
"""Seconds, never stepping back. It goes on while the machine is suspended, as a lease does at the other side."""
