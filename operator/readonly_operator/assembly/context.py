"""What reconciling needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable

    from readonly_operator.assembly.brokers import Brokers
    from readonly_operator.assembly.locality import LocalityAnnotator
    from readonly_operator.assembly.lookup_history import LookupHistory
    from readonly_operator.cluster.explicit_lac.controller import ExplicitLacController
    from readonly_operator.cluster.explicit_lac.prober import ProbeController
    from readonly_operator.cluster.registration import RegistrationController
    from readonly_operator.cluster.source import SourceMonitor
    from readonly_operator.kube.api_server import Kube
    from readonly_operator.kube.apply import Applier
    from readonly_operator.kube.events import Recorder
    from readonly_operator.kube.store import Store
    from readonly_operator.settings import Settings


@dataclass(frozen=True, slots=True)
class Context:
    """The operator's parts.

    Attributes:
        kube: the API server.
        store: what is known of it.
        applier: makes objects what they should be.
        brokers: asks brokers.
        locality_annotator: tells brokers where they are.
        sources: last reports of writable clusters.
        lac: last reports of managing explicit LAC.
        registrations: last reports of pools that are registered as clusters.
        probes: last results of trying explicit LAC.
        lookup_history: remembers what brokers were told.
        events: tells what happened.
        settings: of this process.
        now: the time, with a time zone.
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
    lookup_history: LookupHistory
    events: Recorder
    settings: Settings
    now: Callable[[], dt.datetime]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a reconcile came to.

    Attributes:
        settled: whether all is as it should be, as far as the operator can tell.
        look_again: whether something is awaited that no event will tell, so that it must be looked at again soon.
        refresh_seconds: after how long to ask brokers anew for figures that the status shows; 0 for never.
    """

    settled: bool
    look_again: bool
    refresh_seconds: float = 0.0
