"""The object store of a table as its tasks reach it: without Spark's JVM, with the same keys."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError

from readonly_spark.export.destinations import Target
from readonly_spark.export.marker import FOLDER
from readonly_spark.export.store_settings import PREFIX, NotTranslatedError, open_store, translated

if TYPE_CHECKING:
    from readonly_spark.export.hadoop_files import HadoopFiles

log = logging.getLogger(__name__)


def store_target(files: HadoopFiles) -> Target | None:
    """Return where tasks write; None, with a line in the log, if they cannot write this table.

    Args:
        files: the table's folder, in which the export has written something.
    """
    try:
        return _target(files)
    except (NotTranslatedError, BaseError) as error:
        reason = str(error).strip().partition("\n")[0]
        log.warning("%s: Spark writes the files row by row, which takes more CPU: %s", files.where, reason)
        return None


def _target(files: HadoopFiles) -> Target | None:
    if not files.conditional:
        return None
    bucket, folder = files.bucket_and_key
    settings = translated(bucket, files.changed_settings(PREFIX))
    store = open_store(settings, probe=True)
    found = next(iter(obstore.list(store, f"{folder}/{FOLDER}".lstrip("/"), chunk_size=1)), ())
    if not found:  # another bucket of this name, or another way to write keys
        raise NotTranslatedError(f"bucket {bucket} has no {FOLDER} there for tasks")
    return Target(files.where, folder, settings)
