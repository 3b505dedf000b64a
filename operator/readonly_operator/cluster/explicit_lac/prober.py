"""Scheduling of explicit LAC probes: on the topic that a pool names, else by the owner brokers' health checks."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from readonly_operator.api.binding import is_paused
from readonly_operator.api.pool import Pool, Source
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.cluster.background import BackgroundController, guarded
from readonly_operator.cluster.broker_ports import Endpoint
from readonly_operator.cluster.explicit_lac.probe import Probe, ProbeResult
from readonly_operator.cluster.fetch import FetchError
from readonly_operator.kube.kinds import POD
from readonly_operator.kube.names import PoolKey
from readonly_operator.kube.pods import is_ready

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from readonly_operator.cluster.broker_ports import BrokerPorts
    from readonly_operator.cluster.fetch import Credentials
    from readonly_operator.cluster.source import SourceMonitor
    from readonly_operator.kube.kinds import Manifest
    from readonly_operator.kube.store import Store

logger = logging.getLogger(__name__)

EVERY_SECONDS = 3600.0
RETRY_SECONDS = 60.0
SOON_SECONDS = 10.0
"""Retry of a probe that could not run on its topic: brokers may not have the binding yet."""

Requester = PoolKey | Source
"""Requester of a probe: a pool that names a topic, or all pools of one source cluster that name none."""


class ProbeController(BackgroundController[Requester, Probe, ProbeResult | None]):
    """Probe explicit LAC for each pool that has a ready broker.

    Args:
        store: the known pools and their brokers.
        sources: runtime settings of the owner brokers.
        changed: called with each pool whose result changed.
        credentials_for: returns the credentials for a source's admin API.
        stopped: set when the operator ends; a probe ends then.
        ports: access to brokers.
    """

    def __init__(
        self,
        store: Store,
        sources: SourceMonitor,
        changed: Callable[[PoolKey], None],
        credentials_for: Callable[[Source], Credentials],
        stopped: threading.Event,
        ports: BrokerPorts,
    ) -> None:
        super().__init__(changed, None, stopped)
        self._store = store
        self._sources = sources
        self._credentials_for = credentials_for
        self._ended = stopped
        self._ports = ports
        self._pools_by_source: dict[Source, list[PoolKey]] = {}
        self._shared_results: dict[Source, ProbeResult] = {}

    def _subjects(self) -> dict[Requester, Probe | None]:
        found: dict[Requester, Probe | None] = {}
        pools_by_source: dict[Source, list[PoolKey]] = {}
        for body in self._store.pools():
            with guarded(body["metadata"]["name"]):
                pool = _active_pool(body)
                if pool is None:
                    continue
                topic, source = pool.explicit_lac.probe_topic, pool.source
                if topic:
                    found[pool.key] = self._probe(topic, source, self._broker(pool.key))
                else:
                    pools_by_source.setdefault(source, []).append(pool.key)
        self._pools_by_source = pools_by_source
        with self._guard:
            self._shared_results = {
                source: result for source, result in self._shared_results.items() if source in pools_by_source
            }
        for source in pools_by_source:
            found[source] = self._probe("", source, self._broker_of(source))
        return found

    def _probe(self, topic: str, source: Source, broker: Manifest | None) -> Probe | None:
        """Return the probe; None without a ready broker, or while the source's settings are unknown or off."""
        report = self._sources.report(source)
        intervals = () if report is None else report.intervals_ms
        if broker is None or not intervals or not all(interval > 0 for _, interval in intervals):
            return None
        return Probe(topic, source, intervals)

    def _lane(self, _item: Requester, subject: Probe) -> str:
        return subject.source.admin_url

    def _process(self, item: Requester, subject: Probe) -> tuple[dict[PoolKey, ProbeResult | None], float]:
        pod = self._broker(item) if isinstance(item, PoolKey) else self._broker_of(item)
        if pod is None:
            return {}, RETRY_SECONDS
        try:
            broker = Endpoint(self._ports.urls(pod)[0], self._ports.credentials(pod))
            result = subject.run(broker, self._credentials_for(subject.source), self._ended)
        except FetchError as error:
            result = ProbeResult(None, f"it could not be tried on {subject.where}: {error}")
        if isinstance(item, PoolKey):
            if result != self.report(item):
                logger.info("explicit LAC probed: pool=%s: %s", item, result.text)
            return {item: result}, _AGAIN[result.observed]
        if result != self._shared_results.get(item):
            logger.info("explicit LAC probed: cluster=%s: %s", item.admin_url, result.text)
        with self._guard:
            self._shared_results[item] = result
        return {}, EVERY_SECONDS if result.observed else RETRY_SECONDS

    def _extra_reports(self) -> dict[PoolKey, ProbeResult | None]:
        return {
            key: self._shared_results[source]
            for source, keys in self._pools_by_source.items()
            if source in self._shared_results
            for key in keys
        }

    def _broker_of(self, source: Source) -> Manifest | None:
        """Return a ready broker of one of the pools that share this source cluster; None for none."""
        found = map(self._broker, self._pools_by_source.get(source, ()))
        return next((pod for pod in found if pod is not None), None)

    def _broker(self, key: PoolKey) -> Manifest | None:
        """Return a ready broker of a pool; None for none."""
        pods = self._store.of_pool(POD, key)
        return next((pod for pod in pods if is_ready(pod) and (pod.get("status") or {}).get("podIP")), None)


_AGAIN = {True: EVERY_SECONDS, False: RETRY_SECONDS, None: SOON_SECONDS}


def _active_pool(body: dict[str, Any]) -> Pool | None:
    if is_paused(body) or "deletionTimestamp" in body["metadata"]:
        return None
    try:
        return Pool.load(body)
    except ApiSpecError:
        return None
