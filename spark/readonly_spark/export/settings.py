"""The settings of an export: validation, and conversion to options of the source. Pure."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from readonly_spark.export.errors import ExportError
from readonly_spark.export.marker import MARKER
from readonly_spark.options import OptionError, parse_options
from readonly_spark.rows.columns import COLUMNS, NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

PARQUET: Final = "parquet"
DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
FORMATS: Final = (PARQUET, DELTA, ICEBERG)

AVAILABLE_NOW: Final = "available-now"
CONTINUOUS: Final = "continuous"
TRIGGERS: Final = (AVAILABLE_NOW, CONTINUOUS)

DERIVED: Final = {
    "publishDate": "to_date(publishTime)",
    "publishHour": "date_trunc('HOUR', publishTime)",
}
"""Spark expressions of the columns that exist only with `--partition-by`; times are UTC."""

CHECKPOINT: Final = "_checkpoint"
"""The default checkpoint, below the table: readers of tables ignore names that start with an underscore."""

MIN_TASK_BYTES: Final = 8 << 20
"""Smallest target size of a task: each task writes a file of its own, and small files make a table slow to read."""

_OURS: Final = {"_pulsar-readonly", "_spark_metadata", "_delta_log"}
_WORDS: Final = ("earliest", "latest")
_SETTING: Final = re.compile(r"[A-Za-z][\w.-]*=.*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSettings:
    """The settings of one export.

    Attributes:
        source: options of the source `pulsar-readonly`.
        to: the path or URI of the table.
        checkpoint: the path or URI of the query's state.
        table_format: one of FORMATS.
        trigger: one of TRIGGERS.
        interval_s: seconds between micro-batches of a continuous export.
        columns: columns of the table, in order; empty for all.
        partition_by: columns to partition the files by.
        table: the Iceberg table's name in its catalog, NAMESPACE.NAME.
        catalog: properties of the Iceberg catalog; empty for a file in the table's folder.
        shared_folder: whether a local path of the table is the same folder on the driver and on all executors.
        expire_snapshots_h: hours after which the snapshots of an Iceberg table expire; None for no expiry.
    """

    source: Mapping[str, str]
    to: str
    checkpoint: str
    table_format: str = PARQUET
    trigger: str = AVAILABLE_NOW
    interval_s: float = 10.0
    columns: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    table: str = "pulsar.messages"
    catalog: Mapping[str, str] = field(default_factory=dict)
    shared_folder: bool = False
    expire_snapshots_h: float | None = None

    def __post_init__(self) -> None:
        try:
            options = parse_options(self.source, streaming=True)
        except OptionError as error:
            raise ExportError(str(error)) from None
        if options.field_columns:
            raise ExportError("--option fieldColumns: a table has the column value; remove the option")
        for name in self.columns:
            if name not in NAMES:
                raise ExportError(f"--columns: unknown column {name!r}; the columns are {', '.join(NAMES)}")
        if len(set(self.columns)) < len(self.columns):
            raise ExportError("--columns names a column twice")
        kinds = {column.name: column.spark for column in COLUMNS}
        for name in self.partition_by:
            if name in DERIVED:
                continue
            if name not in kinds:
                raise ExportError(
                    f"--partition-by: unknown column {name!r}; the columns are {', '.join((*NAMES, *DERIVED))}"
                )
            if self.columns and name not in self.columns:
                raise ExportError(f"--partition-by: {name} is not among --columns")
            if kinds[name] not in {"string", "int", "bigint", "boolean"}:
                raise ExportError(f"--partition-by: {name} is {kinds[name]}; use a column such as publishDate or topic")
        if len(set(self.partition_by)) < len(self.partition_by):
            raise ExportError("--partition-by names a column twice")
        if self.partition_by and set(self.partition_by) >= set(self.table_columns):
            raise ExportError("--partition-by names every column of the table; leave at least one for the files")
        if self.table_format != ICEBERG and self.catalog:
            raise ExportError("--catalog is for --format iceberg")
        if self.table_format != ICEBERG and self.expire_snapshots_h is not None:
            raise ExportError("--expire-snapshots is for --format iceberg")
        if not re.fullmatch(r"\w+(\.\w+)+", self.table):
            raise ExportError(f"--table: {self.table!r} must be NAMESPACE.NAME")
        if canonical(self.checkpoint) == canonical(self.to):
            raise ExportError("--checkpoint and --to are the same; use a checkpoint outside of the table")
        inside = below(self.checkpoint, self.to)
        if inside is not None and inside.partition("/")[0] in _OURS:
            raise ExportError(
                f"--checkpoint {self.checkpoint}: {inside.partition('/')[0]} belongs to the table; use {CHECKPOINT}"
            )
        if below(self.to, self.checkpoint) is not None:
            raise ExportError(
                f"--to {self.to} is inside of --checkpoint {self.checkpoint}; put the checkpoint elsewhere"
            )

    @property
    def table_columns(self) -> tuple[str, ...]:
        """Columns of the table; derived ones are last."""
        return (*(self.columns or NAMES), *(name for name in self.partition_by if name in DERIVED))

    @property
    def source_columns(self) -> tuple[str, ...]:
        """Columns to read from the source: those of the table, and the inputs of derived ones."""
        columns = self.columns or NAMES
        derives = any(name in DERIVED for name in self.partition_by)
        return (*columns, "publishTime") if derives and "publishTime" not in columns else columns

    def check_master(self, master: str) -> None:
        """Check that executors write to the table that the driver sees.

        Args:
            master: Spark's master.

        Raises:
            ExportError: each machine would write to a folder of its own, and the driver would commit nothing.
        """
        if local_path(self.to) is not None and not self.shared_folder and not master.startswith("local"):
            raise ExportError(
                f"--to {self.to} is a local path, and executors of --master {master} may be on other machines: their files would "
                "be lost. Use a URI of an object store or HDFS, or --shared-folder if the path is the same folder on all machines"
            )

    @property
    def required_file(self) -> dict[str, str]:
        """The option with which tasks find out whether they write to the table that the driver sees; empty without need."""
        path = local_path(self.to) if self.shared_folder else None
        return {} if path is None else {"requiredFile": f"{path.rstrip('/')}/{MARKER}"}

    def task_size(self, cores: int) -> int:
        """Return the target size of a task in stored bytes, so that a full micro-batch occupies all cores.

        Args:
            cores: tasks that run at the same time.
        """
        options = parse_options(self.source, streaming=True)
        if any(name.lower() == "maxbytesperpartition" for name in self.source):
            return options.partition_bytes
        batch = options.trigger_bytes or options.partition_bytes
        return min(options.partition_bytes, max(MIN_TASK_BYTES, batch // max(cores, 1)))

    @property
    def decodes(self) -> bool:
        """Whether the table has values decoded by a schema."""
        kinds = [value for name, value in self.source.items() if name.lower() == "valueschema"]
        return "value" in self.table_columns and kinds not in ([], ["raw"])

    def identity(self) -> dict[str, object]:
        """Return the settings that must not change while a checkpoint is in use."""
        chosen = {name: self.source.get(name) for name in ("topic", "topics", "topicsPattern") if name in self.source}
        return {
            **chosen,
            "to": self.to.rstrip("/"),
            "format": self.table_format,
            "columns": list(self.table_columns),
            "partitionBy": list(self.partition_by),
            "valueSchema": next((v for name, v in self.source.items() if name.lower() == "valueschema"), "raw"),
            "table": self.table if self.table_format == ICEBERG else "",
        }


def start_options(start: str) -> dict[str, str]:
    """Return `--from` as options of the source: earliest, latest, JSON of positions, or a time."""
    if start in _WORDS or start.lstrip().startswith("{"):
        return {"startingOffsets": start}
    return {"startingTimestamp": start}


def pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """Parse NAME=VALUE arguments of a repeatable option.

    Raises:
        ExportError: an argument is malformed, or a name is repeated.
    """
    found: dict[str, str] = {}
    for text in given:
        if not _SETTING.fullmatch(text):
            raise ExportError(f"{option} {text.partition('=')[0]!r} must be NAME=VALUE")
        name, _, value = text.partition("=")
        if name in found:
            raise ExportError(f"{option} {name} is given twice")
        found[name] = value
    return found


def names(text: str) -> tuple[str, ...]:
    """Parse names separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def local_path(where: str) -> str | None:
    """Return the path of a local place; None for an object store or another file system."""
    parts = urlsplit(where)
    if parts.scheme == "file":
        return unquote(parts.path)
    return None if parts.scheme else where


def canonical(where: str) -> str:
    """Return the canonical form of a path or URI: without links, extra slashes, or synonyms of S3's scheme."""
    path = local_path(where)
    if path is not None:
        return os.path.realpath(path)
    parts = urlsplit(where)
    scheme = "s3a" if parts.scheme.lower() in {"s3", "s3a", "s3n"} else parts.scheme.lower()
    authority = parts.netloc.rpartition("@")[2] if scheme == "s3a" else parts.netloc
    return f"{scheme}://{authority}/{'/'.join(filter(None, parts.path.split('/')))}"


def below(where: str, folder: str) -> str | None:
    """Return the path relative to a folder; None if it is not below the folder."""
    place, base = canonical(where), canonical(folder)
    return place[len(base) + 1 :] if place.startswith(base.rstrip("/") + "/") else None


def absolute(where: str, folder: Path) -> str:
    """Return an absolute path, or a URI unchanged."""
    path = local_path(where)
    return where if path is None else str(folder / path)
