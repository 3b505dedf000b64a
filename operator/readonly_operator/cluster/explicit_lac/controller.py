"""Managing explicit LAC for real: look at each place, make the next step, remember what to say about it."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from readonly_operator.api.binding import is_paused
from readonly_operator.api.pool import Pool
from readonly_operator.api.pool.explicit_lac import MANAGE
from readonly_operator.api.reader import ApiSpecError, said
from readonly_operator.cluster.background import Desk, guarded
from readonly_operator.cluster.explicit_lac import conditions as say
from readonly_operator.cluster.explicit_lac.observed import BrokerSeen, ConfigSeen, Seen, WorkloadSeen
from readonly_operator.cluster.explicit_lac.plan import (
    AskHealth,
    Evict,
    Forget,
    Plan,
    PutBack,
    SetValue,
    plan,
    turned_down,
)
from readonly_operator.cluster.explicit_lac.requests import Agreement, Place, Wish, agree
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
    from readonly_operator.cluster.fetch import Access
    from readonly_operator.kube.api_server import Kube
    from readonly_operator.kube.kinds import Manifest
    from readonly_operator.kube.names import PoolKey
    from readonly_operator.kube.status import Condition
    from readonly_operator.kube.store import Store

logger = logging.getLogger(__name__)

FORBIDDEN = 403
REFUSALS = (400, 405, 413, 415, 422)
"""Answers that the same request gets again: of an admission policy, or for a ConfigMap that is immutable."""
RETRY_SECONDS = 10.0
"""How soon a step is tried again that the API server refused."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a pool is to say.

    Attributes:
        condition: ExplicitLac; None where verifying says all there is to say.
        noted: status.explicitLac: what was set where; None for nothing.
        released: whether a deletion of the pool need not wait.
    """

    condition: Condition | None = None
    noted: Manifest | None = None
    released: bool = False


class LacDesk(Desk[Place, Agreement, Report]):
    """Works on every place that pools name for management.

    Args:
        kube: the API server.
        store: knows the pools.
        period: seconds between two looks at a place where all is well.
        now: the time, with a time zone.
        changed: called with each pool whose report is new.
        refresh: called with a writable cluster whose brokers have just changed.
        accesses: what to show to the admin API of a source.
    """

    def __init__(
        self,
        kube: Kube,
        store: Store,
        period: float,
        now: Callable[[], dt.datetime],
        changed: Callable[[PoolKey], None],
        refresh: Callable[[Source], None],
        accesses: Callable[[Source], Access],
    ) -> None:
        super().__init__(changed, Report())
        self._kube = kube
        self._store = store
        self._period = period
        self._now = now
        self._refresh = refresh
        self._accesses = accesses
        self._conflicts: dict[PoolKey, Report] = {}
        self._workloads: dict[tuple[str, str], WorkloadSeen] = {}
        self._agreed_on = self._consent()

    def look(self) -> float:
        """Look at every place that is due or that pools want something else of.

        Returns:
            Seconds until something is due again.
        """
        again = super().look()
        return again if self._consent() == self._agreed_on else 0.0  # who comes first may be another pool now

    def _subjects(self) -> dict[Place, Agreement | None]:
        wishes = self._wishes()
        self._learn(wishes)
        self._agreed_on = self._consent()
        agreements, conflicts = agree(wishes, self._workloads)
        self._conflicts = {key: Report(say.conflict(reason), released=True) for key, reason in conflicts.items()}
        return {agreement.place: agreement for agreement in agreements}

    def _aside(self) -> dict[PoolKey, Report]:
        return self._conflicts

    def _work(self, _item: Place, subject: Agreement) -> tuple[dict[PoolKey, Report], float]:
        made, noted = self._step(subject)
        return self._reports_of(subject, made, noted), self._period if made.again is None else made.again

    def _learn(self, wishes: list[Wish]) -> None:
        """Read who may manage which StatefulSet before pools agree: one that may not is not to say where its brokers are."""
        named = {wish.place.workload for wish in wishes}
        self._workloads = {name: workload for name, workload in self._workloads.items() if name in named}
        for wish in wishes:
            place = wish.place
            if wish.pool.namespace == place.namespace or place.workload in self._workloads:
                continue
            with guarded(place), contextlib.suppress(KubeError):  # the next step meets it too, and says so
                body = self._kube.get(STATEFUL_SET, place.namespace, place.stateful_set)
                if body is not None:
                    self._workloads[place.workload] = WorkloadSeen.of(body, place.config_map)

    def _consent(self) -> dict[tuple[str, str], frozenset[str]]:
        return {name: workload.consent for name, workload in self._workloads.items()}

    def _wishes(self) -> list[Wish]:
        wishes = []
        for body in self._store.pools():
            if said(body, "explicitLac", "management") != MANAGE:
                continue  # so of nearly all pools, which need not be read
            if is_paused(body) and "deletionTimestamp" not in body["metadata"]:
                continue
            with guarded(body["metadata"]["name"]), contextlib.suppress(ApiSpecError):
                pool = Pool.load(body)
                wish = Wish.of(pool, body, self.report(pool.key).noted)
                if wish is not None:
                    wishes.append(wish)
        return wishes

    def _reports_of(self, agreement: Agreement, made: Plan, noted: Manifest | None) -> dict[PoolKey, Report]:
        reports = {
            wish.pool: Report(made.condition, noted or self.report(wish.pool).noted)
            if wish.pool not in made.refused
            else Report(made.refused[wish.pool])
            for wish in agreement.active
        }
        for wish in agreement.leaving:
            reports[wish.pool] = Report(made.condition, noted, made.released)
            if made.released and made.farewell:
                logger.warning("%s: %s", wish.pool, made.farewell)
        rolled = any(
            (old := self.report(wish.pool).condition) is not None and old.reason == "Rolling"
            for wish in agreement.active
        )
        if rolled and made.condition is None:
            self._refresh(agreement.source)
        return reports

    def _step(self, agreement: Agreement) -> tuple[Plan, Manifest | None]:
        """Look, plan, do; what was done, and what is noted then."""
        place = agreement.place
        try:
            seen = self._see(agreement)
            if seen.workload is None:
                self._workloads.pop(place.workload, None)
            else:
                self._workloads[place.workload] = seen.workload
            made = plan(agreement, seen, self._now())
            if made.action is not None:
                seen = replace(seen, missing=tuple(right for right in rights(place) if not self._kube.may(right)))
                made = plan(agreement, seen, self._now())
            if isinstance(made.action, AskHealth):
                made = plan(agreement, self._with_health(seen, agreement.source), self._now())
            if made.action is not None and not self._do(place, seen, made.action):
                made = replace(made, condition=made.condition and say.not_evicted(made.condition))
        except KubeError as error:
            if error.status == FORBIDDEN:
                return self._forbidden(agreement), None
            if error.status in REFUSALS:
                return turned_down(agreement, str(error), self._now()), None
            logger.warning("%s: explicit LAC: the API server says: %s", place, error)
            condition = self.report(agreement.first.pool).condition
            return Plan(condition=condition, again=RETRY_SECONDS), None
        note = made.action.note if isinstance(made.action, SetValue) else seen.config and seen.config.in_force
        noted = {"target": str(place), "intervalMs": note.interval_ms} if note else None
        return made, noted

    def _forbidden(self, agreement: Agreement) -> Plan:
        missing = tuple(right for right in rights(agreement.place) if not self._kube.may(right))
        return plan(agreement, Seen(missing=missing or tuple(rights(agreement.place))), self._now())

    def _see(self, agreement: Agreement) -> Seen:
        place = agreement.place
        config = self._kube.get(CONFIG_MAP, place.namespace, place.config_map)
        workload = self._kube.get(STATEFUL_SET, place.namespace, place.stateful_set)
        seen = Seen(
            None if config is None else ConfigSeen.of(config, place.key),
            None if workload is None else WorkloadSeen.of(workload, place.config_map),
        )
        if seen.workload is None:
            return seen
        ordinals = range(seen.workload.first, seen.workload.first + seen.workload.replicas)
        pods = [
            (ordinal, pod)
            for ordinal in ordinals
            if (pod := self._kube.get(POD, place.namespace, f"{place.stateful_set}-{ordinal}")) is not None
        ]
        try:
            access = self._accesses(agreement.source)
            addresses = active_brokers(agreement.source, access)
        except FetchError as error:
            brokers = tuple(BrokerSeen.of(pod, ordinal) for ordinal, pod in pods)
            return replace(seen, brokers=brokers, problem=f"adminUrl {agreement.source.admin_url}: {error}")
        brokers = tuple(
            _asked(BrokerSeen.of(pod, ordinal).found(addresses, pod), agreement.source, access) for ordinal, pod in pods
        )
        return replace(seen, brokers=brokers)

    def _with_health(self, seen: Seen, source: Source) -> Seen:
        brokers = []
        for broker in seen.brokers:
            try:
                health(source, broker.address, self._accesses(source))
                brokers.append(replace(broker, healthy=True))
            except FetchError as error:
                brokers.append(replace(broker, healthy=False, trouble=f"health check: {error}"))
        return replace(seen, brokers=tuple(brokers))

    def _do(self, place: Place, seen: Seen, action: Action) -> bool:
        """Whether it was done; an eviction can be refused for now."""
        config = seen.config
        match action:
            case SetValue(interval_ms, note) if config is not None:
                metadata = {
                    "name": place.config_map,
                    "namespace": place.namespace,
                    "uid": config.uid,  # else one that was deleted meanwhile would be made
                    "annotations": {ANNOTATION_EXPLICIT_LAC: note.text()},
                }
                data = {place.key: str(interval_ms)}
                self._kube.apply_as(
                    MANAGER_EXPLICIT_LAC,
                    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data},
                )
                logger.info("%s: set to %s, was %s", place, interval_ms, config.value)
            case PutBack(value, note) if config is not None:
                annotations = {ANNOTATION_EXPLICIT_LAC: note.text()}
                self._merge(place, config, {"annotations": annotations}, {"data": {place.key: value}})
                logger.info("%s: put back to %s", place, value)
            case Forget() if config is not None:
                self._merge(place, config, {"annotations": {ANNOTATION_EXPLICIT_LAC: None}}, {})
            case Evict(pod, uid):
                allowed = self._kube.evict(place.namespace, pod, uid)
                logger.info("%s: %s %s", place, pod, "is restarted" if allowed else "may not be evicted now")
                return allowed
        return True

    def _merge(self, place: Place, config: ConfigSeen, metadata: Manifest, rest: Manifest) -> None:
        patch = {"metadata": {"resourceVersion": config.version, **metadata}, **rest}
        self._kube.merge(MANAGER_EXPLICIT_LAC, CONFIG_MAP, place.namespace, place.config_map, patch)


def rights(place: Place) -> list[Right]:
    """What managing a place takes; manifests/explicit-lac grants it."""
    namespace = place.namespace
    return [
        Right("get", "", "configmaps", namespace, place.config_map),
        Right("patch", "", "configmaps", namespace, place.config_map),
        Right("get", "apps", "statefulsets", namespace, place.stateful_set),
        Right("get", "", "pods", namespace),
        Right("create", "", "pods/eviction", namespace),
    ]


def _asked(broker: BrokerSeen, source: Source, access: Access) -> BrokerSeen:
    if not broker.ready or not broker.address:
        return broker
    try:
        return replace(broker, interval_ms=lac_interval(source, broker.address, access))
    except FetchError as error:
        return replace(broker, trouble=str(error))
