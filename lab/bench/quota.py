"""Limits the CPU of processes by control groups (Linux, as root), so that a broker reaches its limit before the machine does."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devstack.errors import DevstackError

if TYPE_CHECKING:
    from collections.abc import Iterator

PERIOD_US: Final = 10_000
"""Within each such time a process gets its part. A short one, as a process stands still when it has used its part."""


@contextmanager
def limited(pid: int, share: float, root: Path = Path("/sys/fs/cgroup")) -> Iterator[None]:
    """Limit a process to a part of a core within the context.

    Args:
        pid: the process.
        share: the part.
        root: where control groups are mounted: those of version 2, or the folder of the controllers of version 1.

    Raises:
        DevstackError: this user may not make control groups, or none limits CPU.
    """
    first = (root / "cpu").is_dir()
    parent = root / "cpu" if first else root
    quota = round(PERIOD_US * share)
    limits = (
        {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(quota)}
        if first
        else {"cpu.max": f"{quota} {PERIOD_US}"}
    )
    group = parent / f"pulsar-readonly-bench-{os.getpid()}-{pid}"
    try:
        group.mkdir()
        for name, value in limits.items():
            (group / name).write_text(value, encoding="ascii")
        (group / "cgroup.procs").write_text(str(pid), encoding="ascii")
    except OSError as error:
        if group.is_dir():
            group.rmdir()
        raise DevstackError(
            "the CPU of a broker cannot be limited: run this bench as root, or --only others", str(error)
        ) from error
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # it may have ended
            (parent / "cgroup.procs").write_text(str(pid), encoding="ascii")
        group.rmdir()
