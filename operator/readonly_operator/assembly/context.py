"""Dependencies and result of a reconcile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from readonly_operator.kube.scopes import Scopes

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable

    from readonly_operator.assembly.brokers import Brokers
    from readonly_operator.assembly.locality import LocalityAnnotator
    from readonly_operator.assembly.lookup_history import LookupHistory
    from readonly_operator.assembly.rollouts import RolloutBudget
    from readonly_operator.assembly.status_throttle import StatusThrottle
    from readonly_operator.cluster.explicit_lac.controller import ExplicitLacController
    from readonly_operator.cluster.explicit_lac.prober import ProbeController
    from readonly_operator.cluster.local_cursors.checks import NamespaceChecks
    from readonly_operator.cluster.local_cursors.controller import ReleaseController
    from readonly_operator.cluster.registration import RegistrationController
    from readonly_operator.cluster.source import SourceMonitor
    from readonly_operator.kube.api_server import Kube
    from readonly_operator.kube.apply import Applier
    from readonly_operator.kube.events import Recorder
    from readonly_operator.kube.store import Store
    from readonly_operator.settings import Settings


@dataclass(frozen=True, slots=True)
class Context:
    """Dependencies of a reconcile.

    Attributes:
        kube: the API server.
        store: the known objects.
        applier: applies desired objects.
        brokers: queries brokers.
        locality_annotator: writes localities on pods.
        sources: last reports about source clusters.
        lac: last reports of managed explicit LAC.
        registrations: last reports of pools that are registered as clusters.
        probes: last results of explicit LAC probes.
        cursor_checks: whether namespaces allow local cursors.
        cursor_releases: last reports of the removal of local cursors.
        lookup_history: the last config of each pool.
        status_throttle: limits writes of bindings' statuses.
        rollouts: permits rollouts of pools.
        events: writes events.
        settings: of this process.
        now: the time, with a time zone.
        scopes: namespaces that cannot be read at present.
    """

    kube: Kube
    store: Store
    applier: Applier
    brokers: Brokers
    locality_annotator: LocalityAnnotator
    sources: SourceMonitor
    lac: ExplicitLacController
    registrations: RegistrationController
    probes: ProbeController
    cursor_checks: NamespaceChecks
    cursor_releases: ReleaseController
    lookup_history: LookupHistory
    status_throttle: StatusThrottle
    rollouts: RolloutBudget
    events: Recorder
    settings: Settings
    now: Callable[[], dt.datetime]
    scopes: Scopes = field(default_factory=Scopes)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a reconcile.

    Attributes:
        settled: whether the pool is in its desired state, as far as the operator can tell.
        requeue: whether to reconcile again soon, because no event announces the awaited change.
        refresh_seconds: when to query brokers again for the status' statistics; 0 for never.
    """

    settled: bool
    requeue: bool
    refresh_seconds: float = 0.0
