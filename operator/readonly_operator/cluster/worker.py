"""Threads for background controllers, so that no reconcile waits for a source cluster, and no cluster for another.

Each controller processes its due items and keeps a report for each pool; reconciling reads the reports.
"""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Protocol

from readonly_operator import metrics
from readonly_operator.cluster.daemon_threads import DaemonThreads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

logger = logging.getLogger(__name__)

RETRY_SECONDS = 15.0
MAX_WAIT_SECONDS = 3600.0
STUCK_SECONDS = 1800.0
"""Time on one item after which a controller is stuck. Every request has a deadline, so even 100 dead brokers take less."""
MAX_CLUSTERS = 16
"""Source clusters for which a background thread works at the same time. With more, they take turns after each item."""
SETTLE_SECONDS = 0.2
"""Delay that collects pools which change together: they must agree before anything is set."""


class BackgroundWork(Protocol):
    """Protocol of a background controller."""

    @property
    def busy_since(self) -> float | None:
        """Return since when (monotonic) the same item is processed; None while idle."""
        ...

    def process_on(self, submit: Callable[[Callable[[], None]], object], finished: Callable[[], object]) -> None:
        """Let other threads process the items; `finished` is called when another `sync` is needed."""
        ...

    def sync(self) -> float:
        """Begin to process all due items; return seconds until the next one is due."""
        ...


class BackgroundThread:
    """Sync background controllers in sequence on one thread; others process their items.

    Args:
        name: of the thread.
        works: the controllers.
    """

    def __init__(self, name: str, works: Sequence[BackgroundWork]) -> None:
        self._works = works
        self._items = DaemonThreads(f"writer-{name}", MAX_CLUSTERS)
        self._all = False
        self._finished: set[int] = set()
        self._woken = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"writer-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread; all pools must be known by now."""
        for index, work in enumerate(self._works):
            work.process_on(self._items.submit, partial(self._sync_again, index))
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current steps, which end by themselves."""
        self._stopped.set()
        self._woken.set()
        self._items.stop()

    def join(self, timeout: float) -> None:
        """Wait for the current steps."""
        deadline = time.monotonic() + timeout
        if self._thread.is_alive():
            self._thread.join(timeout=timeout)
        self._items.join(max(0.0, deadline - time.monotonic()))

    def is_alive(self) -> bool:
        """Return whether the thread runs, or one of those that process items."""
        return self._thread.is_alive() or self._items.is_alive()

    def is_stuck(self) -> bool:
        """Return whether a controller has worked on one item for so long that it is stuck, or nothing syncs them any more."""
        now = time.monotonic()
        return not self._thread.is_alive() or any(
            since is not None and now - since > STUCK_SECONDS for since in (one.busy_since for one in self._works)
        )

    def wake(self) -> None:
        """Sync again soon, because a pool changed."""
        self._all = True
        self._woken.set()

    def _sync_again(self, index: int) -> None:
        """Sync one controller again soon, because it has finished the items of a cluster."""
        self._finished.add(index)
        self._woken.set()

    def _run(self) -> None:
        due = [0.0] * len(self._works)
        while not self._stopped.is_set():
            if self._woken.wait(max(0.0, min(*due, time.monotonic() + MAX_WAIT_SECONDS) - time.monotonic())):
                self._stopped.wait(SETTLE_SECONDS)
                self._woken.clear()
                if self._all:
                    self._all = False
                    due = [0.0] * len(self._works)
                while self._finished:
                    due[self._finished.pop()] = 0.0
            for index, work in enumerate(self._works):
                if due[index] <= time.monotonic() and not self._stopped.is_set():
                    due[index] = time.monotonic() + self._sync(work)

    def _sync(self, work: BackgroundWork) -> float:
        try:
            return max(work.sync(), SETTLE_SECONDS)
        except Exception:
            metrics.count_failure(metrics.SOURCE_CLUSTERS)
            logger.exception("background work failed, retrying")
            return RETRY_SECONDS
