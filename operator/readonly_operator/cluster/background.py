"""Background controllers: slow work for pools at the source cluster. Reconciling reads their reports."""

from __future__ import annotations

import contextlib
import logging
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from readonly_operator import metrics

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping

    from readonly_operator.kube.names import PoolKey

logger = logging.getLogger(__name__)

FAILED_SECONDS = 15.0
"""Delay before the retry of work that failed unexpectedly."""

Item = TypeVar("Item")
Subject = TypeVar("Subject")
Report = TypeVar("Report")


class BackgroundController(ABC, Generic[Item, Subject, Report]):
    """Process items in sequence: those that are due, and those whose subject changed.

    An error of one item does not affect the others.

    Args:
        changed: called with each pool whose report changed.
        nothing: report of a pool without an item.
        stopped: set when the operator ends; no further item is begun then.
    """

    def __init__(
        self, changed: Callable[[PoolKey], None], nothing: Report, stopped: threading.Event | None = None
    ) -> None:
        self._changed = changed
        self._nothing = nothing
        self._stopped = stopped
        self._busy_since: float | None = None
        self._due: dict[Item, tuple[Subject, float]] = {}
        self._made: dict[Item, Mapping[PoolKey, Report]] = {}
        self._reports: dict[PoolKey, Report] = {}

    def report(self, key: PoolKey) -> Report:
        """Return the report of a pool."""
        return self._reports.get(key, self._nothing)

    @property
    def busy_since(self) -> float | None:
        """Return since when (monotonic) the same item is processed, or items are listed; None while idle."""
        return self._busy_since

    def sync(self) -> float:
        """Process every item that is due or has changed.

        Returns:
            Seconds until the next item is due.
        """
        self._busy_since = time.monotonic()
        try:
            return self._sync()
        finally:
            self._busy_since = None

    def _sync(self) -> float:
        subjects = self._subjects()
        for item, subject in subjects.items():
            if self._stopped is not None and self._stopped.is_set():
                return FAILED_SECONDS
            if subject is None:
                self._due.pop(item, None)
            elif item not in self._due or self._due[item][0] != subject or self._due[item][1] <= time.monotonic():
                self._sync_item(item, subject)
                self._publish_reports()
        for item in self._made.keys() - subjects.keys():
            del self._made[item]
        self._due = {item: due for item, due in self._due.items() if item in subjects}
        self._publish_reports()
        return max(0.0, min((due for _, due in self._due.values()), default=float("inf")) - time.monotonic())

    @abstractmethod
    def _subjects(self) -> Mapping[Item, Subject | None]:
        """Return the subject of each item; None keeps the item's last report and does nothing."""

    @abstractmethod
    def _process(self, item: Item, subject: Subject) -> tuple[Mapping[PoolKey, Report], float]:
        """Process one item; return reports by pool, and seconds until the item is due again."""

    def _extra_reports(self) -> Mapping[PoolKey, Report]:
        """Return reports of pools without an item."""
        return {}

    def _sync_item(self, item: Item, subject: Subject) -> None:
        self._due[item] = subject, time.monotonic() + FAILED_SECONDS
        self._busy_since = time.monotonic()
        with guarded(item):
            self._made[item], again = self._process(item, subject)
            self._due[item] = subject, time.monotonic() + again

    def _publish_reports(self) -> None:
        reports: dict[PoolKey, Report] = {}
        for made in self._made.values():
            reports.update(made)
        reports.update(self._extra_reports())
        before, self._reports = self._reports, reports  # in one assignment: reconciling reads it concurrently
        for key in before.keys() | self._reports.keys():
            if before.get(key) != self._reports.get(key):
                self._changed(key)


@contextlib.contextmanager
def guarded(item: object) -> Iterator[None]:
    """Log and count an exception of one item, and go on with the others."""
    try:
        yield
    except Exception:
        metrics.count_failure(metrics.SOURCE_CLUSTERS)
        logger.exception("background work failed, retrying: item=%s", item)
