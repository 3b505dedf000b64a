"""A file lock; it ends with the process that holds it."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from readonly_spark.export.errors import ExportError

if TYPE_CHECKING:
    from pathlib import Path


class FileLock:
    """A held file lock.

    Args:
        file: the file to lock; it is created with its folders.
        subject: the option that names the locked folder, for errors.
        remedy: the advice if the lock is taken.

    Raises:
        ExportError: another export holds the lock, or the file cannot be created.
    """

    def __init__(self, file: Path, subject: str, remedy: str) -> None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor: int | None = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ExportError(f"{subject}: {error.strerror}") from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._descriptor, 100, 0).decode(errors="replace").strip() or "unknown"
            self.close()
            if not isinstance(error, BlockingIOError):
                raise ExportError(f"{subject}: cannot lock: {error.strerror}") from None
            raise ExportError(f"{subject} is in use by another export (process {holder}); {remedy}") from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()} on {os.uname().nodename}\n".encode(), 0)

    def close(self) -> None:
        """Release the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
