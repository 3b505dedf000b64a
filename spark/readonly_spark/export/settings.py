"""What an export was asked for: checked, and turned into options of the source. Pure."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from readonly_spark.export.errors import ExportError
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
"""Columns that a table has only where `--partition-by` names them, as expressions of Spark; times are UTC."""

CHECKPOINT: Final = "_checkpoint"
"""Below the table, without `--checkpoint`: readers of tables pass over names that begin with an underscore."""

_OURS: Final = {"_pulsar-readonly", "_spark_metadata", "_delta_log"}
_WORDS: Final = ("earliest", "latest")
_SETTING: Final = re.compile(r"[A-Za-z][\w.-]*=.*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSettings:
    """One export.

    Attributes:
        source: options of the source `pulsar-readonly`.
        to: where the table is, a path or URI.
        checkpoint: where the query's state is.
        table_format: one of FORMATS.
        trigger: one of TRIGGERS.
        interval_s: seconds from one micro-batch to the next, where it is continuous.
        columns: columns of the source that the table has, in order; empty for all.
        partition_by: columns that its files are sorted into.
        table: the Iceberg table's name in its catalog, NAMESPACE.NAME.
        catalog: properties of the Iceberg catalog; empty for one in a file beside the table.
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

    def __post_init__(self) -> None:
        try:
            parse_options(self.source, streaming=True)
        except OptionError as error:
            raise ExportError(str(error)) from None
        for name in self.columns:
            if name not in NAMES:
                raise ExportError(f"--columns: there is no column {name!r}; there are {', '.join(NAMES)}")
        if len(set(self.columns)) < len(self.columns):
            raise ExportError("--columns names a column twice")
        kinds = {column.name: column.spark for column in COLUMNS}
        for name in self.partition_by:
            if name in DERIVED:
                continue
            if name not in kinds:
                raise ExportError(
                    f"--partition-by: there is no column {name!r}; there are {', '.join((*NAMES, *DERIVED))}"
                )
            if self.columns and name not in self.columns:
                raise ExportError(f"--partition-by: {name} is not among --columns")
            if kinds[name] not in {"string", "int", "bigint", "boolean"}:
                raise ExportError(f"--partition-by: {name} is {kinds[name]}; publishDate or topic would do")
        if len(set(self.partition_by)) < len(self.partition_by):
            raise ExportError("--partition-by names a column twice")
        if self.partition_by and set(self.partition_by) >= set(self.wanted):
            raise ExportError("--partition-by names every column of the table; files would hold nothing")
        if self.table_format != ICEBERG and self.catalog:
            raise ExportError("--catalog is for --format iceberg")
        if not re.fullmatch(r"\w+(\.\w+)+", self.table):
            raise ExportError(f"--table: {self.table!r} would be NAMESPACE.NAME")
        if canonical(self.checkpoint) == canonical(self.to):
            raise ExportError("--checkpoint and --to are the same; the checkpoint would be read as a part of the table")
        inside = below(self.checkpoint, self.to)
        if inside is not None and inside.partition("/")[0] in _OURS:
            raise ExportError(
                f"--checkpoint {self.checkpoint}: {inside.partition('/')[0]} is the table's own; {CHECKPOINT} would do"
            )
        if below(self.to, self.checkpoint) is not None:
            raise ExportError(
                f"--to {self.to} is inside of --checkpoint {self.checkpoint}; put the checkpoint elsewhere"
            )

    @property
    def wanted(self) -> tuple[str, ...]:
        """Columns of the table, derived ones last."""
        return (*(self.columns or NAMES), *(name for name in self.partition_by if name in DERIVED))

    @property
    def read(self) -> tuple[str, ...]:
        """Columns that are read from the source: the table's, and what derived ones are made from."""
        columns = self.columns or NAMES
        derives = any(name in DERIVED for name in self.partition_by)
        return (*columns, "publishTime") if derives and "publishTime" not in columns else columns

    @property
    def decodes(self) -> bool:
        """Whether values are decoded by a schema, and the table has the columns of that."""
        kinds = [value for name, value in self.source.items() if name.lower() == "valueschema"]
        return "value" in self.wanted and kinds not in ([], ["raw"])

    def identity(self) -> dict[str, object]:
        """What must stay the same for as long as a checkpoint is used."""
        chosen = {name: self.source.get(name) for name in ("topic", "topics", "topicsPattern") if name in self.source}
        return {
            **chosen,
            "to": self.to.rstrip("/"),
            "format": self.table_format,
            "columns": list(self.wanted),
            "partitionBy": list(self.partition_by),
            "valueSchema": next((v for name, v in self.source.items() if name.lower() == "valueschema"), "raw"),
            "table": self.table if self.table_format == ICEBERG else "",
        }


def start_options(start: str) -> dict[str, str]:
    """`--from` as options of the source: earliest, latest, JSON of positions, or a time."""
    if start in _WORDS or start.lstrip().startswith("{"):
        return {"startingOffsets": start}
    return {"startingTimestamp": start}


def pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE words of an option that may be given several times.

    Raises:
        ExportError: one has another form, or a name comes twice.
    """
    found: dict[str, str] = {}
    for text in given:
        if not _SETTING.fullmatch(text):
            raise ExportError(f"{option} {text.partition('=')[0]!r} would be NAME=VALUE")
        name, _, value = text.partition("=")
        if name in found:
            raise ExportError(f"{option} {name} is given twice")
        found[name] = value
    return found


def names(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def local_path(where: str) -> str | None:
    """The path of a place on this machine's file system; None for an object store or the like."""
    parts = urlsplit(where)
    if parts.scheme == "file":
        return unquote(parts.path)
    return None if parts.scheme else where


def canonical(where: str) -> str:
    """A place in one spelling, whatever links, slashes or synonyms of S3's scheme lead to it."""
    path = local_path(where)
    if path is not None:
        return os.path.realpath(path)
    parts = urlsplit(where)
    scheme = "s3a" if parts.scheme.lower() in {"s3", "s3a", "s3n"} else parts.scheme.lower()
    authority = parts.netloc.rpartition("@")[2] if scheme == "s3a" else parts.netloc
    return f"{scheme}://{authority}/{'/'.join(filter(None, parts.path.split('/')))}"


def below(where: str, folder: str) -> str | None:
    """The name of a place from a folder on, if it is below it."""
    place, base = canonical(where), canonical(folder)
    return place[len(base) + 1 :] if place.startswith(base.rstrip("/") + "/") else None


def absolute(where: str, folder: Path) -> str:
    """A place, independent of the current folder."""
    path = local_path(where)
    return where if path is None else str(folder / path)
