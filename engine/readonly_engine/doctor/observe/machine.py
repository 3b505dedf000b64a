"""Limits of this process: open files, and cores with the CPU limit of its container."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from readonly_engine.doctor.checks.machine import Machine

if TYPE_CHECKING:
    from readonly_engine.config.settings import EngineConfig

CPU_LIMIT: Final = Path("/sys/fs/cgroup/cpu.max")
"""CPU limit of cgroup v2: quota and period in microseconds, or `max` and the period."""


def observe_machine(config: EngineConfig, cpu_limit: Path = CPU_LIMIT) -> Machine:
    """Return the limits of this process, beside the options that need them."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = sys.maxsize if hard == resource.RLIM_INFINITY else hard
    return Machine(files, cores(cpu_limit), config.workers, config.max_connections)


def cores(cpu_limit: Path) -> float:
    """Return the cores that this process may use."""
    count = float(len(os.sched_getaffinity(0)))
    try:
        quota, _, period = cpu_limit.read_text(encoding="ascii").strip().partition(" ")
        return min(count, int(quota) / int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return count
