"""A catalog and its planner with blocking calls, which are tried again while servers do not answer."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.owner.errors import OwnerUnavailableError

from readonly_spark.errors import SourceError
from readonly_spark.loop_thread import LoopThread
from readonly_spark.outages import RetryWindow, is_transient
from readonly_spark.plan.catalog import Catalog
from readonly_spark.plan.planner import Planner

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import TypeVar

    from readonly_spark.options import Options

    T = TypeVar("T")

log = logging.getLogger(__name__)

STEP_TIMEOUT_S: Final = 300.0
"""Deadline of one try of a planning step over all topics, in seconds; each request in it has a deadline of its own."""

FIRST_CONNECT_S: Final = 15.0
"""Longest time for which the first connect of a query is tried again: its address may be wrong."""


class Connection:
    """A catalog and its planner.

    Args:
        options: the options of the source.

    Raises:
        SourceError: the cluster does not answer.
    """

    def __init__(self, options: Options) -> None:
        self._loop = LoopThread()
        self._opened = False
        self._retry_s = min(options.retry_s, FIRST_CONNECT_S)
        try:
            self.catalog = self.call(lambda: _opened(options))
        except BaseException:
            self._loop.stop()
            raise
        self._opened = True
        self._retry_s = options.retry_s
        self.planner = Planner(self.catalog, options)

    def call(self, step: Callable[[], Coroutine[Any, Any, T]], *, retry: bool = True) -> T:
        """Run a planning step.

        Args:
            step: returns the coroutine of one try.
            retry: whether to try again while servers do not answer, for the time of the option `retryTimeout`.

        Raises:
            SourceError: servers did not answer in time, or refuse this client. A search for transactions may take longer, as long
                as it advances.
            MetadataError, BookKeeperError, OwnerUnavailableError: the same, without `retry`, for errors after which another try
                may succeed.
        """
        outages = RetryWindow(self._retry_s)
        while True:
            before = self._progress()
            try:
                return self._loop.call(step(), STEP_TIMEOUT_S)
            except TimeoutError:
                if self._progress() == before:
                    raise SourceError(f"planning took more than {STEP_TIMEOUT_S:g} s") from None
                log.warning("planning continues: the search for transactions takes more than %g s", STEP_TIMEOUT_S)
            except (MetadataError, BookKeeperError, OwnerUnavailableError) as error:
                now, transient = time.monotonic(), is_transient(error)
                if transient and not retry:
                    raise
                pause = outages.failed("", now) if transient else None
                if pause is None:
                    raise SourceError(str(error)) from error
                if outages.to_log("", now):
                    log.warning("planning is tried again for at most %g s: %s", self._retry_s, error)
                time.sleep(pause)

    def _progress(self) -> object:
        return self.catalog.transactions.progress if self._opened else None

    def close(self) -> None:
        """Close all connections."""
        try:
            self._loop.call(self.catalog.close(), STEP_TIMEOUT_S)
        finally:
            self._loop.stop()


async def _opened(options: Options) -> Catalog:
    catalog = Catalog(options)
    await catalog.open()
    return catalog
