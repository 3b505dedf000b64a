"""Checks of the machine before a stack starts."""

from __future__ import annotations

import errno
import re
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devstack.errors import DevstackError
from devstack.pulsar.spec import HOST

if TYPE_CHECKING:
    from collections.abc import Iterable

_FREE_DISK: Final = 3 << 30
_FULLEST: Final = 0.97
"""Used share of the disk above which bookies become read-only (diskUsageWarnThreshold)."""


def check_memory(needed: int) -> None:
    """Raise DevstackError unless `needed` bytes of memory are available by the kernel's estimate."""
    available = available_memory(Path("/proc/meminfo").read_text())
    if available < needed:
        raise DevstackError(
            f"too little memory: {needed >> 20} MiB are needed, {available >> 20} MiB are available",
            "end something else, or start fewer servers: --bookies 2 --brokers 1",
        )


def available_memory(meminfo: str) -> int:
    """Return MemAvailable of /proc/meminfo, in bytes."""
    match = re.search(r"^MemAvailable:\s+(\d+) kB$", meminfo, re.MULTILINE)
    if match is None:
        raise DevstackError("/proc/meminfo has no MemAvailable", "Linux 3.14 or newer is needed")
    return int(match[1]) * 1024


def check_disk(folder: Path) -> None:
    """Raise DevstackError unless the disk of `folder` has enough free bytes, and the free share that bookies require."""
    usage = shutil.disk_usage(folder)
    check_disk_numbers(str(folder), total=usage.total, used=usage.used, free=usage.free)


def check_disk_numbers(where: str, *, total: int, used: int, free: int) -> None:
    """Check sizes in bytes for `check_disk`."""
    if free < _FREE_DISK or used / total > _FULLEST:
        raise DevstackError(
            f"too little disk at {where}: {free / 2**30:.1f} GiB free, {used / total:.0%} used",
            f"{_FREE_DISK >> 30} GiB free and at most {_FULLEST:.0%} used are needed; --state chooses another place",
        )


def check_ports(ports: Iterable[tuple[str, int]], hint: str = "choose other ports with --base-port") -> None:
    """Raise DevstackError if another program uses a port of a server.

    Args:
        ports: purpose and number of each port.
        hint: remedy.
    """
    for purpose, port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                raise DevstackError(f"port {port} for {purpose} is in use by another program", hint) from None
