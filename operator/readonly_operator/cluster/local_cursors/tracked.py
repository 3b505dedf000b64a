"""Background controllers whose items reconciling gives: they need more than the stored objects."""

from __future__ import annotations

import threading
from abc import abstractmethod
from typing import TYPE_CHECKING, TypeVar

from readonly_operator.cluster.background import BackgroundController

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from readonly_operator.kube.names import PoolKey

Item = TypeVar("Item")
Subject = TypeVar("Subject")
Report = TypeVar("Report")


class TrackedController(BackgroundController[Item, Subject, Report]):
    """Process the items that were last given for each pool.

    Args:
        changed: called with each pool whose report changed.
        nothing: report of a pool without an item.
        wake: called when items changed, to sync soon.
        stopped: set when the operator ends; no further item is begun then.
    """

    def __init__(
        self,
        changed: Callable[[PoolKey], None],
        nothing: Report,
        wake: Callable[[], None],
        stopped: threading.Event,
    ) -> None:
        super().__init__(changed, nothing, stopped)
        self._wake = wake
        self._lock = threading.Lock()
        self._tracked: dict[PoolKey, dict[Item, Subject]] = {}

    def track(self, pool: PoolKey, subjects: Mapping[Item, Subject]) -> None:
        """Set the items of a pool; items that are not among them any more are dropped."""
        with self._lock:
            if self._tracked.get(pool, {}) == subjects:
                return
            if subjects:
                self._tracked[pool] = dict(subjects)
            else:
                del self._tracked[pool]
        self._wake()

    def _subjects(self) -> Mapping[Item, Subject | None]:
        with self._lock:
            return {item: subject for subjects in self._tracked.values() for item, subject in subjects.items()}

    @abstractmethod
    def _lane(self, item: Item, subject: Subject) -> Hashable:
        """See BackgroundController."""

    @abstractmethod
    def _process(self, item: Item, subject: Subject) -> tuple[Mapping[PoolKey, Report], float]:
        """See BackgroundController."""
