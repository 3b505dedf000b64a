"""The files of a table or a checkpoint: one interface for local file systems and for what Hadoop reaches (`hadoop_files`)."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Protocol

from readonly_spark.export.errors import ExportError

if TYPE_CHECKING:
    from collections.abc import Callable


class Files(Protocol):
    """A folder. Names are relative to it, with slashes between folders.

    Attributes:
        where: the folder as the user wrote it.
    """

    where: str

    def read(self, name: str) -> bytes | None:
        """The content of a file; None where there is none."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole, or replace it; one that is killed meanwhile leaves what was there."""

    def create(self, name: str, content: bytes) -> bool:
        """Write a file unless there is one; of several that try at a time one alone gets True."""

    def remove(self, name: str) -> None:
        """Remove a file, if there is one."""

    def names(self, folder: str) -> list[str]:
        """The files and folders in a folder; none where it does not exist."""

    def changed(self, name: str) -> int | None:
        """When a file was written last, in ms since the epoch; None where there is none."""

    def first(self, passed: Callable[[str], bool]) -> str | None:
        """The first file, at any depth, that is not passed over; None where there is none."""


class LocalFiles:
    """A folder of a file system of this machine; see Files.

    Args:
        where: the folder as the user wrote it.
        path: its path.
    """

    def __init__(self, where: str, path: str) -> None:
        self.where = where
        self.path = Path(path)

    def read(self, name: str) -> bytes | None:
        """See Files."""
        try:
            return (self.path / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, name: str, content: bytes) -> None:
        """See Files."""
        draft = self._draft(name, content)
        draft.replace(self.path / name)

    def create(self, name: str, content: bytes) -> bool:
        """See Files."""
        draft = self._draft(name, content)
        try:
            (self.path / name).hardlink_to(draft)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    def _draft(self, name: str, content: bytes) -> Path:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".{file.name}.{os.getpid()}.new")
        with draft.open("wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        return draft

    def remove(self, name: str) -> None:
        """See Files."""
        (self.path / name).unlink(missing_ok=True)

    def names(self, folder: str) -> list[str]:
        """See Files."""
        try:
            return sorted(path.name for path in (self.path / folder).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def changed(self, name: str) -> int | None:
        """See Files."""
        try:
            return (self.path / name).stat().st_mtime_ns // 1_000_000
        except (FileNotFoundError, NotADirectoryError):
            return None

    def first(self, passed: Callable[[str], bool]) -> str | None:
        """See Files."""
        if not self.path.exists():
            return None
        if not self.path.is_dir():
            raise ExportError(f"--to {self.where} is a file; it would be a folder")

        def refuse(error: OSError) -> None:
            raise ExportError(f"{error.filename}: {error.strerror}") from None

        for folder, folders, files in os.walk(self.path, onerror=refuse):
            inside = PurePosixPath(os.path.relpath(folder, self.path))
            folders[:] = sorted(name for name in folders if not passed(str(inside / name)))
            for name in sorted(files):
                if not passed(str(inside / name)):
                    return str(inside / name)
        return None
