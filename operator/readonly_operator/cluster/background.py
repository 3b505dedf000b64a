"""Desks: work for pools that takes its time, and that reconciling reads the results of."""

from __future__ import annotations

import contextlib
import logging
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping

    from readonly_operator.kube.names import PoolKey

logger = logging.getLogger(__name__)

FAILED_SECONDS = 15.0
"""How soon work is tried again that failed in a way that nobody thought of."""

Item = TypeVar("Item")
Subject = TypeVar("Subject")
Report = TypeVar("Report")


class BackgroundController(ABC, Generic[Item, Subject, Report]):
    """Works on items one after the other: on those that are due, and on those of which something else is wanted.

    What goes wrong with one item keeps no other from being worked on.

    Args:
        changed: called with each pool whose report is new.
        nothing: the report of a pool that was not worked for.
        stopped: set when the operator ends; no other item is begun then.
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
        """What a pool is to say."""
        return self._reports.get(key, self._nothing)

    @property
    def busy_since(self) -> float | None:
        """Since when (monotonic) it works on the same item, or finds out what there is to do; None while it does not."""
        return self._busy_since

    def sync(self) -> float:
        """Work on every item that is due or has changed.

        Returns:
            Seconds until one is due again.
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
        """What is wanted of each item; None where nothing can be done now, and what was said last still holds."""

    @abstractmethod
    def _process(self, item: Item, subject: Subject) -> tuple[Mapping[PoolKey, Report], float]:
        """Do what is wanted: what pools are to say of it, and seconds until it is due again."""

    def _extra_reports(self) -> Mapping[PoolKey, Report]:
        """Reports of pools that are not worked for."""
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
        before, self._reports = self._reports, reports  # at once, for reconciling reads it meanwhile
        for key in before.keys() | self._reports.keys():
            if before.get(key) != self._reports.get(key):
                self._changed(key)


@contextlib.contextmanager
def guarded(item: object) -> Iterator[None]:
    """Let what goes wrong with one item be logged, and keep no other from being worked on."""
    try:
        yield
    except Exception:
        logger.exception("%s: work at the writable cluster failed; it is tried again", item)
