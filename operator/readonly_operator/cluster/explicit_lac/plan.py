"""The next step towards the agreed setting, from the requests and the observed state only. Pure.

No state is kept between steps, so a new operator process continues anywhere. A broker is restarted only if its own answer shows
another value and its pod is older than the value. So no broker is restarted twice for one value.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from readonly_operator.cluster.explicit_lac import conditions
from readonly_operator.cluster.explicit_lac.observed import SettingRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from readonly_operator.cluster.explicit_lac.observed import (
        Observed,
        ObservedBroker,
        ObservedConfig,
        ObservedWorkload,
    )
    from readonly_operator.cluster.explicit_lac.requests import Agreement, SettingLocation, SettingRequest
    from readonly_operator.kube.names import PoolKey
    from readonly_operator.kube.status import Condition

STUCK = dt.timedelta(minutes=5)
"""A broker that is not ready so long after its restart is stuck. No other broker is restarted meanwhile."""
RESTORE_AT_LEAST = dt.timedelta(minutes=2)
RESTORE_PER_BROKER = dt.timedelta(minutes=3)
"""How long a deletion waits, for each broker, until brokers run with the restored value."""
STEP_SECONDS = 2.0
RETRY_SECONDS = 10.0
"""How soon a step that waits for a person is checked again."""


@dataclass(frozen=True, slots=True)
class SetValue:
    """Set the value and write the record, by server-side apply."""

    interval_ms: int
    record: SettingRecord


@dataclass(frozen=True, slots=True)
class RestoreValue:
    """Restore the value from before (None: remove the key), and mark the record as restoring."""

    value: str | None
    record: SettingRecord


@dataclass(frozen=True, slots=True)
class TransferOwnership:
    """Write another pool's uid to the record, because the former pool leaves; the value stays."""

    record: SettingRecord


@dataclass(frozen=True, slots=True)
class RemoveRecord:
    """Remove the record: nothing is left to do."""


@dataclass(frozen=True, slots=True)
class CheckHealth:
    """Call Pulsar's health check of each broker."""


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict a broker's pod; the StatefulSet creates it again."""

    pod: str
    uid: str


Action = SetValue | RestoreValue | TransferOwnership | RemoveRecord | CheckHealth | Evict


@dataclass(frozen=True, slots=True)
class Plan:
    """The next action, and the reports.

    Attributes:
        action: the action; None for none.
        condition: condition of the pools; None leaves it to the check of the source.
        refused: conditions of pools that may not manage these brokers.
        again: seconds until the next step; None for the usual period.
        released: whether the deletion of pools need not wait any longer.
        unresolved: what was not restored before the release; empty for nothing.
    """

    action: Action | None = None
    condition: Condition | None = None
    refused: Mapping[PoolKey, Condition] = field(default_factory=dict)
    again: float | None = None
    released: bool = False
    unresolved: str = ""


def plan(agreement: Agreement, observed: Observed, now: dt.datetime) -> Plan:
    """Return the next step.

    Args:
        agreement: the agreed setting.
        observed: the current state.
        now: with a time zone.
    """
    workload = observed.workload
    allowed = tuple(request for request in agreement.active if workload is None or request.allowed_by(workload))
    refused = {request.pool: conditions.not_allowed(request) for request in agreement.active if request not in allowed}
    if agreement.leaving and not allowed:
        return replace(_restore(agreement, observed, now), refused=refused)
    made = _keep(agreement.location, allowed, observed, now)
    if made.action is None and allowed:
        made = replace(made, action=_hand_over(agreement, allowed[0], observed))
    return replace(made, refused=refused, released=True)  # other pools still want the setting, so nothing is restored


def _hand_over(agreement: Agreement, heir: SettingRequest, observed: Observed) -> TransferOwnership | None:
    """Return the action that gives the record of a leaving pool to one that stays, which restores it when it leaves in turn."""
    record = None if observed.config is None else observed.config.record
    leaving = {request.uid for request in agreement.leaving}
    if observed.missing or record is None or record.restoring or record.pool not in leaving:
        return None
    return TransferOwnership(replace(record, pool=heir.uid))


def _keep(
    location: SettingLocation, requests: tuple[SettingRequest, ...], observed: Observed, now: dt.datetime
) -> Plan:
    if observed.missing:
        return Plan(condition=conditions.forbidden(location, observed.missing), again=RETRY_SECONDS)
    if observed.config is None or observed.workload is None:
        return Plan(condition=conditions.target_missing(location, config=observed.config is None), again=RETRY_SECONDS)
    return (
        _manage(requests, observed.config, observed.workload, observed, now) if requests else Plan(again=RETRY_SECONDS)
    )


def rejected(agreement: Agreement, reason: str, now: dt.datetime) -> Plan:
    """Return the plan after the API server rejected a step for another reason than rights; a deletion must not wait forever."""
    condition = conditions.refused(agreement.location, reason)
    if agreement.active:
        return Plan(condition=condition, again=RETRY_SECONDS, released=True)
    late = _is_late(agreement, 0, now)
    return Plan(condition=condition, again=RETRY_SECONDS, released=late, unresolved=condition.message if late else "")


def _is_late(agreement: Agreement, brokers: int, now: dt.datetime) -> bool:
    asked = max(request.deleted_at for request in agreement.leaving if request.deleted_at is not None)
    return now > asked + RESTORE_AT_LEAST + brokers * RESTORE_PER_BROKER


def _manage(
    requests: tuple[SettingRequest, ...],
    config: ObservedConfig,
    workload: ObservedWorkload,
    observed: Observed,
    now: dt.datetime,
) -> Plan:
    location, record = requests[0].location, config.record
    wanted = min(request.interval_ms for request in requests)
    if not workload.reads:
        return Plan(condition=conditions.not_read(location))
    live = config.interval_ms
    if live is None:
        return Plan(condition=conditions.not_a_number(location, config.value or ""))
    mine = record is not None and not record.restoring and record.pool in {request.uid for request in requests}
    slow = [
        broker
        for broker in observed.brokers
        if broker.interval_ms is not None and not _fits(broker.interval_ms, wanted)
    ]
    if not _fits(live, wanted):
        # the record outlives a time without requests, so it does not tell a reverted value; the request does
        if any(request.applied_ms == wanted for request in requests):
            return Plan(condition=conditions.reverted(location, wanted, config))
        if config.value is None and not slow and _complete(observed, workload):
            return Plan()  # set elsewhere, and effective
        return _first_change(requests, config, wanted, observed)
    if slow and not mine:
        return _first_change(requests, config, live, observed)
    good = sum(broker.interval_ms is not None for broker in observed.brokers) - len(slow)
    running = f"{good} of {workload.replicas} owner brokers run with {live} ms"
    if observed.problem:
        running = f"{location} is set to {live} ms"
    waiting = _waiting(workload, observed, now) if mine else None
    if waiting:
        stuck, reason = waiting
        if stuck and not slow:
            return Plan()  # all restarts are done; the check of the source reports silent brokers
        condition = conditions.stopped(location, running, reason) if stuck else conditions.rolling(running, reason)
        return Plan(condition=condition, again=STEP_SECONDS)
    if not slow:
        return Plan()
    stubborn = [broker for broker in slow if broker.created > config.changed]
    if stubborn:
        return Plan(condition=conditions.not_applied(location, live, stubborn))
    if any(broker.healthy is None for broker in observed.brokers):
        return Plan(CheckHealth(), conditions.rolling(running, "the brokers' health is asked"), again=0)
    victim = max(slow, key=lambda broker: broker.ordinal)
    return Plan(
        Evict(victim.pod, victim.uid),
        conditions.rolling(running, f"{victim.pod} is being restarted"),
        again=STEP_SECONDS,
    )


def _first_change(
    requests: tuple[SettingRequest, ...], config: ObservedConfig, interval_ms: int, observed: Observed
) -> Plan:
    """Set the value, unless the target does not look like the brokers of the pool's source."""
    location = requests[0].location
    if observed.problem:
        return Plan(condition=conditions.unreachable(observed.problem))
    if observed.brokers and not any(broker.address for broker in observed.brokers):
        return Plan(condition=conditions.other_brokers(location, requests[0].source.admin_url), again=STEP_SECONDS * 5)
    if any(request.restore and not request.has_finalizer for request in requests):
        return Plan(condition=conditions.finalizer_pending(), again=STEP_SECONDS)
    record = config.record
    # a value that is still an earlier pool's is not the original one
    earlier = record is not None and (record.restoring or config.interval_ms == record.interval_ms)
    before = record.before if record is not None and earlier else config.value
    set_value = SetValue(interval_ms, SettingRecord(interval_ms, before, requests[0].uid))
    return Plan(
        set_value, conditions.rolling(f"{location} is set to {interval_ms} ms", "brokers follow"), again=STEP_SECONDS
    )


def _restore(agreement: Agreement, observed: Observed, now: dt.datetime) -> Plan:
    location, config, workload = agreement.location, observed.config, observed.workload
    late = _is_late(agreement, 0 if workload is None else workload.replicas, now)
    if observed.missing:
        condition = conditions.forbidden(location, observed.missing)
        return Plan(
            condition=condition, released=late, unresolved=condition.message if late else "", again=STEP_SECONDS * 5
        )
    if config is None or config.record is None:
        return Plan(released=True)
    if workload is not None and not any(request.allowed_by(workload) for request in agreement.leaving):
        return Plan(released=True, unresolved=conditions.not_allowed(agreement.leaving[0]).message)
    record = config.record
    if record.pool not in {request.uid for request in agreement.leaving}:
        return Plan(released=True, unresolved=conditions.other_pool(location, record))
    if not record.restoring:
        if config.interval_ms != record.interval_ms:
            return Plan(RemoveRecord(), released=True, unresolved=conditions.not_reverted(location, config))
        back = RestoreValue(record.before, replace(record, restoring=True))
        return Plan(back, conditions.restoring(location, "the value from before is put back"), again=STEP_SECONDS)
    target = config.interval_ms
    off = [
        broker
        for broker in observed.brokers
        if broker.created <= config.changed and (broker.interval_ms is None or broker.interval_ms != target)
    ]
    if workload is None or not off:
        return Plan(RemoveRecord(), released=True)
    waiting = _waiting(workload, observed, now)
    if late:
        reason = waiting[1] if waiting else "time is up"
        return Plan(RemoveRecord(), released=True, unresolved=conditions.partly_reverted(location, off, reason))
    if waiting:
        return Plan(condition=conditions.restoring(location, waiting[1]), again=STEP_SECONDS)
    if any(broker.healthy is None for broker in observed.brokers):
        return Plan(CheckHealth(), conditions.restoring(location, "the brokers' health is asked"), again=0)
    victim = max(off, key=lambda broker: broker.ordinal)
    restarted = conditions.restoring(location, f"{victim.pod} is being restarted")
    return Plan(Evict(victim.pod, victim.uid), restarted, again=STEP_SECONDS)


def _waiting(workload: ObservedWorkload, observed: Observed, now: dt.datetime) -> tuple[bool, str] | None:
    """Return why no broker may be restarted now, and whether a broker is stuck; None when a restart may happen."""
    if observed.problem:
        return False, observed.problem
    ill = [broker for broker in observed.brokers if not broker.serving]
    if ill:
        reason = "; ".join(f"{broker.pod}: {broker.trouble or 'it does not answer'}" for broker in ill)
        return any(now - broker.since > STUCK for broker in ill), reason
    if len(observed.brokers) < workload.replicas:
        return False, f"{len(observed.brokers)} of {workload.replicas} pods exist"
    if not workload.settled:
        return False, "another update of the StatefulSet is under way"
    return None


def _fits(interval_ms: int, wanted: int) -> bool:
    return 0 < interval_ms <= wanted


def _complete(observed: Observed, workload: ObservedWorkload) -> bool:
    answering: Sequence[ObservedBroker] = [broker for broker in observed.brokers if broker.interval_ms is not None]
    return len(answering) == workload.replicas > 0
