"""Work at writable clusters that takes its time: threads of their own, so that no pool waits for it.

Each desk looks at all pools, does what is due, and keeps what it has to say; reconciling reads that.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger(__name__)

RETRY_SECONDS = 15.0
MAX_WAIT_SECONDS = 3600.0
STUCK_SECONDS = 1800.0
"""A desk that works on one thing for longer hangs: with deadlines for each request, even 100 dead brokers take less."""
SETTLE_SECONDS = 0.2
"""Pools that change together are looked at together: they are to agree before anything is set."""


class BackgroundWork(Protocol):
    """A kind of work."""

    @property
    def busy_since(self) -> float | None:
        """Since when (monotonic) it works on the same thing; None while it does not."""
        ...

    def sync(self) -> float:
        """Do what is due; seconds until something is due again."""
        ...


class BackgroundThread:
    """Lets desks work one after the other.

    Args:
        name: of this work.
        works: what there is to do.
    """

    def __init__(self, name: str, works: Sequence[BackgroundWork]) -> None:
        self._works = works
        self._woken = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"writer-{name}", daemon=True)

    def start(self) -> None:
        """Begin; all pools must be known by now."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the step that is under way, which is left to end by itself."""
        self._stopped.set()
        self._woken.set()

    def join(self, timeout: float) -> None:
        """Wait for the step that is under way."""
        if self._thread.is_alive():
            self._thread.join(timeout=timeout)

    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def is_stuck(self) -> bool:
        """Whether a desk has worked on one thing for so long that it will not end any more."""
        now = time.monotonic()
        return any(
            since is not None and now - since > STUCK_SECONDS for since in (one.busy_since for one in self._works)
        )

    def wake(self) -> None:
        """Look again soon: a pool has changed."""
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
            logger.exception("work at a writable cluster failed; it is tried again")
            return RETRY_SECONDS
