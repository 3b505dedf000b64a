"""One command at a time: a second `up` waits for the first and then finds its work done."""

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

_PATIENCE = 3600.0


@contextmanager
def only_one(path: Path, what: str, patience: float = _PATIENCE) -> Iterator[None]:
    """Hold the lock file `path`; the kernel frees it when the process ends, however it ends.

    Args:
        path: the lock file; made when it is not there.
        what: what the holder works on, for messages.
        patience: seconds to wait for another holder.

    Raises:
        DevstackError: another process kept the lock for longer than that.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + patience
        told = False
        while not _try_lock(descriptor):
            holder = os.pread(descriptor, 20, 0).decode().strip() or "unknown"
            if time.monotonic() >= deadline:
                raise DevstackError(f"{what}: process {holder} has been at it for {patience:.0f} s")
            if not told:
                say(f"{what}: waiting for process {holder}, which works on the same")
                told = True
            time.sleep(0.1)
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
