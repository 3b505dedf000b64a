"""File locks: one command at a time."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from devstack.console import say
from devstack.errors import DevstackError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TIMEOUT_S = 3600.0
_POLL_INTERVAL_S = 0.1


@contextmanager
def file_lock(path: Path, what: str, timeout_s: float = _TIMEOUT_S) -> Iterator[None]:
    """Hold a lock file; the kernel releases it when the process ends.

    Args:
        path: the lock file; it is created if missing.
        what: the locked work, for messages.
        timeout_s: seconds to wait for another holder.

    Raises:
        DevstackError: another process kept the lock for longer.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + timeout_s
        announced = False
        while not _try_lock(descriptor):
            holder = os.pread(descriptor, 20, 0).decode().strip() or "unknown"
            if time.monotonic() >= deadline:
                raise DevstackError(
                    f"{what}: process {holder} has held {path} for {timeout_s:.0f} s", "wait for its end"
                )
            if not announced:
                say(f"{what}: waiting for process {holder}, which holds {path}")
                announced = True
            time.sleep(_POLL_INTERVAL_S)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
