"""Iceberg tables: micro-batches are written as Parquet files by Spark, and committed here, each once.

The number of the last committed micro-batch is a property of the table, named after the checkpoint and set by the commit that
adds the files. There is no Iceberg runtime for this Spark, so commits are made by pyiceberg, on the driver.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, NamespaceAlreadyExistsError, NoSuchTableError
from pyiceberg.io import load_file_io

from readonly_spark.export.errors import ExportError
from readonly_spark.export.marker import NONE
from readonly_spark.export.settings import local_path

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from readonly_spark.export.settings import ExportSettings

CATALOG_FILE: Final = "catalog.db"
"""The catalog beside the table, without `--catalog`: SQLite."""

CATALOG_NAME: Final = "default"
"""A catalog in SQL keeps tables under its name; this is pyiceberg's own for a catalog that nobody named."""

_PROPERTY: Final = "pulsar-readonly.batch."
_BY: Final = "_by"


class IcebergTable:
    """The table of an export.

    Args:
        settings: the export.

    Raises:
        ExportError: the catalog cannot be used.
    """

    def __init__(self, settings: ExportSettings) -> None:
        self._settings = settings
        path = local_path(settings.to)
        self.location = settings.to.rstrip("/") if path is None else Path(path).as_uri()
        self.counted: dict[int, tuple[int, int]] = {}
        """Messages and bytes of values by micro-batch, of those that this process committed."""
        self._catalog = self._open(path)
        self._io = load_file_io(dict(settings.catalog), self.location)

    def _open(self, path: str | None) -> Catalog:
        if self._settings.catalog:
            return load_catalog(CATALOG_NAME, **self._settings.catalog)
        if path is None:
            raise ExportError(
                f"--to {self._settings.to}: an Iceberg table that is not on a local file system wants a catalog; "
                "give --catalog uri=... and what else it needs"
            )
        Path(path).mkdir(parents=True, exist_ok=True)
        # The path is a part of a URL: what has a meaning there is quoted.
        return load_catalog(CATALOG_NAME, type="sql", uri=f"sqlite:///{path}/{CATALOG_FILE}", warehouse=self.location)

    def owners(self) -> dict[str, int]:
        """The last micro-batch of each checkpoint that has written the table."""
        table = self._table()
        found = {} if table is None else table.properties
        return {name.removeprefix(_PROPERTY): int(last) for name, last in found.items() if name.startswith(_PROPERTY)}

    def foreign(self, checkpoints: Collection[str]) -> str | None:
        """What is wrong with the catalog's table, which may be elsewhere: it is there, and none of these checkpoints wrote it."""
        if self._table() is None or not self.owners().keys().isdisjoint(checkpoints):
            return None
        return f"--table {self._settings.table}: the catalog has a table of this name that this export did not write"

    def numbers(self) -> list[int]:
        """Micro-batches are not listed."""
        return []

    def last(self, checkpoint: str) -> int:
        """The last micro-batch of a checkpoint that was committed."""
        return self.owners().get(checkpoint, NONE)

    def clean(self, checkpoints: Collection[str]) -> None:
        """Files that were never committed are no part of the table."""

    def write(self, batch: Any, checkpoint: str, number: int) -> bool:
        """Commit a micro-batch; False where it has no rows and there is no table yet.

        Raises:
            ExportError: another export has committed meanwhile.
        """
        last = self.last(checkpoint)
        if last >= number:
            raise ExportError(
                f"--table {self._settings.table}: another export has committed micro-batch {last} meanwhile"
            )
        folder = f"{self.location}/data/{checkpoint}-{number}"
        if self._settings.partition_by:
            # Each file holds one partition only, and keeps the columns: Iceberg reads them from the files.
            names = ", ".join(f"`{name}`" for name in self._settings.partition_by)
            batch = batch.selectExpr("*", f"xxhash64({names}) AS {_BY}")
            batch.write.mode("overwrite").partitionBy(_BY).parquet(folder)
        else:
            batch.write.mode("overwrite").parquet(folder)
        spark = batch.sparkSession
        return self._commit(checkpoint, number, [unquote(name) for name in spark.read.parquet(folder).inputFiles()])

    def _commit(self, checkpoint: str, number: int, files: Sequence[str]) -> bool:
        """Add the files of a micro-batch.

        Args:
            checkpoint: the checkpoint's id.
            number: the micro-batch's number.
            files: URIs of Parquet files; those without rows are left out.
        """
        schema, kept, rows, size = None, [], 0, 0
        for file in files:
            with self._io.new_input(file).open() as opened:
                parquet = pq.ParquetFile(opened)
                if not parquet.metadata.num_rows:
                    continue
                schema = schema or parquet.schema_arrow
                rows += parquet.metadata.num_rows
                size += _value_bytes(parquet.metadata)
            kept.append(file)
        self.counted[number] = (rows, size)
        table = self._table()
        if table is None:
            if schema is None:
                return False
            table = self._create(schema, checkpoint)
        try:
            with table.transaction() as transaction:
                transaction.set_properties({_PROPERTY + checkpoint: str(number)})
                if kept:
                    transaction.add_files(kept, check_duplicate_files=False)
        except CommitFailedException as error:
            raise ExportError(
                f"--table {self._settings.table}: something else has changed it: {error}; run it again"
            ) from None
        return True

    def _table(self) -> Table | None:
        try:
            return self._catalog.load_table(self._settings.table)
        except NoSuchTableError:
            return None

    def _create(self, schema: pa.Schema, checkpoint: str) -> Table:
        namespace, _, _ = self._settings.table.rpartition(".")
        with suppress(NamespaceAlreadyExistsError):
            self._catalog.create_namespace(namespace)
        with self._catalog.create_table_transaction(
            self._settings.table,
            schema.remove_metadata(),
            location=self.location,
            properties={_PROPERTY + checkpoint: str(NONE)},
        ) as transaction:
            if self._settings.partition_by:
                with transaction.update_spec() as spec:
                    for name in self._settings.partition_by:
                        spec.add_identity(name)
        return self._catalog.load_table(self._settings.table)


def _value_bytes(metadata: pq.FileMetaData) -> int:
    """Bytes of the column `value` before compression, about."""
    groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
    columns = (group.column(index) for group in groups for index in range(group.num_columns))
    return sum(column.total_uncompressed_size for column in columns if column.path_in_schema == "value")
