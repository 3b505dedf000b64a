"""CPU seconds and memory of processes, in user and kernel mode, with their children."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devstack.common import processes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ENDED: Final = (FileNotFoundError, ProcessLookupError)
"""What the kernel answers of a process that has ended: before its file is opened, and after."""

_PID_SHIFT: Final = 3
_CPU_TIME: Final = 2
"""Kind of a Linux clock id for a process's CPU time as counted by the scheduler (CPUCLOCK_SCHED)."""


def family(pid: int) -> list[int]:
    """Return a process and all its running descendants; one that ends meanwhile may be among them."""
    found, left = [], [pid]
    while left:
        one = left.pop()
        found.append(one)
        with suppress(*ENDED):
            for file in Path(f"/proc/{one}/task").glob("*/children"):
                left += map(int, file.read_text(encoding="ascii").split())
    return found


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the CPU seconds that processes and their children have used."""
    return sum(map(_cpu_seconds, (one for pid in pids for one in family(pid))))


def resident_bytes(pids: Iterable[int]) -> int:
    """Return the resident memory of processes and their children; shared pages count for each. One that has ended has none."""
    return sum(map(processes.resident_bytes, (one for pid in pids for one in family(pid))))


def _cpu_seconds(pid: int) -> float:
    # The CPU-time clock (clock_getcpuclockid) counts nanoseconds. /proc/PID/stat counts hundredths of a second, too coarse for an
    # idle broker.
    return time.clock_gettime((~pid << _PID_SHIFT) | _CPU_TIME)


class Meter:
    """Measures groups of processes from its creation on.

    Args:
        groups: process ids by name, such as `owner`, `bookies`.
    """

    def __init__(self, groups: Mapping[str, Iterable[int]]) -> None:
        self._groups = {name: list(pids) for name, pids in groups.items()}
        self._begin = self._now()

    def used(self) -> dict[str, float]:
        """Return the CPU seconds of each group since then."""
        return {name: value - self._begin[name] for name, value in self._now().items()}

    def _now(self) -> dict[str, float]:
        return {name: cpu_seconds(pids) for name, pids in self._groups.items()}
