"""One export at a time on a checkpoint, and always the same one.

Two queries on one checkpoint would each commit the other's micro-batches. A lock of the file system keeps them apart; it ends
with the process that holds it, however that ends. On object stores there is no such lock: see docs/spark-export.md.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from readonly_spark.export.errors import ExportError
from readonly_spark.export.settings import local_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from readonly_spark.export.settings import ExportSettings

LOCK: Final = "_pulsar-readonly.lock"
IDENTITY: Final = "_pulsar-readonly.json"
VALUE_TYPE: Final = "_pulsar-readonly.value-type"


class Checkpoint:
    """The right to use a checkpoint, for as long as it is held.

    Args:
        settings: the export.

    Raises:
        ExportError: another export uses it, it belongs to another kind of export, or it cannot be written.
    """

    def __init__(self, settings: ExportSettings) -> None:
        self._descriptor: int | None = None
        self._folder: Path | None = None
        path = local_path(settings.checkpoint)
        if path is None:
            return
        folder = Path(path)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ExportError(f"--checkpoint {settings.checkpoint}: {error.strerror}") from None
        self._folder = folder
        try:
            self._take(settings, folder)
        except BaseException:
            self.close()
            raise

    def _take(self, settings: ExportSettings, folder: Path) -> None:
        assert self._descriptor is not None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._descriptor, 100, 0).decode(errors="replace").strip() or "unknown"
            raise ExportError(
                f"--checkpoint {settings.checkpoint} is in use by another export (process {holder}); "
                "wait for it, or give this one a checkpoint of its own"
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()} on {os.uname().nodename}\n".encode(), 0)
        wanted = settings.identity()
        file = folder / IDENTITY
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            draft = file.with_suffix(".new")
            draft.write_text(json.dumps(wanted, indent=1) + "\n", encoding="utf-8")
            draft.rename(file)
            return
        except ValueError:
            raise ExportError(f"{file} is damaged; export with a new checkpoint") from None
        for name in sorted({*wanted, *found}):
            if found.get(name) != wanted.get(name):
                raise ExportError(
                    f"--checkpoint {settings.checkpoint} belongs to an export with another {name}: "
                    f"{found.get(name)!r}, not {wanted.get(name)!r}; a changed export wants a new checkpoint"
                )

    def remembered(self, make: Callable[[], str]) -> str:
        """The type of decoded values: that of the first run, so that a table keeps its columns when a topic's schema grows.

        Args:
            make: finds it out, in the first run.
        """
        if self._folder is None:
            return make()
        file = self._folder / VALUE_TYPE
        if not file.exists():
            draft = file.with_suffix(".new")
            draft.write_text(make(), encoding="utf-8")
            draft.rename(file)
        return file.read_text(encoding="utf-8")

    def ends(self) -> dict[str, str]:
        """Where earlier runs ended: for each topic the next entry; nothing where that is not known."""
        if self._folder is None:
            return {}
        finished = [int(path.name) for path in self._folder.glob("commits/*") if path.name.isdecimal()]
        if not finished:
            return {}
        # Its lines: a version, Spark's own, and an offset for each source.
        lines = (self._folder / "offsets" / str(max(finished))).read_text(encoding="utf-8").splitlines()
        try:
            found = json.loads(lines[-1])["t"]
            return {str(name): str(where) for name, where in found.items()}
        except (ValueError, LookupError, TypeError, AttributeError):
            return {}  # the query itself tells what is wrong with it

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give it back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
