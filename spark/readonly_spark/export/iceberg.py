"""Iceberg tables: Spark writes the Parquet files of a micro-batch, and pyiceberg commits them on the driver.

The number of the last committed micro-batch is a property of the table, named after the checkpoint. The commit that adds the
files sets it, and requires the snapshot of the table in which the property was read. So of two exports of one micro-batch only
one commits. There is no Iceberg runtime for this version of Spark.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io import load_file_io
from pyiceberg.table import TableProperties

from readonly_spark.export.errors import ExportError
from readonly_spark.export.hadoop_files import HadoopFiles
from readonly_spark.export.iceberg_expiry import expire
from readonly_spark.export.marker import NO_BATCH
from readonly_spark.export.settings import local_path
from readonly_spark.export.sink import FENCE, TransactionalTable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from readonly_spark.export.settings import ExportSettings

CATALOG_FILE: Final = "catalog.db"
"""The default catalog: an SQLite file in the folder of the table."""

CATALOG_NAME: Final = "default"
"""An SQL catalog stores tables under its name; pyiceberg uses this name by default."""

COMMIT_ATTEMPTS: Final = 5
"""Attempts to commit a micro-batch while others, such as maintenance, change the table."""

_PROPERTY: Final = "pulsar-readonly.batch."
_BY: Final = "_by"


class IcebergTable(TransactionalTable):
    """The Iceberg table of an export.

    Args:
        settings: the export.
        check: raises ExportError if another export may have taken the table over; called right before each commit.

    Raises:
        ExportError: the catalog cannot be used.
    """

    def __init__(self, settings: ExportSettings, check: Callable[[], None]) -> None:
        super().__init__(f"--table {settings.table}")
        self._settings = settings
        self._check = check
        path = local_path(settings.to)
        self.location = settings.to.rstrip("/") if path is None else Path(path).as_uri()
        self.counted: dict[int, tuple[int, int]] = {}
        """Messages and value bytes of the micro-batches that this process committed."""
        self._catalog = self._open(path)
        self._io = load_file_io(dict(settings.catalog), self.location)

    def _open(self, path: str | None) -> Catalog:
        if self._settings.catalog:
            return load_catalog(CATALOG_NAME, **self._settings.catalog)
        if path is None:
            raise ExportError(
                f"--to {self._settings.to}: an Iceberg table outside of a local file system requires a catalog; "
                "set --catalog uri=... and its other properties"
            )
        Path(path).mkdir(parents=True, exist_ok=True)
        # The path is part of a URL.
        return load_catalog(CATALOG_NAME, type="sql", uri=f"sqlite:///{path}/{CATALOG_FILE}", warehouse=self.location)

    def _logged(self) -> dict[str, int]:
        table = self._table()
        return {} if table is None else _numbers(table.properties)

    def foreign_table_error(self, checkpoints: Collection[str]) -> str | None:
        """Return an error if the catalog has a table of this name, perhaps elsewhere, that none of these checkpoints wrote."""
        if self._table() is None or not self.owners().keys().isdisjoint(checkpoints):
            return None
        return f"{self._subject}: the catalog has a table of this name that this export did not write"

    def commit(self, batch: Any, checkpoint: str, number: int) -> bool:
        """See Sink; False if the micro-batch has no rows and there is no table yet."""
        self._check_not_committed(self._logged(), checkpoint, number)
        # Another export that resumes this micro-batch must neither replace these files nor list them.
        folder = f"{checkpoint}-{number}-{uuid4().hex}"
        files = HadoopFiles(f"{self.location}/data", batch.sparkSession)
        where = f"{files.where}/{folder}"
        if self._settings.partition_by:
            # Each file holds one partition only and keeps its columns, as Iceberg reads them from the files.
            names = ", ".join(f"`{name}`" for name in self._settings.partition_by)
            batch = batch.selectExpr("*", f"xxhash64({names}) AS {_BY}")
            batch.write.mode("overwrite").partitionBy(_BY).parquet(where)
        else:
            batch.write.mode("overwrite").parquet(where)
        # Spark writes no file at all for a micro-batch without rows and with partitions.
        done = self._commit(checkpoint, number, HadoopFiles(where, batch.sparkSession).uris(".parquet"))
        # The files of a killed export cannot be committed any more.
        for other in files.names(""):
            if other != folder and other.startswith(f"{checkpoint}-{number}-"):
                files.remove_folder(other)
        self._expire()
        return done

    def _expire(self) -> None:
        """Expire snapshots that are older than the option says."""
        age_h = self._settings.expire_snapshots_h
        table = None if age_h is None else self._table()
        if table is not None and age_h is not None:
            expire(table, round((time.time() - age_h * 3600) * 1000))

    def fence(self, checkpoint: str) -> None:
        """See Sink."""
        last = self._logged().get(checkpoint, NO_BATCH)
        if last < FENCE + NO_BATCH:
            self._append(checkpoint, lambda logged: FENCE + logged.get(checkpoint, NO_BATCH), (), None)

    def _commit(self, checkpoint: str, number: int, files: Sequence[str]) -> bool:
        """Commit the files of a micro-batch.

        Args:
            checkpoint: the checkpoint's id.
            number: the micro-batch's number.
            files: URIs of Parquet files; files without rows are left out.
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

        def checked(logged: Mapping[str, int]) -> int:
            self._check_not_committed(logged, checkpoint, number)
            return number

        return self._append(checkpoint, checked, kept, schema)

    def _append(
        self,
        checkpoint: str,
        number: Callable[[Mapping[str, int]], int],
        files: Sequence[str],
        schema: pa.Schema | None,
    ) -> bool:
        """Add a snapshot with files and the number of a checkpoint; return False without a table and without a schema.

        A commit without files adds a snapshot too, because a catalog checks the snapshot of a table and not its properties.

        Args:
            checkpoint: the checkpoint's id.
            number: returns the number from those in the table, or raises ExportError.
            files: URIs of Parquet files.
            schema: the schema of a new table.
        """
        for _ in range(COMMIT_ATTEMPTS):
            try:
                table = self._table()
                if table is None:
                    if schema is None:
                        return False
                    table = self._create(schema, checkpoint)
                new = number(_numbers(table.properties))
                # pyiceberg's own retry would commit to a snapshot whose properties nobody has read.
                once = {**table.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
                table.metadata = table.metadata.model_copy(update={"properties": once})
                with table.transaction() as transaction:
                    transaction.set_properties({_PROPERTY + checkpoint: str(new)})
                    if files:
                        transaction.add_files(list(files), check_duplicate_files=False)
                    else:
                        with transaction.update_snapshot().fast_append():
                            pass
                    self._check()
            except (CommitFailedException, TableAlreadyExistsError) as error:
                failure = error
                continue
            return True
        raise ExportError(
            f"{self._subject}: concurrent changes of the table: {failure}; run the export again"
        ) from None

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
            properties={
                _PROPERTY + checkpoint: str(NO_BATCH),
                TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
                TableProperties.MANIFEST_MERGE_ENABLED: "true",
            },
        ) as transaction:
            if self._settings.partition_by:
                with transaction.update_spec() as spec:
                    for name in self._settings.partition_by:
                        spec.add_identity(name)
        return self._catalog.load_table(self._settings.table)


def _numbers(properties: Mapping[str, str]) -> dict[str, int]:
    return {name.removeprefix(_PROPERTY): int(last) for name, last in properties.items() if name.startswith(_PROPERTY)}


def _value_bytes(metadata: pq.FileMetaData) -> int:
    """Return the uncompressed bytes of the column `value`."""
    groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
    columns = (group.column(index) for group in groups for index in range(group.num_columns))
    return sum(column.total_uncompressed_size for column in columns if column.path_in_schema == "value")
