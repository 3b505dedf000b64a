"""Delta tables: a micro-batch, its number and the checkpoint's id are one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from readonly_spark.export.errors import ExportError
from readonly_spark.export.marker import NONE
from readonly_spark.export.settings import local_path

if TYPE_CHECKING:
    from collections.abc import Collection

    from readonly_spark.export.settings import ExportSettings


class DeltaTable:
    """The table of an export.

    Args:
        settings: the export.
        spark: its session, with Delta's jars.
    """

    def __init__(self, settings: ExportSettings, spark: Any) -> None:
        self._settings = settings
        self._jvm: Any = spark._jvm  # noqa: SLF001  py4j's way into the JVM
        self._session: Any = spark._jsparkSession  # noqa: SLF001
        path = local_path(settings.to)
        self._where = settings.to.rstrip("/") if path is None else path

    def owners(self) -> dict[str, int]:
        """The last number of each application that has written transactions with numbers."""
        log = self._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self._session, self._where)
        none = self._jvm.scala.Option.empty()
        found = self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(log.update(False, none, none).transactions())
        return {str(name): int(found[name]) for name in found}

    def foreign(self, checkpoints: Collection[str]) -> None:
        """The table is in its folder, whose marker says whose it is."""

    def numbers(self) -> list[int]:
        """Transactions are not listed."""
        return []

    def last(self, checkpoint: str) -> int:
        """The last micro-batch of a checkpoint that was committed."""
        return self.owners().get(checkpoint, NONE)

    def clean(self, checkpoints: Collection[str]) -> None:
        """Delta's own VACUUM removes what was never committed."""

    def write(self, batch: Any, checkpoint: str, number: int) -> bool:
        """Commit a micro-batch; always True.

        Raises:
            ExportError: another export has committed meanwhile.
        """
        last = self.last(checkpoint)
        if last >= number:
            raise ExportError(f"--to {self._settings.to}: another export has committed micro-batch {last} meanwhile")
        writer = batch.write.format("delta").mode("append").option("txnAppId", checkpoint).option("txnVersion", number)
        writer.partitionBy(*self._settings.partition_by).save(self._where)
        return True
