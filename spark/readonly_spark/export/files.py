"""Files of a table or a checkpoint: the interface, and its implementation for local file systems (others: `hadoop_files`)."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Protocol

from readonly_spark.export.errors import ExportError

if TYPE_CHECKING:
    from collections.abc import Callable


class Files(Protocol):
    """A folder. Names are relative to it and use slashes.

    Attributes:
        where: the folder in the user's form.
    """

    where: str

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""

    def write(self, name: str, content: bytes) -> None:
        """Write or replace a file atomically."""

    def create(self, name: str, content: bytes) -> bool:
        """Create a file atomically; return False if it exists. Of several concurrent calls only one returns True."""

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; none if it does not exist."""

    def changed(self, name: str) -> int | None:
        """Return the modification time of a file in ms since the epoch; None if it does not exist."""

    def first(self, ignored: Callable[[str], bool]) -> str | None:
        """Return the first file at any depth that is not ignored; None if there is none."""


class LocalFiles:
    """A folder of a local file system; see Files.

    Args:
        where: the folder in the user's form.
        path: the path.
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

    def first(self, ignored: Callable[[str], bool]) -> str | None:
        """See Files."""
        if not self.path.exists():
            return None
        if not self.path.is_dir():
            raise ExportError(f"--to {self.where} is a file; it must be a folder")

        def refuse(error: OSError) -> None:
            raise ExportError(f"{error.filename}: {error.strerror}") from None

        for folder, folders, files in os.walk(self.path, onerror=refuse):
            inside = PurePosixPath(os.path.relpath(folder, self.path))
            folders[:] = sorted(name for name in folders if not ignored(str(inside / name)))
            for name in sorted(files):
                if not ignored(str(inside / name)):
                    return str(inside / name)
        return None
