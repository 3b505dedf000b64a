"""The interface of tables, and what tables with a transaction log of their own share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, Protocol

from readonly_spark.export.errors import ExportError
from readonly_spark.export.marker import NO_BATCH

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

FENCE: Final = 1 << 62
"""Added to the last micro-batch of a checkpoint whose table another one has adopted, so that all later numbers are refused."""


class Sink(Protocol):
    """A table to which micro-batches are committed, each exactly once."""

    def owners(self) -> Mapping[str, int] | None:
        """Return the last micro-batch of each checkpoint in the table's log; None if the log does not name checkpoints."""

    def foreign_table_error(self, checkpoints: Collection[str]) -> str | None:
        """Return an error if there is a table that none of these checkpoints wrote."""

    def logged_batches(self) -> list[int]:
        """Return the micro-batches with a file in the table's log, ascending; empty if the log has no such files."""

    def last_committed(self, checkpoint: str) -> int:
        """Return the last committed micro-batch of a checkpoint; NO_BATCH for none."""

    def fence(self, checkpoint: str) -> None:
        """Refuse all later commits of a checkpoint, also of a suspended process that has passed all its checks."""

    def remove_leftovers(self, checkpoints: Collection[str], *, killed: bool) -> None:
        """Remove files that these checkpoints wrote and did not commit.

        Args:
            checkpoints: ids of the checkpoints.
            killed: whether an export may have ended within a micro-batch.
        """

    def commit(self, batch: Any, checkpoint: str, number: int) -> bool:
        """Commit a micro-batch; return False if there was nothing to commit.

        Args:
            batch: its rows, or with a target the files that its tasks wrote (see `file_source`).
            checkpoint: the id of the checkpoint.
            number: the number of the micro-batch.

        Raises:
            ExportError: another export has committed this micro-batch.
        """


class TransactionalTable(ABC):
    """A table whose transaction log records the last micro-batch of each checkpoint.

    Args:
        subject: the option that names the table, for errors.
    """

    def __init__(self, subject: str) -> None:
        self._subject = subject

    @abstractmethod
    def _logged(self) -> Mapping[str, int]:
        """Return the number of each checkpoint in the log as stored: a micro-batch, plus FENCE for a fenced checkpoint."""

    @abstractmethod
    def fence(self, checkpoint: str) -> None:
        """See Sink."""

    def owners(self) -> Mapping[str, int]:
        """See Sink."""
        return {name: last - FENCE if last >= FENCE + NO_BATCH else last for name, last in self._logged().items()}

    def logged_batches(self) -> list[int]:
        """Return nothing: the log has no file for each micro-batch."""
        return []

    def last_committed(self, checkpoint: str) -> int:
        """See Sink."""
        return self.owners().get(checkpoint, NO_BATCH)

    def remove_leftovers(self, checkpoints: Collection[str], *, killed: bool) -> None:  # noqa: B027  the default for such tables
        """Remove nothing: uncommitted files are not part of the table."""

    def _check_not_committed(self, logged: Mapping[str, int], checkpoint: str, number: int) -> None:
        last = logged.get(checkpoint, NO_BATCH)
        if last >= FENCE + NO_BATCH:
            raise ExportError(
                f"{self._subject}: another checkpoint has adopted the table, or began to; use --adopt with it"
            )
        if last >= number:
            raise ExportError(f"{self._subject}: another export has committed micro-batch {last} meanwhile")
