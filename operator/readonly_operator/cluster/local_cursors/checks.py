"""Checks whether the policies of namespaces allow local cursors. Reconciling reads the reports.

A namespace costs one request for its policies. The topic with cursors and the list of topics are requested only if a limit
is set that depends on them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from readonly_operator.cluster.cursor_limits import NO_LIMITS, CursorLimits
from readonly_operator.cluster.fetch import FetchError
from readonly_operator.cluster.local_cursors.admin import FORBIDDEN
from readonly_operator.cluster.local_cursors.policies import PlannedTopic, has_limits, obstacles
from readonly_operator.cluster.local_cursors.tracked import TrackedController
from readonly_operator.kube.names import PoolKey

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from readonly_operator.api.pool import Source
    from readonly_operator.cluster.local_cursors.admin import CursorAdmin
    from readonly_operator.kube.status import Condition

logger = logging.getLogger(__name__)

NAMESPACE_SECONDS: Final = 0.2
"""Shortest time between two checks of a pool, for each of its namespaces: at most 5 namespaces per second in the mean."""

RETRY_SECONDS: Final = 15.0
"""Delay before a source cluster that does not answer is asked again."""


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """Namespaces of one pool to check.

    Attributes:
        source: the source cluster.
        identity: of the pool.
        partitions: of a new topic with cursors.
        namespaces: TENANT/NAMESPACE of the topics with local cursors.
        limits: settings of the brokers.
    """

    source: Source
    identity: str
    partitions: int
    namespaces: tuple[str, ...]
    limits: CursorLimits = NO_LIMITS


@dataclass(frozen=True, slots=True)
class NamespaceReport:
    """Result of checking one namespace.

    Attributes:
        obstacles: the condition LocalCursors for each obstacle; none when nothing speaks against local cursors.
        problem: why the admin API did not answer; empty when it did.
        forbidden: whether the operator may not read the policies.
    """

    obstacles: tuple[Condition, ...] = ()
    problem: str = ""
    forbidden: bool = False


Reports = dict[str, NamespaceReport]
"""Reports by namespace; a namespace that was not checked yet is missing."""


class NamespaceChecks(TrackedController[PoolKey, CheckRequest, Reports]):
    """Check the namespaces of pools with local cursors.

    Args:
        period: seconds between two checks of a pool's namespaces.
        changed: called with each pool whose report changed.
        admin_for: returns the admin API of a source; may raise a FetchError.
        wake: called when a pool's namespaces changed, to sync soon.
        stopped: set when the operator ends.
    """

    def __init__(
        self,
        period: float,
        changed: Callable[[PoolKey], None],
        admin_for: Callable[[Source], CursorAdmin],
        wake: Callable[[], None],
        stopped: threading.Event,
    ) -> None:
        super().__init__(changed, {}, wake, stopped)
        self._period = period
        self._admin_for = admin_for
        self._ends = stopped

    def _lane(self, _item: PoolKey, subject: CheckRequest) -> str:
        return subject.source.admin_url

    def _process(self, item: PoolKey, subject: CheckRequest) -> tuple[Mapping[PoolKey, Reports], float]:
        found: Reports = {}
        problem = ""
        for namespace in subject.namespaces:
            if self._ends.is_set():
                break
            if problem:  # the others would wait for the same dead hosts
                found[namespace] = NamespaceReport(problem=problem)
                continue
            found[namespace] = self._check(subject, namespace)
            problem = found[namespace].problem
        again = max(self._period, NAMESPACE_SECONDS * len(subject.namespaces))
        return {item: found}, RETRY_SECONDS if problem else again

    def _check(self, subject: CheckRequest, namespace: str) -> NamespaceReport:
        try:
            admin = self._admin_for(subject.source)
            policies, limits = admin.policies(namespace), subject.limits
            wanted = PlannedTopic(namespace, subject.partitions, exists=False)
            if has_limits(policies, limits):
                topic = admin.cursor_topic(namespace, subject.identity)
                if topic.pool == subject.identity and topic.partitions:
                    wanted = PlannedTopic(namespace, topic.partitions, exists=True)
            found = obstacles(wanted, policies, limits, lambda: len(admin.topics(namespace)))
        except FetchError as error:
            if error.status in FORBIDDEN:
                logger.debug("policies not readable: namespace=%s error=%s", namespace, error)
                return NamespaceReport(forbidden=True)
            return NamespaceReport(problem=str(error))
        return NamespaceReport(tuple(found))
