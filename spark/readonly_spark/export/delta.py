"""Delta tables: one transaction holds a micro-batch, its number and the id of the checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from readonly_spark.export.errors import ExportError
from readonly_spark.export.marker import NO_BATCH
from readonly_spark.export.settings import local_path
from readonly_spark.export.sink import FENCE, TransactionalTable

if TYPE_CHECKING:
    from collections.abc import Collection

    from readonly_spark.export.settings import ExportSettings

_CONFLICT: Final = "ConcurrentTransaction"
"""Part of the name of Delta's error if another transaction has set the same application's number meanwhile."""


class DeltaTable(TransactionalTable):
    """The Delta table of an export.

    Args:
        settings: the export.
        spark: the session, with Delta's jars.
    """

    def __init__(self, settings: ExportSettings, spark: Any) -> None:
        super().__init__(f"--to {settings.to}")
        self._settings = settings
        self._spark = spark
        self._jvm: Any = spark._jvm  # noqa: SLF001  py4j's way into the JVM
        self._session: Any = spark._jsparkSession  # noqa: SLF001
        path = local_path(settings.to)
        self._where = settings.to.rstrip("/") if path is None else path

    def _logged(self) -> dict[str, int]:
        """Return the last transaction number of each application in the log."""
        found = self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(self._snapshot().transactions())
        return {str(name): int(found[name]) for name in found}

    def _snapshot(self) -> Any:
        log = self._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self._session, self._where)
        none = self._jvm.scala.Option.empty()
        return log.update(False, none, none)

    def foreign_table_error(self, checkpoints: Collection[str]) -> None:
        """Return None: the marker in the table's folder names the owner."""

    def fence(self, checkpoint: str) -> None:
        """See Sink. Delta refuses a commit if another one sets the same application's number meanwhile.

        Raises:
            ExportError: the checkpoint commits at the same time.
        """
        last = self._logged().get(checkpoint, NO_BATCH)
        if last >= FENCE + NO_BATCH or self._snapshot().version() < 0:
            return
        try:
            self._append(self._spark.read.format("delta").load(self._where).limit(0), checkpoint, FENCE + last)
        except Exception as error:
            if _CONFLICT not in f"{type(error).__name__} {error}":
                raise
            raise ExportError(
                f"{self._subject}: the former export still commits; end it and run the command again"
            ) from error

    def commit(self, batch: Any, checkpoint: str, number: int) -> bool:
        """See Sink; always True."""
        self._check_not_committed(self._logged(), checkpoint, number)
        try:
            self._append(batch, checkpoint, number)
        except Exception:
            # Delta's error says that a transaction, or the creation of the table, came first.
            self._check_not_committed(self._logged(), checkpoint, number)
            raise
        return True

    def _append(self, rows: Any, checkpoint: str, number: int) -> None:
        writer = rows.write.format("delta").mode("append").option("txnAppId", checkpoint).option("txnVersion", number)
        writer.partitionBy(*self._settings.partition_by).save(self._where)
