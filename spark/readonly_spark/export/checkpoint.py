"""The checkpoint of an export: one process at a time, and always the same export.

Two queries on one checkpoint would each commit the other's micro-batches. A file lock prevents this on a local file system; it
ends with the process. Elsewhere the lease of the table prevents it, as a checkpoint belongs to one table.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid4

from readonly_spark.closing import Closeable
from readonly_spark.export.errors import ExportError
from readonly_spark.export.files import LocalFiles
from readonly_spark.export.lock import FileLock
from readonly_spark.export.marker import NO_BATCH, offsets_in
from readonly_spark.export.ownership import CheckpointState
from readonly_spark.export.settings import canonical, local_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_spark.export.files import Files
    from readonly_spark.export.settings import ExportSettings

LOCK: Final = "_pulsar-readonly.lock"
IDENTITY: Final = "_pulsar-readonly.json"
VALUE_TYPE: Final = "_pulsar-readonly.value-type"
ADOPTING: Final = "_pulsar-readonly.adopting"
"""Exists during an adoption: the id in the table's marker before the adoption."""

METADATA: Final = "metadata"
"""Spark's file with the id of the query. The export writes it, so the id is known before the query starts."""

COMMIT_LOG: Final = 'v1\n{"nextBatchWatermarkMs":0}'
"""Content of Spark's CommitLog for a finished micro-batch of a query without a watermark."""


def read_state(files: Files) -> CheckpointState:
    """Read the state of a checkpoint.

    Raises:
        ExportError: the checkpoint is damaged.
    """
    metadata = files.read(METADATA)
    name = None
    if metadata is not None:
        try:
            name = str(UUID(json.loads(metadata)["id"]))
        except (ValueError, LookupError, TypeError, AttributeError):
            raise ExportError(
                f"{files.where}/{METADATA} is damaged; restore the checkpoint, or use a new one with --adopt"
            ) from None
    adopting = files.read(ADOPTING)
    return CheckpointState(
        name,
        _newest(files, "offsets"),
        _newest(files, "commits"),
        None if adopting is None else adopting.decode(errors="replace").strip(),
    )


def _newest(files: Files, kind: str) -> int:
    return max((int(name) for name in files.names(kind) if name.isdecimal()), default=NO_BATCH)


class Checkpoint(Closeable):
    """A locked checkpoint.

    Args:
        settings: the export.
        files: the folder of a checkpoint outside of the local file systems.

    Raises:
        ExportError: another export uses the checkpoint, it belongs to another export, or it cannot be written.
    """

    def __init__(self, settings: ExportSettings, files: Files | None = None) -> None:
        self._lock: FileLock | None = None
        if files is None:
            path = local_path(settings.checkpoint)
            assert path is not None, "a checkpoint elsewhere comes with its files"
            subject = f"--checkpoint {settings.checkpoint}"
            self._lock = FileLock(Path(path) / LOCK, subject, "wait for its end, or use another checkpoint")
            files = LocalFiles(settings.checkpoint, path)
        self.files: Files = files
        try:
            self._check_identity(settings)
        except BaseException:
            self.close()
            raise

    def _check_identity(self, settings: ExportSettings) -> None:
        expected = settings.identity()
        text = self.files.read(IDENTITY)
        if text is None:
            # Exports of other tables may begin at the same time, and only the table is locked elsewhere.
            if self.files.create(IDENTITY, (json.dumps(expected, indent=1) + "\n").encode()):
                return
            text = self.files.read(IDENTITY) or b""
        try:
            found = json.loads(text)
            same_place = canonical(str(found.get("to"))) == canonical(settings.to)
        except (ValueError, AttributeError):
            raise ExportError(f"{self.files.where}/{IDENTITY} is damaged; export with a new checkpoint") from None
        for name in sorted({*expected, *found}):
            if name == "to" and same_place:
                continue
            if found.get(name) != expected.get(name):
                raise ExportError(
                    f"--checkpoint {settings.checkpoint} belongs to an export with another {name}: "
                    f"{found.get(name)!r}, not {expected.get(name)!r}; use a new checkpoint for a changed export"
                )

    def state(self) -> CheckpointState:
        """Read the current state."""
        return read_state(self.files)

    def ensure_id(self) -> str:
        """Return the id of the query; create it for a new checkpoint."""
        name = self.state().id
        if name is None:
            name = str(uuid4())
            self.files.write(METADATA, json.dumps({"id": name}).encode())
        return name

    def log(self, batch: int) -> str | None:
        """Return Spark's offset log of a micro-batch; None if it does not exist."""
        found = self.files.read(f"offsets/{batch}")
        return None if found is None else found.decode(errors="replace")

    def adopt(self, marked: str, batch: int, log: str) -> str:
        """Write the state that the checkpoint would have if it had exported the table; return its id. It can be repeated.

        Args:
            marked: the id in the table's marker.
            batch: the last micro-batch in the table.
            log: the offset log of this micro-batch.
        """
        self.files.write(ADOPTING, marked.encode())
        name = self.ensure_id()
        for number in (batch - 1, batch):  # Spark reads the one before the last too
            if number > NO_BATCH:
                self.files.write(f"offsets/{number}", log.encode())
        if batch > NO_BATCH:
            self.files.write(f"commits/{batch}", COMMIT_LOG.encode())
        return name

    def finish_adoption(self) -> None:
        """End an adoption, after the table's marker names this checkpoint."""
        self.files.remove(ADOPTING)

    def pinned_value_type(self, query: Callable[[], str]) -> str:
        """Return the type of decoded values of the first run, so that a table keeps its columns when a schema evolves.

        Args:
            query: returns the type in the first run.
        """
        found = self.files.read(VALUE_TYPE)
        if found is None:
            found = query().encode()
            self.files.write(VALUE_TYPE, found)
        return found.decode()

    def next_entries(self) -> dict[str, str]:
        """Return the next entry of each topic after the last finished micro-batch; empty if it is unknown."""
        finished = self.state().finished
        found = offsets_in((finished > NO_BATCH and self.log(finished)) or "")
        # The query itself reports a damaged log.
        return {} if found is None else {name: where for name, where in found.items() if name}

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
