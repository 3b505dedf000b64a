"""Entry point of all work at source clusters, with its threads: checks, explicit LAC, registrations, probes, local cursors."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from readonly_operator.cluster.credentials import CredentialsReader
from readonly_operator.cluster.explicit_lac.controller import ExplicitLacController
from readonly_operator.cluster.explicit_lac.prober import ProbeController
from readonly_operator.cluster.local_cursors.admin import CursorAdmin
from readonly_operator.cluster.local_cursors.checks import NamespaceChecks
from readonly_operator.cluster.local_cursors.controller import ReleaseController
from readonly_operator.cluster.registration import RegistrationController
from readonly_operator.cluster.source import SourceMonitor
from readonly_operator.cluster.worker import BackgroundThread

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable

    from readonly_operator.api.pool import Source
    from readonly_operator.cluster.broker_ports import BrokerPorts
    from readonly_operator.kube.api_server import Kube
    from readonly_operator.kube.names import PoolKey
    from readonly_operator.kube.store import Store


class SourceClusters:
    """Controllers of source clusters.

    Attributes:
        sources: last reports of checks.
        lac: last reports of managed explicit LAC.
        registrations: last reports of pools that are registered as clusters.
        probes: last results of explicit LAC probes.
        cursor_checks: whether namespaces allow local cursors.
        cursor_releases: last reports of the removal of local cursors.

    Args:
        kube: the API server.
        store: the known objects.
        period: seconds between two checks of a reachable cluster.
        cluster_domain: DNS domain of the Kubernetes cluster.
        now: the time, with a time zone.
        changed: called with each pool whose report changed.
        source_changed: called with a source whose check has a new result.
        ports: access to brokers.
    """

    def __init__(
        self,
        kube: Kube,
        store: Store,
        period: float,
        cluster_domain: str,
        now: Callable[[], dt.datetime],
        changed: Callable[[PoolKey], None],
        source_changed: Callable[[Source], None],
        ports: BrokerPorts,
    ) -> None:
        credentials = CredentialsReader(kube)
        self._stopped = threading.Event()
        self.sources = SourceMonitor(period, source_changed, credentials, credentials.tls_context)
        self.lac = ExplicitLacController(kube, store, period, now, changed, self.sources.refresh, credentials)
        self.registrations = RegistrationController(store, cluster_domain, period, changed, credentials)
        self.probes = ProbeController(store, self.sources, changed, credentials, self._stopped, ports)

        def admin_for(source: Source) -> CursorAdmin:
            return CursorAdmin(source, credentials(source))

        self.cursor_checks = NamespaceChecks(period, changed, admin_for, self._wake_cursors, self._stopped)
        self.cursor_releases = ReleaseController(changed, admin_for, self._wake_cursors, self._stopped)
        # probes on threads of their own: a probe waits long, and must not delay the restart of an owner broker
        self._threads = (
            BackgroundThread("settings", [self.lac, self.registrations]),
            BackgroundThread("probes", [self.probes]),
            BackgroundThread("cursors", [self.cursor_releases, self.cursor_checks]),
        )

    def start(self) -> None:
        """Start the threads; all pools must be known by now."""
        self.sources.start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop after the current steps, which end by themselves."""
        self._stopped.set()
        self.sources.stop()
        for thread in self._threads:
            thread.stop()

    def join(self, deadline: float) -> None:
        """Wait for the current steps, until a time of the monotonic clock."""
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def wake(self) -> None:
        """Sync again soon, because a pool changed."""
        for thread in self._threads:
            thread.wake()

    def _wake_cursors(self) -> None:
        self._threads[-1].wake()

    def is_active(self) -> bool:
        """Return whether a step may still change something after `stop`."""
        return any(thread.is_alive() for thread in self._threads)

    def is_healthy(self) -> bool:
        """Return whether all threads run, and none is stuck."""
        return all(not thread.is_stuck() for thread in self._threads)
