"""Removal of local cursors of deleted pools and bindings at their source clusters. Reconciling reads the reports."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from readonly_operator.cluster.fetch import FetchError
from readonly_operator.cluster.local_cursors.release import Release, ReleaseRequest
from readonly_operator.cluster.local_cursors.tracked import TrackedController
from readonly_operator.cluster.own_time import OwnTime
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
"""Requests to a source cluster at the same time."""

SLICE_SECONDS: Final = 5.0
"""Time that one removal takes before the others go on; its report is renewed as often."""

RETRY_SECONDS: Final = 10.0
GIVE_UP_SECONDS: Final = 120.0
"""Longest own time without progress, as for other work of the finalizer; then the rest stays, and an event says so."""

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


@dataclass(slots=True)
class _Running:
    """A removal.

    Attributes:
        request: the desired removal.
        release: its state.
        time: its time without progress.
    """

    request: ReleaseRequest
    release: Release
    time: OwnTime = field(default_factory=lambda: OwnTime(GIVE_UP_SECONDS))


@dataclass(frozen=True, slots=True)
class _Silence:
    """A try in vain: no host of a source cluster answered. It counts for all removals there: none waits for dead hosts again.

    Attributes:
        maker: the removal that tried.
        ended: when, by the clock.
        seconds: duration of the try.
        text: the reason, in words.
    """

    maker: _Running
    ended: float
    seconds: float
    text: str


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
        self._threads: dict[str, ThreadPoolExecutor] = {}
        self._releases: dict[ReleaseKey, _Running] = {}
        self._made_of: dict[ReleaseKey, ReleaseReport] = {}
        self._silences: dict[Source, _Silence] = {}

    def _subjects(self) -> Mapping[ReleaseKey, ReleaseRequest | None]:
        subjects = super()._subjects()
        with self._guard:
            for item in self._releases.keys() - subjects.keys():
                del self._releases[item]
                self._made_of.pop(item, None)
            sources = {subject.source for subject in subjects.values() if subject is not None}
            self._silences = {source: silence for source, silence in self._silences.items() if source in sources}
            used = {source.admin_url for source in sources} | {lane for lane, _ in self._running.values()}
            for url in self._threads.keys() - used:
                self._threads.pop(url).shutdown(wait=False)
        return subjects

    def _extra_reports(self) -> Mapping[PoolKey, Reports]:
        found: defaultdict[PoolKey, Reports] = defaultdict(dict)
        for (pool, uid), report in self._made_of.items():
            found[pool][uid] = report
        return found

    def _lane(self, _item: ReleaseKey, subject: ReleaseRequest) -> str:
        return subject.source.admin_url

    def _process(self, item: ReleaseKey, subject: ReleaseRequest) -> tuple[Mapping[PoolKey, Reports], float]:
        with self._guard:
            running = self._releases.get(item)
            if running is None or running.request != subject:
                running = self._releases[item] = _Running(subject, self._release(subject))
        report, again = self._step(running)
        with self._guard:
            if item in self._releases:
                self._made_of[item] = report
        return {}, again

    def _release(self, request: ReleaseRequest) -> Release:
        """Return a new removal. Each source cluster has threads of its own, so that none takes those of others."""
        url = request.source.admin_url
        if url not in self._threads:
            self._threads[url] = ThreadPoolExecutor(MAX_CONCURRENT, thread_name_prefix="release-cursors")
        admin = partial(self._admin_for, request.source)
        return Release(request, admin, self._threads[url], self._clock, self._ends.is_set)

    def _step(self, running: _Running) -> tuple[ReleaseReport, float]:
        request, release = running.request, running.release
        done, silence, before = False, self._silences.get(request.source), release.progress
        began = self._clock()
        if silence is None or silence.maker is running or began - silence.ended >= RETRY_SECONDS:
            try:
                done = release.advance(began + SLICE_SECONDS)
                silence = None
            except FetchError as error:
                text = f"the source cluster does not answer: {error}"
                silence = _Silence(running, self._clock(), self._clock() - began, text)
            self._note(request.source, silence)
        if done:
            logger.info("local cursors released: object=%s: %s", request.label, release.summary)
            return ReleaseReport(released=True, complete=True, text=release.summary), DONE_SECONDS
        problem = silence.text if silence is not None else release.problems
        text = "; ".join(filter(None, (release.summary, problem)))
        if release.progress > before:
            running.time.restart()
        elif problem:
            spent = silence.seconds if silence is not None else self._clock() - began
            if running.time.spend(spent, RETRY_SECONDS):
                logger.warning("local cursors not released: object=%s: %s", request.label, text)
                return ReleaseReport(released=True, text=text), DONE_SECONDS
        return ReleaseReport(text=text), RETRY_SECONDS if silence is not None or release.failed else 0.0

    def _note(self, source: Source, silence: _Silence | None) -> None:
        with self._guard:
            if silence is None:
                self._silences.pop(source, None)
            else:
                self._silences[source] = silence
