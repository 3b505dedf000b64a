"""Stops one thread of a server for a while, as a busy machine does, while the others run (ptrace(2))."""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_SEIZE: Final = 0x4206
_INTERRUPT: Final = 0x4207
_DETACH: Final = 17
_WALL: Final = 0x40000000
"""waitpid(2) waits for threads of another process."""


def threads(pid: int, name: str) -> list[int]:
    """Return the ids of a process's threads whose names begin so; the kernel keeps 15 characters."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sorted(int(task.name) for task in tasks if (task / "comm").read_text().startswith(name[:15]))


@contextmanager
def stopped(thread: int) -> Iterator[None]:
    """Stop a thread meanwhile. A Java server's other threads run until one asks for a safepoint: keep it short."""
    _ptrace(_SEIZE, thread)
    try:
        _ptrace(_INTERRUPT, thread)
        os.waitpid(thread, _WALL)
        yield
    finally:
        _ptrace(_DETACH, thread)


def permitted() -> bool:
    """Return whether this user and machine may stop threads: some containers forbid it."""
    child = subprocess.Popen(["sleep", "60"])
    try:
        with stopped(child.pid):
            return True
    except OSError:
        return False
    finally:
        child.kill()
        child.wait()


def _ptrace(request: int, thread: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    library.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    library.ptrace.restype = ctypes.c_long
    if library.ptrace(request, thread, None, None) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"ptrace: {os.strerror(number)}")
