"""Destinations of the files that tasks write: a folder, or an object store."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import obstore
import pyarrow as pa
from obstore.exceptions import BaseError

from readonly_spark.export.store_settings import StoreSettings, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from obstore import WritableFile
    from obstore.store import ObjectStore

PART_BYTES: Final = 5 << 20
"""Size of the parts of an upload, the least that S3 allows. A file keeps up to one of them in memory until it is complete."""

UPLOADS: Final = 2
"""Parts of a file that are uploaded at the same time."""


MAX_REASON: Final = 300
"""Characters of the store's reason in an error."""


class OpenFile(Protocol):
    """A file that is being written.

    Attributes:
        target: what Arrow writes to.
    """

    target: Any

    def complete(self) -> None:
        """Have the file appear, after Arrow has written all of it."""

    def discard(self) -> None:
        """Give the file up: there will be no such file."""


class Destination(Protocol):
    """Where files are written. Names are relative to it and use slashes.

    Attributes:
        most_open: files that a task may have open.
    """

    most_open: int

    def create(self, name: str) -> OpenFile:
        """Begin a file."""

    def remove(self, name: str) -> None:
        """Remove a complete file."""


class LocalDestination:
    """A folder of a file system. An incomplete file is visible there."""

    most_open = 64

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def create(self, name: str) -> _LocalFile:
        """See Destination."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return _LocalFile(path)

    def remove(self, name: str) -> None:
        """See Destination."""
        (self._folder / name).unlink(missing_ok=True)


class _LocalFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.target = pa.OSFile(str(path), "wb")

    def complete(self) -> None:
        self.target.close()

    def discard(self) -> None:
        self.target.close()
        self._path.unlink(missing_ok=True)


class StoreDestination:
    """A prefix of a bucket. A file appears when it is complete.

    Args:
        store: the bucket.
        prefix: the prefix, without slashes at its ends; may be empty.
    """

    most_open = 32

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self._store = store
        self._prefix = prefix

    def create(self, name: str) -> _StoredFile:
        """See Destination."""
        upload = obstore.open_writer(self._store, self._key(name), buffer_size=PART_BYTES, max_concurrency=UPLOADS)
        return _StoredFile(upload, lambda: self.remove(name))

    def remove(self, name: str) -> None:
        """See Destination."""
        with _as_os_error():
            obstore.delete(self._store, self._key(name))

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name


class _StoredFile:
    """An upload. Closing what Arrow writes to does not complete it, because Arrow also closes a file that failed."""

    def __init__(self, upload: WritableFile, remove: Callable[[], None]) -> None:
        self._upload: WritableFile | None = upload
        self._remove = remove
        self._appears = False
        self.target = pa.PythonFile(self, mode="w")
        self.closed = False

    # What pa.PythonFile calls

    def write(self, content: bytes) -> int:
        assert self._upload is not None
        with _as_os_error():
            return self._upload.write(content)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    # OpenFile

    def complete(self) -> None:
        assert self._upload is not None
        self._appears = True
        with _as_os_error():
            self._upload.close()

    def discard(self) -> None:
        self._upload = None  # without its end an upload makes no object
        if self._appears:  # the store may have completed it and not answered
            with suppress(OSError):
                self._remove()


@contextmanager
def _as_os_error() -> Iterator[None]:
    """Raise errors of obstore as OSError, which all writers of files raise."""
    try:
        yield
    except BaseError as error:
        raise OSError(str(error).strip().partition("\n")[0][:MAX_REASON]) from None


@dataclass(frozen=True, slots=True)
class Target:
    """Where the tasks of an export write.

    Attributes:
        where: the folder in the user's form, for errors.
        folder: a folder of a file system, or a prefix of the bucket.
        store: the bucket; None for a file system.
    """

    where: str
    folder: str
    store: StoreSettings | None = None

    def open(self) -> Destination:
        """Return the destination.

        Raises:
            OSError: the store's settings are not accepted.
        """
        if self.store is None:
            return LocalDestination(self.folder)
        with _as_os_error():
            return StoreDestination(open_store(self.store), self.folder)
