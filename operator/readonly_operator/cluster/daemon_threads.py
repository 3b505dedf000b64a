"""A pool of daemon threads: unlike those of concurrent.futures, none of them keeps an ending process alive."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from readonly_operator import metrics

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)


class DaemonThreads:
    """Run jobs in the order of their submission, each on one of a few threads.

    Args:
        name: of the threads.
        limit: the most threads; one is started when a job finds none idle.
    """

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._changed = threading.Condition()
        self._jobs: deque[Callable[[], object]] = deque()
        self._idle = 0
        self._stopped = False
        self._threads: list[threading.Thread] = []

    def submit(self, job: Callable[[], object]) -> None:
        """Queue a job; after `stop` it is dropped."""
        with self._changed:
            if self._stopped:
                return
            self._jobs.append(job)
            if self._idle < len(self._jobs) and len(self._threads) < self._limit:
                thread = threading.Thread(target=self._run, name=f"{self._name}-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify()

    def stop(self) -> None:
        """Drop the queued jobs, and end each thread after its present job."""
        with self._changed:
            self._stopped = True
            self._jobs.clear()
            self._changed.notify_all()

    def join(self, timeout: float) -> None:
        """Wait for the present jobs."""
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def is_alive(self) -> bool:
        """Return whether a thread runs."""
        return any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        while (job := self._next()) is not None:
            try:
                job()
            except Exception:
                metrics.count_failure(metrics.SOURCE_CLUSTERS)
                logger.exception("background job failed")

    def _next(self) -> Callable[[], object] | None:
        with self._changed:
            self._idle += 1
            try:
                while not self._jobs:
                    if self._stopped:
                        return None
                    self._changed.wait()
                return self._jobs.popleft()
            finally:
                self._idle -= 1
