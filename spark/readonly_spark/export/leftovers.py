"""Parquet files of killed micro-batches on local file systems (object stores: `store_leftovers`).

Spark's file sink lists committed files in `_spark_metadata`, and Spark reads no others. Other readers see all files of the
folder, so an export removes uncommitted files before it resumes. It removes only its own files, whose names hold the unique id of
its checkpoint.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from readonly_spark.export.marker import STAGING

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

LOG: Final = "_spark_metadata"
_NAME: Final = re.compile(r"part-\d{5,}-(?P<checkpoint>[0-9a-f-]{36})-\d+(\.\w+)?\.parquet")


def file_name(index: int, checkpoint: str, batch: int, suffix: str) -> str:
    """Return the name of a file of a micro-batch.

    Args:
        index: the number of the file in the micro-batch.
        checkpoint: the id of the checkpoint.
        batch: the number of the micro-batch.
        suffix: the suffix, such as `snappy.parquet`.
    """
    return f"part-{index:05d}-{checkpoint}-{batch}.{suffix}"


def remove_leftovers(table: Path, checkpoints: Collection[str]) -> int:
    """Remove files that no finished micro-batch of this export wrote; return their number.

    If Spark's log cannot be read, remove nothing.

    Args:
        table: the folder of the table.
        checkpoints: ids of the checkpoints that wrote the table, from its marker.
    """
    table = table.resolve()
    shutil.rmtree(table / STAGING, ignore_errors=True)
    committed = _committed(table / LOG)
    if committed is None:
        return 0
    left = [
        file
        for file in sorted(table.rglob("part-*.parquet"))
        if (name := _NAME.fullmatch(file.name)) is not None
        and name["checkpoint"] in checkpoints
        and not any(part.startswith("_") for part in file.relative_to(table).parts)
        and str(file) not in committed
    ]
    for file in left:
        file.unlink(missing_ok=True)
    return len(left)


def _committed(log: Path) -> set[str] | None:
    """Return the files in Spark's log; none without a log, None for an unknown content."""
    found: set[str] = set()
    if not log.is_dir():
        return found
    for file in log.iterdir():
        if file.name.removesuffix(".compact").isdecimal():
            paths = added_paths(file.read_bytes())
            if paths is None:
                return None
            found.update(os.path.realpath(unquote(urlsplit(path).path)) for path in paths)
    return found


def added_paths(text: bytes) -> list[str] | None:
    """Return the URIs of the files in a file of Spark's log; None for an unknown content."""
    try:
        version, *lines = text.decode().splitlines()
        entries = [json.loads(line) for line in lines]
        known = version == "v1" and all(entry["action"] == "add" for entry in entries)
        return [str(entry["path"]) for entry in entries] if known else None
    except (ValueError, LookupError, TypeError):
        return None
