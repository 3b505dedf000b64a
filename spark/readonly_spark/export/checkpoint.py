"""One export at a time on a checkpoint, and always the same one.

Two queries on one checkpoint would each commit the other's micro-batches. A lock of the file system keeps them apart; it ends
with the process that holds it, however that ends. Elsewhere the lock of the table does: a checkpoint belongs to one table.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid4

from readonly_spark.export.claim import CheckpointState
from readonly_spark.export.errors import ExportError
from readonly_spark.export.files import LocalFiles
from readonly_spark.export.lock import FileLock
from readonly_spark.export.marker import NONE, offsets
from readonly_spark.export.settings import canonical, local_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from readonly_spark.export.files import Files
    from readonly_spark.export.settings import ExportSettings

LOCK: Final = "_pulsar-readonly.lock"
IDENTITY: Final = "_pulsar-readonly.json"
VALUE_TYPE: Final = "_pulsar-readonly.value-type"
ADOPTING: Final = "_pulsar-readonly.adopting"
"""There while a checkpoint takes over a table: the id that the table's marker has until it is done."""

METADATA: Final = "metadata"
"""Spark's own file: the id of the query. Made here, so that it is known before the query starts."""

COMMIT_LOG: Final = 'v1\n{"nextBatchWatermarkMs":0}'
"""Spark's note that a micro-batch is finished (CommitLog), for a query without a watermark."""


def read_state(files: Files) -> CheckpointState:
    """What a checkpoint says.

    Raises:
        ExportError: it is damaged.
    """
    metadata = files.read(METADATA)
    name = None
    if metadata is not None:
        try:
            name = str(UUID(json.loads(metadata)["id"]))
        except (ValueError, LookupError, TypeError, AttributeError):
            raise ExportError(
                f"{files.where}/{METADATA} is damaged; restore the checkpoint, or give a new one and --adopt"
            ) from None
    adopting = files.read(ADOPTING)
    return CheckpointState(
        name,
        _newest(files, "offsets"),
        _newest(files, "commits"),
        None if adopting is None else adopting.decode(errors="replace").strip(),
    )


def _newest(files: Files, kind: str) -> int:
    return max((int(name) for name in files.names(kind) if name.isdecimal()), default=NONE)


class Checkpoint:
    """The right to use a checkpoint, for as long as it is held.

    Args:
        settings: the export.
        files: its folder, where that is not on a file system of this machine.

    Raises:
        ExportError: another export uses it, it belongs to another kind of export, or it cannot be written.
    """

    def __init__(self, settings: ExportSettings, files: Files | None = None) -> None:
        self._lock: FileLock | None = None
        if files is None:
            path = local_path(settings.checkpoint)
            assert path is not None, "a checkpoint elsewhere comes with its files"
            told = f"--checkpoint {settings.checkpoint}"
            self._lock = FileLock(Path(path) / LOCK, told, "wait for it, or give this one a checkpoint of its own")
            files = LocalFiles(settings.checkpoint, path)
        self.files: Files = files
        try:
            self._check_identity(settings)
        except BaseException:
            self.close()
            raise

    def _check_identity(self, settings: ExportSettings) -> None:
        wanted = settings.identity()
        text = self.files.read(IDENTITY)
        if text is None:
            self.files.write(IDENTITY, (json.dumps(wanted, indent=1) + "\n").encode())
            return
        try:
            found = json.loads(text)
            same_place = canonical(str(found.get("to"))) == canonical(settings.to)
        except (ValueError, AttributeError):
            raise ExportError(f"{self.files.where}/{IDENTITY} is damaged; export with a new checkpoint") from None
        for name in sorted({*wanted, *found}):
            if name == "to" and same_place:
                continue
            if found.get(name) != wanted.get(name):
                raise ExportError(
                    f"--checkpoint {settings.checkpoint} belongs to an export with another {name}: "
                    f"{found.get(name)!r}, not {wanted.get(name)!r}; a changed export wants a new checkpoint"
                )

    def state(self) -> CheckpointState:
        """What it says now."""
        return read_state(self.files)

    def begin(self) -> str:
        """Its id, which is made where there is none."""
        name = self.state().id
        if name is None:
            name = str(uuid4())
            self.files.write(METADATA, json.dumps({"id": name}).encode())
        return name

    def log(self, batch: int) -> str | None:
        """Spark's offset log of a micro-batch; None where it is not known."""
        found = self.files.read(f"offsets/{batch}")
        return None if found is None else found.decode(errors="replace")

    def adopt(self, marked: str, batch: int, log: str) -> str:
        """Make it what it would be, had it exported what a table holds; its id. A checkpoint that is killed here does it again.

        Args:
            marked: the id in the table's marker.
            batch: the last micro-batch that the table holds.
            log: the offset log of this one.
        """
        self.files.write(ADOPTING, marked.encode())
        name = self.begin()
        for number in (batch - 1, batch):  # Spark reads the one before the last too
            if number > NONE:
                self.files.write(f"offsets/{number}", log.encode())
        if batch > NONE:
            self.files.write(f"commits/{batch}", COMMIT_LOG.encode())
        return name

    def adopted(self) -> None:
        """The table's marker names it now."""
        self.files.remove(ADOPTING)

    def remembered(self, make: Callable[[], str]) -> str:
        """The type of decoded values: that of the first run, so that a table keeps its columns when a topic's schema grows.

        Args:
            make: finds it out, in the first run.
        """
        found = self.files.read(VALUE_TYPE)
        if found is None:
            found = make().encode()
            self.files.write(VALUE_TYPE, found)
        return found.decode()

    def ends(self) -> dict[str, str]:
        """Where earlier runs ended: for each topic the next entry; nothing where that is not known."""
        finished = self.state().finished
        found = offsets((finished > NONE and self.log(finished)) or "")
        # the query itself tells what is wrong with it
        return {} if found is None else {name: where for name, where in found.items() if name}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give it back."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
