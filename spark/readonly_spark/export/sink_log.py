"""The log of Spark's file sink, `_spark_metadata`, in an object store: a micro-batch is committed by a conditional write.

Spark itself writes a file of the log under another name and renames it, which is a copy in an object store: it looks for a file
of that name, and then replaces it. An export that was suspended in between would replace what another one has committed.

Source of the format: Spark's CompactibleFileStreamLog. A file has a version and an entry a line. Each `interval`th one,
`NUMBER.compact`, has all entries before it too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_spark.export.errors import ExportError
from readonly_spark.export.leftovers import LOG, added_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

KEPT_BATCHES: Final = 100
"""Older files are removed, as Spark does by default (spark.sql.streaming.minBatchesToRetain)."""


def log_file(number: int, interval: int, added: bytes, read: Callable[[str], bytes | None]) -> tuple[str, bytes]:
    """Return the name and the content of the file that commits a micro-batch.

    Args:
        number: the number of the micro-batch.
        interval: every so many micro-batches the log is compacted.
        added: the file of the micro-batch alone.
        read: returns a file of the log by its name.

    Raises:
        ExportError: the log lacks an earlier file, or it is not understood.
    """
    if not _compacts(number, interval):
        return str(number), added
    version, *entries = added.splitlines()
    earlier: list[bytes] = []
    for one in range(max(number - interval, 0), number):
        name = f"{one}.compact" if _compacts(one, interval) else str(one)
        text = read(name)
        if text is None or added_paths(text) is None:
            raise ExportError(f"{LOG}/{name} in the table is missing or damaged; restore it from a copy")
        earlier += text.splitlines()[1:]
    return f"{number}.compact", b"\n".join((version, *earlier, *entries))


def expired(number: int, interval: int, names: Iterable[str]) -> list[str]:
    """Return the files of the log that no reader needs after a micro-batch: older than the last compacted one to be kept."""
    oldest = number - KEPT_BATCHES + 1
    last = oldest - oldest % interval - 1
    numbers = {name: name.removesuffix(".compact") for name in names}
    return [name for name, text in numbers.items() if text.isdecimal() and int(text) < last]


def _compacts(number: int, interval: int) -> bool:
    return (number + 1) % interval == 0
