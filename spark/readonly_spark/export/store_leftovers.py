"""Parquet files of killed micro-batches in object stores.

Files are written directly to their place there, with names as those of Spark's file sink. So the export writes the ids of its
checkpoint and its micro-batch into the footer of each file. A file is removed only if its footer names a checkpoint of this
table, its micro-batch is committed, and the log does not list it. Then no process can commit it any more.
"""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from readonly_spark.export.errors import ExportError
from readonly_spark.export.leftovers import LOG, added_paths

if TYPE_CHECKING:
    from collections.abc import Collection

    from readonly_spark.export.hadoop_files import HadoopFiles

log = logging.getLogger(__name__)

KEY: Final = "pulsar-readonly.micro-batch"
"""Key in the metadata of a file's first column, for `CHECKPOINT:NUMBER`."""

MAX_FOOTERS: Final = 10_000
"""Footers that are read at a start. Only files that the log does not list are looked at."""

FIRST_TAIL_BYTES: Final = 64 << 10
MAX_TAIL_BYTES: Final = 16 << 20
"""Largest footer that is read; that of a file with thousands of columns and row groups has 1 MB."""

_NAME: Final = re.compile(r"part-\d{5,}-[0-9a-f-]{36}[-.]c\d{3,}(\.\w+)?\.parquet")
"""Names of Spark's file sink (ManifestFileCommitProtocol) and of `file_writer`."""

_SCHEMA: Final = b"org.apache.spark.sql.parquet.row.metadata"
_MAGIC: Final = b"PAR1"
_END_BYTES: Final = 8  # the footer's size and the magic


def tagged(batch: Any, column: str, checkpoint: str, number: int) -> Any:
    """Return a DataFrame whose Parquet files name their micro-batch.

    Args:
        batch: the micro-batch.
        column: a column of the files, not of their partitions.
        checkpoint: the id of the checkpoint.
        number: the number of the micro-batch.
    """
    return batch.withMetadata(column, {KEY: f"{checkpoint}:{number}"})


def tagged_schema(schema: str, checkpoint: str, number: str) -> str:
    """Return the schema for a footer, as Spark's JSON, with the same in the metadata of its first column.

    Args:
        schema: the JSON of Spark's StructType.
        checkpoint: the id of the checkpoint.
        number: the number of the micro-batch.
    """
    found = json.loads(schema)
    found["fields"][0]["metadata"][KEY] = f"{checkpoint}:{number}"
    return json.dumps(found)


def owner_in(tail: bytes) -> tuple[str, int] | None:
    """Return the checkpoint and the micro-batch in a footer; None for a file of somebody else.

    Args:
        tail: the end of the file, with the whole footer.
    """
    try:
        metadata = pq.read_metadata(pa.BufferReader(_MAGIC + tail)).metadata or {}
        for field in json.loads(metadata[_SCHEMA])["fields"]:
            if KEY in field["metadata"]:
                checkpoint, _, number = str(field["metadata"][KEY]).rpartition(":")
                return checkpoint, int(number)
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError):
        pass
    return None


class StoreLeftovers:
    """The leftovers of a table in an object store.

    Args:
        files: the table's folder.
    """

    def __init__(self, files: HadoopFiles) -> None:
        self.files = files
        self._found: dict[str, int] = {}

    def find(self, checkpoints: Collection[str]) -> None:
        """Find files that these checkpoints wrote and that the log does not list. An error is only logged."""
        try:
            names = [name for name in self.files.listing() if _written_by_sink(name)]
            committed = self._committed()
            if committed is None:
                return
            unlisted = [name for name in names if name.rpartition("/")[2] not in committed]
            if len(unlisted) > MAX_FOOTERS:
                log.warning("%s: %d files are not in its log; %d are looked at", LOG, len(unlisted), MAX_FOOTERS)
            for name in unlisted[:MAX_FOOTERS]:
                owner = owner_in(self._footer(name))
                if owner is not None and owner[0] in checkpoints:
                    self._found[name] = owner[1]
        except ExportError as error:
            log.warning("files of killed exports are not removed: %s", error)

    def remove(self, last: int) -> None:
        """Remove what was found of micro-batches up to the last committed one. An error is logged."""
        ready = [name for name, number in self._found.items() if number <= last]
        if not ready:
            return
        try:
            committed = self._committed()  # again: another process may have committed one of them
            if committed is None:
                return
            for name in ready:
                if name.rpartition("/")[2] not in committed:
                    self.files.remove(name)
                del self._found[name]
        except ExportError as error:
            log.warning("files of killed exports are not removed: %s", error)

    def _committed(self) -> set[str] | None:
        """Return the names of the files in the log, which are unique; None for an unknown content."""
        numbers = [name for name in self.files.names(LOG) if name.removesuffix(".compact").isdecimal()]
        compact = max((int(name[: -len(".compact")]) for name in numbers if name.endswith(".compact")), default=-1)
        current = [f"{compact}.compact"] if compact >= 0 else []
        current += [name for name in numbers if name.isdecimal() and int(name) > compact]
        found: set[str] = set()
        for name in current:
            text = self.files.read(f"{LOG}/{name}")
            paths = None if text is None else added_paths(text)
            if paths is None:
                return None
            found.update(unquote(urlsplit(path).path).rpartition("/")[2] for path in paths)
        return found

    def _footer(self, name: str) -> bytes:
        """Return the end of a file with its whole footer; nothing if the footer is too large."""
        tail = self.files.tail(name, FIRST_TAIL_BYTES)
        size = int.from_bytes(tail[-_END_BYTES : -len(_MAGIC)], "little") + _END_BYTES
        if size <= len(tail):
            return tail
        return self.files.tail(name, size) if size <= MAX_TAIL_BYTES else b""


def _written_by_sink(name: str) -> bool:
    *folders, last = name.split("/")
    return _NAME.fullmatch(last) is not None and not any(folder.startswith("_") for folder in folders)
