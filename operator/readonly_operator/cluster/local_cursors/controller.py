"""Removal of local cursors of deleted pools and bindings at their source clusters. Reconciling reads the reports."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from readonly_operator.cluster.fetch import FetchError
from readonly_operator.cluster.local_cursors.release import Release, ReleaseRequest
from readonly_operator.cluster.local_cursors.tracked import TrackedController
from readonly_operator.kube.names import PoolKey

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from readonly_operator.api.pool import Source
    from readonly_operator.cluster.local_cursors.admin import CursorAdmin

logger = logging.getLogger(__name__)

ReleaseKey = tuple[PoolKey, str]
"""A pool, and the uid of the object that is being deleted: the pool itself, or one of its bindings."""

MAX_CONCURRENT: Final = 8
"""Requests to source clusters at the same time."""

SLICE_SECONDS: Final = 5.0
"""Time that one removal takes before the others go on; its report is renewed as often."""

RETRY_SECONDS: Final = 10.0
GIVE_UP_SECONDS: Final = 120.0
"""Longest time without progress, as for other work of the finalizer; then the rest stays, and an event says so."""

DONE_SECONDS: Final = 3600.0


@dataclass(frozen=True, slots=True)
class ReleaseReport:
    """Report of a removal.

    Attributes:
        released: whether the deletion of the object need not wait any more.
        complete: whether everything was removed.
        text: progress or result, in words.
    """

    released: bool = False
    complete: bool = False
    text: str = "not begun"


Reports = dict[str, ReleaseReport]
"""Reports by the uid of the object that is being deleted."""


class ReleaseController(TrackedController[ReleaseKey, ReleaseRequest, Reports]):
    """Remove local cursors.

    Args:
        changed: called with each pool whose report changed.
        admin_for: returns the admin API of a source; may raise a FetchError.
        wake: called when the removals of a pool changed, to sync soon.
        stopped: set when the operator ends.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        changed: Callable[[PoolKey], None],
        admin_for: Callable[[Source], CursorAdmin],
        wake: Callable[[], None],
        stopped: threading.Event,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(changed, {}, wake, stopped)
        self._admin_for = admin_for
        self._ends = stopped
        self._clock = clock
        self._threads = ThreadPoolExecutor(MAX_CONCURRENT, thread_name_prefix="release-cursors")
        self._releases: dict[ReleaseKey, tuple[ReleaseRequest, Release]] = {}
        self._made_of: dict[ReleaseKey, ReleaseReport] = {}

    def _subjects(self) -> Mapping[ReleaseKey, ReleaseRequest | None]:
        subjects = super()._subjects()
        for item in self._releases.keys() - subjects.keys():
            del self._releases[item]
            self._made_of.pop(item, None)
        return subjects

    def _extra_reports(self) -> Mapping[PoolKey, Reports]:
        found: defaultdict[PoolKey, Reports] = defaultdict(dict)
        for (pool, uid), report in self._made_of.items():
            found[pool][uid] = report
        return found

    def _process(self, item: ReleaseKey, subject: ReleaseRequest) -> tuple[Mapping[PoolKey, Reports], float]:
        known = self._releases.get(item)
        if known is None or known[0] != subject:
            made = Release(
                subject, lambda: self._admin_for(subject.source), self._threads, self._clock, self._ends.is_set
            )
            known = self._releases[item] = subject, made
        report, again = self._step(*known)
        self._made_of[item] = report
        return {}, again

    def _step(self, request: ReleaseRequest, release: Release) -> tuple[ReleaseReport, float]:
        done, silent = False, ""
        try:
            done = release.advance(self._clock() + SLICE_SECONDS)
        except FetchError as error:
            silent = f"the source cluster does not answer: {error}"
        if done:
            logger.info("local cursors released: object=%s: %s", request.label, release.summary)
            return ReleaseReport(released=True, complete=True, text=release.summary), DONE_SECONDS
        problem = silent or release.problems
        text = "; ".join(filter(None, (release.summary, problem)))
        if problem and self._clock() - release.progressed_at > GIVE_UP_SECONDS:
            logger.warning("local cursors not released: object=%s: %s", request.label, text)
            return ReleaseReport(released=True, text=text), DONE_SECONDS
        return ReleaseReport(text=text), RETRY_SECONDS if silent or release.failed else 0.0
