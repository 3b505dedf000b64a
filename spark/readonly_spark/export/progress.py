"""Sums of a query's progress, as Spark reports it to a listener."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from readonly_spark.export.totals import Totals

LAST_REPORTS_S: Final = 10.0
"""Longest time for the last reports of a query that has ended, which Spark sends from a queue."""


class ProgressListener(StreamingQueryListener):
    """Adds the reports of one query to its totals. Spark calls it from a thread of its own, in the order of the reports.

    Args:
        totals: the totals.
        counted: messages and bytes by micro-batch, if the sink counts them; see `Totals.add`.
    """

    def __init__(self, totals: Totals, counted: Mapping[int, tuple[int, int]]) -> None:
        self._totals = totals
        self._counted = counted
        self._ended = threading.Event()
        self._run: str | None = None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Take the first query that starts. Spark calls this before `start` returns."""
        self._run = self._run or str(event.runId)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """See StreamingQueryListener; nothing to do."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Add a report of the query; other queries of the session report too."""
        if str(event.progress.runId) == self._run:
            self._totals.add(json.loads(event.progress.json), self._counted)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Note that no report follows."""
        if str(event.runId) == self._run:
            self._ended.set()

    def wait(self) -> None:
        """Wait for the last reports of a query that has ended."""
        self._ended.wait(LAST_REPORTS_S)
