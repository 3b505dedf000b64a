"""Background controllers: slow work for pools at the source cluster. Reconciling reads their reports."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from readonly_operator import metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from readonly_operator.kube.names import PoolKey

logger = logging.getLogger(__name__)

FAILED_SECONDS = 15.0
"""Delay before the retry of work that failed unexpectedly."""

Item = TypeVar("Item")
Subject = TypeVar("Subject")
Report = TypeVar("Report")


class BackgroundController(ABC, Generic[Item, Subject, Report]):
    """Process items: those that are due, and those whose subject changed.

    Items of one source cluster form a lane. They are processed in sequence, and those of different lanes at the same time once
    threads are attached: a cluster that does not answer delays no other. An error of one item does not affect the others.

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
        self._guard = threading.RLock()
        """Held for a change of the state below, and of a subclass's state that `_process` changes; never during a request."""
        self._busy_since: float | None = None
        self._wanted: Mapping[Item, Subject | None] = {}
        self._due: dict[Item, tuple[Subject, float]] = {}
        self._made: dict[Item, Mapping[PoolKey, Report]] = {}
        self._reports: dict[PoolKey, Report] = {}
        self._lanes: dict[Hashable, deque[Item]] = {}
        self._running: dict[Item, tuple[Hashable, float]] = {}
        self._submit: Callable[[Callable[[], None]], object] | None = None
        self._finished: Callable[[], object] = lambda: None

    def process_on(self, submit: Callable[[Callable[[], None]], object], finished: Callable[[], object]) -> None:
        """Let other threads process the items.

        Args:
            submit: runs a job on another thread.
            finished: called when nothing is left to process in a lane: another `sync` is needed.
        """
        self._submit, self._finished = submit, finished

    def report(self, key: PoolKey) -> Report:
        """Return the report of a pool."""
        return self._reports.get(key, self._nothing)

    @property
    def busy_since(self) -> float | None:
        """Return since when (monotonic) the same item is processed, or items are listed; None while idle."""
        since = [self._busy_since, *(begun for _, begun in self._running.copy().values())]
        return min((one for one in since if one is not None), default=None)

    def sync(self) -> float:
        """Process every item that is due or has changed; with attached threads, begin with it.

        Returns:
            Seconds until the next item is due, without those that are processed.
        """
        self._busy_since = time.monotonic()
        try:
            begun = self._queue_items()
        finally:
            self._busy_since = None
        for lane in begun:
            if self._submit is None:
                while self._work(lane):
                    pass
            else:
                self._submit(partial(self._take_turn, lane))
        with self._guard:
            taken = self._running.keys() | {item for lane in self._lanes.values() for item in lane}
            waiting = [due for item, (_, due) in self._due.items() if item not in taken]
        return max(0.0, min(waiting, default=float("inf")) - time.monotonic())

    def _queue_items(self) -> list[Hashable]:
        """Queue the items that are due or have changed; return the lanes that had none before."""
        subjects = self._subjects()
        begun = []
        with self._guard:
            self._wanted = subjects
            for item in self._made.keys() - subjects.keys():
                del self._made[item]
            self._due = {item: due for item, due in self._due.items() if subjects.get(item) is not None}
            queued = {item for lane in self._lanes.values() for item in lane}
            for item, subject in subjects.items():
                if subject is None or item in queued or not self._is_due(item, subject):
                    continue
                # never on two threads at once, also if its cluster changed
                lane = self._running[item][0] if item in self._running else self._lane(item, subject)
                if lane not in self._lanes:
                    self._lanes[lane] = deque()
                    begun.append(lane)
                self._lanes[lane].append(item)
        self._publish_reports()
        return begun

    @abstractmethod
    def _subjects(self) -> Mapping[Item, Subject | None]:
        """Return the subject of each item; None keeps the item's last report and does nothing."""

    @abstractmethod
    def _lane(self, item: Item, subject: Subject) -> Hashable:
        """Return what names the source cluster of an item."""

    @abstractmethod
    def _process(self, item: Item, subject: Subject) -> tuple[Mapping[PoolKey, Report], float]:
        """Process one item; return reports by pool, and seconds until the item is due again."""

    def _extra_reports(self) -> Mapping[PoolKey, Report]:
        """Return reports of pools without an item."""
        return {}

    def _is_due(self, item: Item, subject: Subject) -> bool:
        due = self._due.get(item)
        if due is None or due[0] != subject:
            return True
        return item not in self._running and due[1] <= time.monotonic()

    def _take_turn(self, lane: Hashable) -> None:
        """Process one item of a lane, and let other lanes have their turn before the next."""
        if self._work(lane) and self._submit is not None:
            self._submit(partial(self._take_turn, lane))
        else:
            self._finished()

    def _work(self, lane: Hashable) -> bool:
        """Process the first item of a lane; return whether there are more."""
        with self._guard:
            queue = self._lanes[lane]
            item = queue.popleft()
            subject = self._wanted.get(item)
            self._running[item] = lane, time.monotonic()
        try:
            if subject is not None and not (self._stopped is not None and self._stopped.is_set()):
                with guarded(item):
                    self._sync_item(item, subject)
                    self._publish_reports()
        finally:
            with self._guard:
                del self._running[item]
                if not queue:
                    del self._lanes[lane]
        return bool(queue)

    def _sync_item(self, item: Item, subject: Subject) -> None:
        with self._guard:
            self._due[item] = subject, time.monotonic() + FAILED_SECONDS
        made, again = self._process(item, subject)
        with self._guard:
            self._made[item] = made
            self._due[item] = subject, time.monotonic() + again

    def _publish_reports(self) -> None:
        with self._guard:
            reports: dict[PoolKey, Report] = {}
            for made in self._made.values():
                reports.update(made)
            reports.update(self._extra_reports())
            before, self._reports = self._reports, reports  # in one assignment: reconciling reads it concurrently
        for key in before.keys() | reports.keys():
            if before.get(key) != reports.get(key):
                self._changed(key)


@contextlib.contextmanager
def guarded(item: object) -> Iterator[None]:
    """Log and count an exception of one item, and go on with the others."""
    try:
        yield
    except Exception:
        metrics.count_failure(metrics.SOURCE_CLUSTERS)
        logger.exception("background work failed, retrying: item=%s", item)
