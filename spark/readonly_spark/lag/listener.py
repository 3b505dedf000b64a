"""The lag of a streaming query of any Spark program, measured while it runs."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from readonly_spark.errors import SourceError
from readonly_spark.lag.meter import LagMeter
from readonly_spark.lag.metrics import MetricsServer, lag_families, parse_address
from readonly_spark.options import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.core import Metric
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from readonly_spark.lag.topic_lag import TopicLag

PREFIX: Final = "pulsar_readonly_stream"


class LagListener(StreamingQueryListener):
    """Measures the lag of one streaming query, and serves it to Prometheus.

        listener = LagListener(options, query="orders", metrics="9400")
        spark.streams.addListener(listener)
        spark.readStream.format("pulsar-readonly").options(**options).load().writeStream.queryName("orders")...

    It measures from the query's first report on. A query that is started again under its name is measured again. It runs in
    the driver, so Spark Connect cannot use it.

    Args:
        options: the options of the source.
        query: the query's name.
        metrics: HOST:PORT or PORT of the metrics; empty for none.
        every_s: time between two measurements, in seconds.

    Attributes:
        lags: the lag of each topic; empty while the query does not run.

    Raises:
        OptionError: an option, the query's name, the address or the interval is wrong.
        SourceError: the cluster does not answer, or the address cannot be used.
    """

    def __init__(self, options: Mapping[str, str], *, query: str, metrics: str = "", every_s: float = 10.0) -> None:
        if not query:
            raise OptionError("query: name the query, by queryName of its writer too")
        if not every_s > 0:
            raise OptionError(f"every_s: {every_s!r} must be above 0")
        try:
            address = parse_address(metrics) if metrics else None
        except ValueError as error:
            raise OptionError(f"metrics: {error}") from None
        self.lags: list[TopicLag] = []
        self._query = query
        self._every_s = every_s
        self._ends: dict[str, str] | None = None
        self._run = ""
        self._changed = threading.Condition()
        self._closed = False
        self._server: MetricsServer | None = None
        self._meter = LagMeter(options)
        try:
            if address is not None:
                self._server = MetricsServer(self, address)
        except OSError as error:
            self._meter.close()
            raise SourceError(f"metrics {metrics}: {error.strerror or error}; choose a free address") from None
        self._thread = threading.Thread(target=self._measure, name="lag of a query", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop measuring and serving; call this after `removeListener`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        if self._server is not None:
            self._server.close()
        self._meter.close()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Take the query, if it has the name. Spark calls this before `start` returns."""
        if event.name == self._query:
            self._run = str(event.runId)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Take the ends of the last micro-batch."""
        if event.progress.name != self._query:
            return
        found: dict[str, str] = {}
        for source in json.loads(event.progress.json).get("sources", ()):
            end = source.get("endOffset")
            topics = end.get("t") if isinstance(end, dict) else None
            found |= topics if isinstance(topics, dict) else {}
        with self._changed:
            self._run = str(event.progress.runId)
            first, self._ends = self._ends is None, found
            if first:
                self._changed.notify_all()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """See StreamingQueryListener; nothing to do."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Forget the query: what does not run has no lag that anybody knows."""
        with self._changed:
            if str(event.runId) == self._run:
                self._ends = None
                self.lags = []

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; prometheus_client calls this for each scrape."""
        lags = self.lags
        yield from lag_families(PREFIX, "read", lags, self._meter.measured_at if lags else 0.0, query=self._query)

    def _measure(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._ends is not None)
                if self._closed:
                    return
                ends = self._ends
            found = self._meter.measure(ends or {})
            with self._changed:
                if self._ends is not None:
                    self.lags = found
                self._changed.wait_for(lambda: self._closed, self._every_s)
