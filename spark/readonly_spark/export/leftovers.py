"""Parquet files that a killed micro-batch left behind.

Spark's file sink writes down in `_spark_metadata` which files count, and Spark reads no others. Other readers see all files
of the folder, so those that do not count are removed before an export goes on. Only this export's own: their names hold the
id of its checkpoint, which nobody else has.
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
    """The name of a file of a micro-batch.

    Args:
        index: its number in the micro-batch.
        checkpoint: the id of the checkpoint.
        batch: the micro-batch.
        suffix: how its name ends, `snappy.parquet`.
    """
    return f"part-{index:05d}-{checkpoint}-{batch}.{suffix}"


def remove_leftovers(table: Path, checkpoints: Collection[str]) -> int:
    """Remove what no finished micro-batch of this export wrote; how many files that were.

    Where Spark's log cannot be read nothing is removed at all.

    Args:
        table: the folder of the table.
        checkpoints: ids of the checkpoints that have written it, by its marker.
    """
    table = table.resolve()
    shutil.rmtree(table / STAGING, ignore_errors=True)
    counted = _counted(table / LOG)
    if counted is None:
        return 0
    left = [
        file
        for file in sorted(table.rglob("part-*.parquet"))
        if (name := _NAME.fullmatch(file.name)) is not None
        and name["checkpoint"] in checkpoints
        and not any(part.startswith("_") for part in file.relative_to(table).parts)
        and str(file) not in counted
    ]
    for file in left:
        file.unlink(missing_ok=True)
    return len(left)


def _counted(log: Path) -> set[str] | None:
    """The files in Spark's log; none where there is no log yet, None where it holds something unknown."""
    found: set[str] = set()
    if not log.is_dir():
        return found
    try:
        for file in log.iterdir():
            if not file.name.removesuffix(".compact").isdecimal():
                continue
            version, *lines = file.read_text(encoding="utf-8").splitlines()
            if version != "v1":
                return None
            for line in lines:
                entry = json.loads(line)
                if entry["action"] != "add":
                    return None
                found.add(os.path.realpath(unquote(urlsplit(entry["path"]).path)))
    except (ValueError, LookupError, TypeError):
        return None
    return found
