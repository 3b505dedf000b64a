"""Iceberg tables: micro-batches are written as Parquet files by Spark, and committed here, each once.

The number of the last committed micro-batch is a property of the table, set in the same commit that adds the files. There is no
Iceberg runtime for this Spark, so commits are made by pyiceberg, on the driver.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError
from pyiceberg.io import load_file_io

from readonly_spark.export.errors import ExportError
from readonly_spark.export.settings import local_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from readonly_spark.export.settings import ExportSettings

CATALOG_FILE: Final = "catalog.db"
"""The catalog beside the table, without `--catalog`: SQLite."""

CATALOG_NAME: Final = "default"
"""A catalog in SQL keeps tables under its name; this is pyiceberg's own for a catalog that nobody named."""

_PROPERTY: Final = "pulsar-readonly.batch."


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

    def folder(self, query: str, batch: int) -> str:
        """Where Spark writes a micro-batch; the same when it is written again."""
        return f"{self.location}/data/{query}-{batch}"

    def has(self, query: str, batch: int) -> bool:
        """Whether a micro-batch is in the table already: Spark repeats one whose end it did not write down."""
        table = self._table()
        return table is not None and int(table.properties.get(_PROPERTY + query, "-1")) >= batch

    def commit(self, query: str, batch: int, files: Sequence[str]) -> None:
        """Add the files of a micro-batch.

        Args:
            query: the query's id, which lasts as long as its checkpoint.
            batch: the micro-batch's number.
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
        self.counted[batch] = (rows, size)
        if schema is None:
            return
        table = self._table() or self._create(schema)
        with table.transaction() as transaction:
            transaction.set_properties({_PROPERTY + query: str(batch)})
            transaction.add_files(kept, check_duplicate_files=False)

    def _table(self) -> Table | None:
        try:
            return self._catalog.load_table(self._settings.table)
        except NoSuchTableError:
            return None

    def _create(self, schema: pa.Schema) -> Table:
        namespace, _, _ = self._settings.table.rpartition(".")
        with suppress(NamespaceAlreadyExistsError):
            self._catalog.create_namespace(namespace)
        with self._catalog.create_table_transaction(
            self._settings.table, schema.remove_metadata(), location=self.location
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
