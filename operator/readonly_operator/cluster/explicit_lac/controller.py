"""Managing explicit LAC: observe each location, execute the next step of the plan, keep a report for each pool."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from readonly_operator.api.binding import is_paused
from readonly_operator.api.pool import Pool
from readonly_operator.api.pool.explicit_lac import MANAGE
from readonly_operator.api.reader import ApiSpecError, spec_value
from readonly_operator.cluster.background import BackgroundController, guarded
from readonly_operator.cluster.explicit_lac import conditions
from readonly_operator.cluster.explicit_lac.observed import Observed, ObservedBroker, ObservedConfig, ObservedWorkload
from readonly_operator.cluster.explicit_lac.plan import (
    CheckHealth,
    Evict,
    Plan,
    RemoveRecord,
    RestoreValue,
    SetValue,
    TransferOwnership,
    plan,
    rejected,
)
from readonly_operator.cluster.explicit_lac.requests import Agreement, SettingLocation, SettingRequest, agree
from readonly_operator.cluster.fetch import FetchError
from readonly_operator.cluster.source import active_brokers, health, lac_interval
from readonly_operator.kube.api_server import KubeError, Right
from readonly_operator.kube.kinds import CONFIG_MAP, POD, STATEFUL_SET
from readonly_operator.kube.names import ANNOTATION_EXPLICIT_LAC, MANAGER_EXPLICIT_LAC

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable

    from readonly_operator.api.pool import Source
    from readonly_operator.cluster.explicit_lac.plan import Action
    from readonly_operator.cluster.fetch import Credentials
    from readonly_operator.kube.api_server import Kube
    from readonly_operator.kube.kinds import Manifest
    from readonly_operator.kube.names import PoolKey
    from readonly_operator.kube.status import Condition
    from readonly_operator.kube.store import Store

logger = logging.getLogger(__name__)

FORBIDDEN = 403
REFUSALS = (400, 405, 413, 415, 422)
"""Statuses that a retry does not change: an admission policy refused, or the ConfigMap is immutable."""
RETRY_SECONDS = 10.0
"""How soon a refused step is tried again."""


@dataclass(frozen=True, slots=True)
class Report:
    """Report for a pool.

    Attributes:
        condition: ExplicitLac; None leaves the condition to the check of the source.
        applied: status.explicitLac: the location and value set; None for nothing.
        released: whether the pool's deletion need not wait.
    """

    condition: Condition | None = None
    applied: Manifest | None = None
    released: bool = False


class ExplicitLacController(BackgroundController[SettingLocation, Agreement, Report]):
    """Manage every location that pools name.

    Args:
        kube: the API server.
        store: the known pools.
        period: seconds between two observations of a settled location.
        now: the time, with a time zone.
        changed: called with each pool whose report changed.
        refresh: called with a source cluster whose brokers have just restarted.
        credentials_for: returns the credentials for a source's admin API.
    """

    def __init__(
        self,
        kube: Kube,
        store: Store,
        period: float,
        now: Callable[[], dt.datetime],
        changed: Callable[[PoolKey], None],
        refresh: Callable[[Source], None],
        credentials_for: Callable[[Source], Credentials],
    ) -> None:
        super().__init__(changed, Report())
        self._kube = kube
        self._store = store
        self._period = period
        self._now = now
        self._refresh = refresh
        self._credentials_for = credentials_for
        self._conflicts: dict[PoolKey, Report] = {}
        self._workloads: dict[tuple[str, str], ObservedWorkload] = {}
        self._last_consent = self._consent()

    def sync(self) -> float:
        """Process every location that is due or that pools request differently.

        Returns:
            Seconds until the next location is due.
        """
        again = super().sync()
        return (
            again if self._consent() == self._last_consent else 0.0
        )  # a change of permissions may change the first pool

    def _subjects(self) -> dict[SettingLocation, Agreement | None]:
        requests = self._requests()
        self._load_workloads(requests)
        self._last_consent = self._consent()
        agreements, conflicts = agree(requests, self._workloads)
        self._conflicts = {key: Report(conditions.conflict(reason), released=True) for key, reason in conflicts.items()}
        return {agreement.location: agreement for agreement in agreements}

    def _extra_reports(self) -> dict[PoolKey, Report]:
        return self._conflicts

    def _lane(self, item: SettingLocation, _subject: Agreement) -> tuple[str, str]:
        return item.workload  # never two steps at once for the brokers of one StatefulSet

    def _process(self, _item: SettingLocation, subject: Agreement) -> tuple[dict[PoolKey, Report], float]:
        made, applied = self._step(subject)
        return self._reports_of(subject, made, applied), self._period if made.again is None else made.again

    def _load_workloads(self, requests: list[SettingRequest]) -> None:
        """Read the allowed namespaces of each StatefulSet first: a pool that may not manage it must not decide its location."""
        named = {request.location.workload for request in requests}
        with self._guard:
            self._workloads = {name: workload for name, workload in self._workloads.items() if name in named}
        for request in requests:
            location = request.location
            if request.pool.namespace == location.namespace or location.workload in self._workloads:
                continue
            with (
                guarded(location),
                contextlib.suppress(KubeError),
            ):  # the next step fails in the same way, and reports it
                body = self._kube.get(STATEFUL_SET, location.namespace, location.stateful_set)
                if body is not None:
                    self._observe(location, ObservedWorkload.of(body, location.config_map))

    def _consent(self) -> dict[tuple[str, str], frozenset[str]]:
        with self._guard:
            return {name: workload.consent for name, workload in self._workloads.items()}

    def _observe(self, location: SettingLocation, workload: ObservedWorkload | None) -> None:
        """Record a location's StatefulSet; None for a missing one."""
        with self._guard:
            if workload is None:
                self._workloads.pop(location.workload, None)
            else:
                self._workloads[location.workload] = workload

    def _requests(self) -> list[SettingRequest]:
        requests = []
        for body in self._store.pools():
            if spec_value(body, "explicitLac", "management") != MANAGE:
                continue  # true for nearly all pools: saves parsing the spec
            if is_paused(body) and "deletionTimestamp" not in body["metadata"]:
                continue
            with guarded(body["metadata"]["name"]), contextlib.suppress(ApiSpecError):
                pool = Pool.load(body)
                request = SettingRequest.of(pool, body, self.report(pool.key).applied)
                if request is not None:
                    requests.append(request)
        return requests

    def _reports_of(self, agreement: Agreement, made: Plan, applied: Manifest | None) -> dict[PoolKey, Report]:
        reports = {
            request.pool: Report(made.condition, applied or self.report(request.pool).applied)
            if request.pool not in made.refused
            else Report(made.refused[request.pool])
            for request in agreement.active
        }
        for request in agreement.leaving:
            reports[request.pool] = Report(made.condition, applied, made.released)
            if made.released and made.unresolved:
                logger.warning(
                    "pool deleted before explicit LAC was restored: pool=%s: %s", request.pool, made.unresolved
                )
        rolled = any(
            (old := self.report(request.pool).condition) is not None and old.reason == "Rolling"
            for request in agreement.active
        )
        if rolled and made.condition is None:
            self._refresh(agreement.source)
        return reports

    def _step(self, agreement: Agreement) -> tuple[Plan, Manifest | None]:
        """Observe, plan and act once; return the plan, and the value now set."""
        location = agreement.location
        try:
            observed = self._see(agreement)
            self._observe(location, observed.workload)
            made = plan(agreement, observed, self._now())
            if made.action is not None:
                observed = replace(
                    observed, missing=tuple(right for right in rights(location) if not self._kube.may(right))
                )
                made = plan(agreement, observed, self._now())
            if isinstance(made.action, CheckHealth):
                made = plan(agreement, self._with_health(observed, agreement.source), self._now())
            if made.action is not None and not self._do(location, observed, made.action):
                made = replace(made, condition=made.condition and conditions.not_evicted(made.condition))
        except KubeError as error:
            if error.status == FORBIDDEN:
                return self._forbidden(agreement), None
            if error.status in REFUSALS:
                return rejected(agreement, str(error), self._now()), None
            logger.warning("explicit LAC step failed, retrying: setting=%s error=%s", location, error)
            condition = self.report(agreement.first.pool).condition
            return Plan(condition=condition, again=RETRY_SECONDS), None
        record = (
            made.action.record if isinstance(made.action, SetValue) else observed.config and observed.config.in_force
        )
        applied = {"target": str(location), "intervalMs": record.interval_ms} if record else None
        return made, applied

    def _forbidden(self, agreement: Agreement) -> Plan:
        missing = tuple(right for right in rights(agreement.location) if not self._kube.may(right))
        return plan(agreement, Observed(missing=missing or tuple(rights(agreement.location))), self._now())

    def _see(self, agreement: Agreement) -> Observed:
        location = agreement.location
        config = self._kube.get(CONFIG_MAP, location.namespace, location.config_map)
        workload = self._kube.get(STATEFUL_SET, location.namespace, location.stateful_set)
        observed = Observed(
            None if config is None else ObservedConfig.of(config, location.key),
            None if workload is None else ObservedWorkload.of(workload, location.config_map),
        )
        if observed.workload is None:
            return observed
        ordinals = range(observed.workload.first, observed.workload.first + observed.workload.replicas)
        pods = [
            (ordinal, pod)
            for ordinal in ordinals
            if (pod := self._kube.get(POD, location.namespace, f"{location.stateful_set}-{ordinal}")) is not None
        ]
        try:
            credentials = self._credentials_for(agreement.source)
            addresses = active_brokers(agreement.source, credentials)
        except FetchError as error:
            brokers = tuple(ObservedBroker.of(pod, ordinal) for ordinal, pod in pods)
            return replace(observed, brokers=brokers, problem=f"adminUrl {agreement.source.admin_url}: {error}")
        brokers = tuple(
            _asked(ObservedBroker.of(pod, ordinal).found(addresses, pod), agreement.source, credentials)
            for ordinal, pod in pods
        )
        return replace(observed, brokers=brokers)

    def _with_health(self, observed: Observed, source: Source) -> Observed:
        brokers = []
        for broker in observed.brokers:
            try:
                health(source, broker.address, self._credentials_for(source))
                brokers.append(replace(broker, healthy=True))
            except FetchError as error:
                brokers.append(replace(broker, healthy=False, trouble=f"health check: {error}"))
        return replace(observed, brokers=tuple(brokers))

    def _do(self, location: SettingLocation, observed: Observed, action: Action) -> bool:
        """Execute an action; return False when an eviction is refused for now."""
        config = observed.config
        match action:
            case SetValue(interval_ms, record) if config is not None:
                metadata = {
                    "name": location.config_map,
                    "namespace": location.namespace,
                    "uid": config.uid,  # without it a deleted ConfigMap would be created
                    "annotations": {ANNOTATION_EXPLICIT_LAC: record.text()},
                }
                data = {location.key: str(interval_ms)}
                self._kube.apply_as(
                    MANAGER_EXPLICIT_LAC,
                    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data},
                )
                logger.info(
                    "explicit LAC interval set: setting=%s value=%s before=%s", location, interval_ms, config.value
                )
            case RestoreValue(value, record) if config is not None:
                annotations = {ANNOTATION_EXPLICIT_LAC: record.text()}
                self._merge(location, config, {"annotations": annotations}, {"data": {location.key: value}})
                logger.info("explicit LAC interval restored: setting=%s value=%s", location, value)
            case TransferOwnership(record) if config is not None:
                self._merge(location, config, {"annotations": {ANNOTATION_EXPLICIT_LAC: record.text()}}, {})
                logger.info("explicit LAC record handed over: setting=%s pool=%s", location, record.pool)
            case RemoveRecord() if config is not None:
                self._merge(location, config, {"annotations": {ANNOTATION_EXPLICIT_LAC: None}}, {})
            case Evict(pod, uid):
                allowed = self._kube.evict(location.namespace, pod, uid)
                logger.info(
                    "eviction %s: setting=%s pod=%s", "accepted" if allowed else "refused for now", location, pod
                )
                return allowed
        return True

    def _merge(self, location: SettingLocation, config: ObservedConfig, metadata: Manifest, rest: Manifest) -> None:
        patch = {"metadata": {"resourceVersion": config.version, **metadata}, **rest}
        self._kube.merge(MANAGER_EXPLICIT_LAC, CONFIG_MAP, location.namespace, location.config_map, patch)


def rights(location: SettingLocation) -> list[Right]:
    """Return the rights that managing a location needs; manifests/explicit-lac grants them."""
    namespace = location.namespace
    return [
        Right("get", "", "configmaps", namespace, location.config_map),
        Right("patch", "", "configmaps", namespace, location.config_map),
        Right("get", "apps", "statefulsets", namespace, location.stateful_set),
        Right("get", "", "pods", namespace),
        Right("create", "", "pods/eviction", namespace),
    ]


def _asked(broker: ObservedBroker, source: Source, credentials: Credentials) -> ObservedBroker:
    if not broker.ready or not broker.address:
        return broker
    try:
        return replace(broker, interval_ms=lac_interval(source, broker.address, credentials))
    except FetchError as error:
        return replace(broker, trouble=str(error))
