"""Threads for background controllers, so that no reconcile waits for a source cluster.

Each controller processes its due items and keeps a report for each pool; reconciling reads the reports.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Protocol

from readonly_operator import metrics

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger(__name__)

RETRY_SECONDS = 15.0
MAX_WAIT_SECONDS = 3600.0
STUCK_SECONDS = 1800.0
"""Time on one item after which a controller is stuck. Every request has a deadline, so even 100 dead brokers take less."""
SETTLE_SECONDS = 0.2
"""Delay that collects pools which change together: they must agree before anything is set."""


class BackgroundWork(Protocol):
    """Protocol of a background controller."""

    @property
    def busy_since(self) -> float | None:
        """Return since when (monotonic) the same item is processed; None while idle."""
        ...

    def sync(self) -> float:
        """Process all due items; return seconds until the next one is due."""
        ...


class BackgroundThread:
    """Run background controllers in sequence on one thread.

    Args:
        name: of the thread.
        works: the controllers.
    """

    def __init__(self, name: str, works: Sequence[BackgroundWork]) -> None:
        self._works = works
        self._woken = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"writer-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread; all pools must be known by now."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current step, which ends by itself."""
        self._stopped.set()
        self._woken.set()

    def join(self, timeout: float) -> None:
        """Wait for the current step."""
        if self._thread.is_alive():
            self._thread.join(timeout=timeout)

    def is_alive(self) -> bool:
        """Return whether the thread runs."""
        return self._thread.is_alive()

    def is_stuck(self) -> bool:
        """Return whether a controller has worked on one item for so long that it is stuck."""
        now = time.monotonic()
        return any(
            since is not None and now - since > STUCK_SECONDS for since in (one.busy_since for one in self._works)
        )

    def wake(self) -> None:
        """Sync again soon, because a pool changed."""
        self._woken.set()

    def _run(self) -> None:
        due = [0.0] * len(self._works)
        while not self._stopped.is_set():
            if self._woken.wait(max(0.0, min(*due, time.monotonic() + MAX_WAIT_SECONDS) - time.monotonic())):
                self._stopped.wait(SETTLE_SECONDS)
                self._woken.clear()
                due = [0.0] * len(self._works)
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
