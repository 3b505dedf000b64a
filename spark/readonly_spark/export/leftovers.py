"""Parquet files that a killed micro-batch left behind.

Spark's file sink writes down in `_spark_metadata` which files count, and Spark reads no others. Other readers see all files
of the folder, so those that do not count are removed before an export goes on; the caller holds the checkpoint.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pathlib import Path

LOG: Final = "_spark_metadata"


def remove_leftovers(table: Path) -> int:
    """Remove what no finished micro-batch wrote; how many files that were.

    A file that Spark's log cannot be read for stays: then nothing is removed at all.

    Args:
        table: the folder of the table.
    """
    table = table.resolve()
    counted = _counted(table / LOG)
    if counted is None:
        return 0
    left = [
        file
        for file in sorted(table.rglob("part-*.parquet"))
        if not any(part.startswith("_") for part in file.relative_to(table).parts) and str(file) not in counted
    ]
    for file in left:
        file.unlink(missing_ok=True)
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    return len(left)


def _counted(log: Path) -> set[str] | None:
    """The files in Spark's log; none where there is no log yet, None where it holds something unknown."""
    found: set[str] = set()
    if not log.is_dir():
        return found
    for file in log.iterdir():
        if not file.name.removesuffix(".compact").isdecimal():
            continue
        version, *lines = file.read_text(encoding="utf-8").splitlines()
        if version != "v1":
            return None
        for line in lines:
            entry = json.loads(line)
            if entry.get("action") != "add":
                return None
            found.add(os.path.realpath(unquote(urlsplit(entry["path"]).path)))
    return found
