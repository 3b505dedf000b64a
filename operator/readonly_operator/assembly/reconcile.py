"""Reconciling a pool and its bindings."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from readonly_operator import metrics
from readonly_operator.api.binding import is_paused
from readonly_operator.api.cursors import RELEASE
from readonly_operator.api.pool import Pool
from readonly_operator.api.pool.sleeping import Phase
from readonly_operator.api.pool.source_ref import UnresolvedSourceError, has_source, source_fields
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.assembly import binding_status, finalizer, issued_certificate, readiness
from readonly_operator.assembly.admission import admit, is_served, not_readable, not_served
from readonly_operator.assembly.apply_events import apply_events
from readonly_operator.assembly.conditions import write_conditions, write_paused
from readonly_operator.assembly.context import Context, Outcome
from readonly_operator.assembly.cursor_release import is_leaving
from readonly_operator.assembly.former_config import config_of, former_config, recorded_config
from readonly_operator.assembly.local_cursors import check_namespaces
from readonly_operator.assembly.lookup_state import LookupState
from readonly_operator.assembly.rollouts import is_outdated, is_replaced
from readonly_operator.assembly.sleep_state import observe_sleep
from readonly_operator.assembly.source_conditions import explicit_lac, last_known, source_reachable
from readonly_operator.assembly.source_refs import Resolution, report_sources, resolve_source
from readonly_operator.assembly.status_throttle import MIN_INTERVAL_SECONDS
from readonly_operator.bindings import source_cluster
from readonly_operator.bindings.conflicts import find_holders
from readonly_operator.bindings.pool_bindings import PoolBindings
from readonly_operator.kube.api_server import KubeError
from readonly_operator.kube.apply import NameConflictError, Result
from readonly_operator.kube.events import WARNING, Notice
from readonly_operator.kube.kinds import (
    AUTOSCALER,
    BINDING,
    CHILDREN,
    CONFIG_MAP,
    POD,
    POOL,
    SERVICE,
    STATEFUL_SET,
    Manifest,
    kind_of,
)
from readonly_operator.kube.names import BROKER_NAME, LABEL_NAME, LABEL_POOL, PoolKey
from readonly_operator.kube.ownership import owner_uid
from readonly_operator.kube.pods import is_ready, waiting_reason
from readonly_operator.kube.port_order import in_port_order, port_blockers
from readonly_operator.kube.status import Condition, ConditionStatus
from readonly_operator.kube.workers import pod_workers
from readonly_operator.model.children import children
from readonly_operator.model.hold import held
from readonly_operator.model.lookup import LookupConfig
from readonly_operator.model.size_limit import Fitted, fit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

logger = logging.getLogger(__name__)

FIRST_STATS_SECONDS = 3.0
"""How long a broker with a new binding needs to list its topics."""


def reconcile(context: Context, key: PoolKey) -> Outcome:
    """Bring a pool to its desired state, and report the progress in its status and in those of its bindings.

    Raises:
        KubeError: the API server refused a request; the caller retries.
    """
    outcome = _reconcile(context, key)
    report_sources(context, key.namespace)
    if context.status_throttle.defers(context.store.of_pool(BINDING, key)):
        return replace(
            outcome, refresh_seconds=min(outcome.refresh_seconds or MIN_INTERVAL_SECONDS, MIN_INTERVAL_SECONDS)
        )
    return outcome


def _reconcile(context: Context, key: PoolKey) -> Outcome:
    body = context.store.get(POOL, key.namespace, key.name)
    bindings = PoolBindings.of(context.store, key)
    if body is None or "deletionTimestamp" in body["metadata"]:
        return _finalize(context, key, body, bindings)
    try:
        if is_paused(body) and not has_source(body):
            return _skip_paused(context, key, body, bindings)
        if not is_paused(body):
            # first: users of a namespace that the pool does not allow learn nothing of its other errors
            bindings = admit(context, key, body, bindings)
        source = Resolution(body, None) if is_paused(body) else resolve_source(context, body)
        body = source.body
        pool = Pool.load(body)
        sleeping = None if is_paused(body) else observe_sleep(context, pool)
        if sleeping is not None:
            pool = replace(pool, phase=sleeping.phase)
        if is_paused(body):
            return _skip_paused(context, key, body, bindings)
        finalizer_errors = finalizer.sync_finalizer(context, pool, body)
        binding_errors = finalizer.sync_binding_finalizers(context, bindings.good)
        bindings = bindings.without_conflicts(
            context.store, context.brokers.matched, context.settings.cluster_domain, pool
        )
        fitted = _fit(context, pool, bindings)
        bindings = bindings.without_oversized(fitted.refused)
        lookup = LookupConfig.of_entries(fitted.entries, pool.key.namespace)
        limitations, waits_for, waits, config = _apply(context, pool, body, lookup)
        autoscaler = context.store.get(AUTOSCALER, key.namespace, key.name) if pool.autoscaling else None
        limitations += [
            *readiness.oversized(len(bindings.oversized)),
            *source.limitations,
            *readiness.not_scaling(autoscaler or {}),
            *readiness.not_parallel(pool, context.store.get(STATEFUL_SET, key.namespace, key.name) or {}),
        ]
    except (ApiSpecError, NameConflictError, KubeError) as error:
        return _report_failure(context, body, bindings, error)
    observed = _observe(context, pool, body, lookup, limitations, waits_for, waits=waits)
    cursors = {**check_namespaces(context, pool, bindings.good), **binding_errors}
    conditions = _conditions(context, pool, body, observed, finalizer_errors)
    certificate = issued_certificate.IssuedCertificate.of(context.store, pool)
    asleep = None if sleeping is None else sleeping.condition
    conditions += [one for one in (source.condition, certificate.condition, asleep) if one is not None]
    _write_statuses(context, pool, body, bindings, observed, conditions, cursors, config)
    waits = finalizer.release_bindings(
        context, pool, bindings, observed.state.reports, partial(_report_leaving, context)
    )
    outcome = _outcome(context, bindings, observed, retry=waits or bool(finalizer_errors or binding_errors))
    if sleeping is None or not sleeping.check_seconds:
        return outcome
    seconds = min(outcome.refresh_seconds or sleeping.check_seconds, sleeping.check_seconds)
    return replace(outcome, refresh_seconds=seconds)


@dataclass(frozen=True, slots=True)
class _Observation:
    """State of the pool after applying.

    Attributes:
        pods: pods that are not being deleted.
        state: reports of their brokers.
        ready: the condition Ready.
        limitations: permanent shortcomings, in words.
        refused: whether pod annotations were refused.
        held: the condition UpdateHeld; None when brokers may be replaced.
        waits: whether the new pod template waits for other pools.
    """

    pods: Sequence[Manifest]
    state: LookupState
    ready: Condition
    limitations: Sequence[str]
    refused: bool
    held: Condition | None
    waits: bool

    @property
    def settled(self) -> bool:
        """Return whether nothing is awaited."""
        served = self.ready.status is ConditionStatus.TRUE
        return served and not self.waits and (self.state.converged() or self.state.brokers == 0)


def _finalize(context: Context, key: PoolKey, body: Manifest | None, bindings: PoolBindings) -> Outcome:
    """Handle a missing pool or one that is being deleted: restore what the finalizer guards, and report to its bindings."""
    lost = context.scopes.problem(key.namespace)
    if is_served(context.settings.namespaces, key) and not lost:
        good = [binding for binding, _ in bindings.good]
        holders = find_holders(context.store, context.brokers.matched, context.settings.cluster_domain, key, good)
        binding_status.report_pool_not_found(context, key, bindings.good, holders, deleting=body is not None)
        absent = f"ReadOnlyBrokerPool {key} does not exist"
    else:
        message = not_readable(key) if lost else not_served(context.settings.namespaces, key)
        binding_status.report_not_served(context, message, bindings.good)
        absent = f"the operator does not serve namespace {key.namespace} of ReadOnlyBrokerPool {key.name}"
    binding_status.report_invalid(context, bindings.broken)
    context.cursor_checks.track(key, {})
    if body is None:
        context.lookup_history.forget(key)
        context.cursor_releases.track(key, {})
        report = partial(_report_leaving, context)
        if lost:
            finalizer.hold_bindings(context, bindings, lambda _: not_readable(key), report)
        else:
            finalizer.abandon_bindings(context, bindings, absent, report)
        return Outcome(settled=True, requeue=False)
    own = is_leaving(body) and (body.get("spec") or {}).get("onDeletion") == RELEASE
    reason = "" if own else f"ReadOnlyBrokerPool {key} is being deleted"
    finalizer.abandon_bindings(context, bindings, reason, partial(_report_leaving, context))
    values = _values(context, key, body, len(bindings))
    waits = finalizer.release(
        context, body, bindings, lambda condition: write_conditions(context, POOL, body, [condition], values)
    )
    return Outcome(settled=True, requeue=False, refresh_seconds=finalizer.RETRY_SECONDS if waits else 0.0)


def _report_leaving(context: Context, body: Manifest, condition: Condition) -> None:
    """Report why the deletion of a binding waits."""
    write_conditions(context, BINDING, body, [condition], {})


def _skip_paused(context: Context, key: PoolKey, body: Manifest, bindings: PoolBindings) -> Outcome:
    """Report that the pool is paused, and change nothing."""
    write_paused(context, POOL, body)
    for binding, binding_body in bindings.good:
        write_paused(context, BINDING, binding_body, f'ReadOnlyBrokerPool "{binding.pool_name}" is paused')
    reason = f'ReadOnlyBrokerPool "{key.name}" is paused'
    finalizer.hold_bindings(context, bindings, lambda _: reason, partial(_report_leaving, context))
    binding_status.report_invalid(context, bindings.broken)
    return Outcome(settled=True, requeue=False)


def _fit(context: Context, pool: Pool, bindings: PoolBindings) -> Fitted:
    """Return the bindings for the lookup redirection config, and those that do not fit into it."""
    known = context.store.get(CONFIG_MAP, pool.key.namespace, pool.key.bindings_map)
    entries = context.lookup_history.entries(pool.key, known, bindings.oldest_first)
    return fit(entries, context.lookup_history.last(pool.key, known), pool.key.name)


def _apply(
    context: Context, pool: Pool, body: Manifest, lookup: LookupConfig
) -> tuple[list[str], list[PoolKey], bool, str | None]:
    """Apply the pool's objects.

    Returns:
        Permanent shortcomings in words, the pools that a rollout waits for, whether it waits for a certificate, and the
        configuration that brokers read when they start.
    """
    key, store = pool.key, context.store
    pods = [(key.ordinal(pod["metadata"]["name"]), pod) for pod in store.of_pool(POD, key)]
    brokers = {ordinal: pod_workers(pod) for ordinal, pod in pods if ordinal is not None}
    wanted = children(pool, lookup, context.settings, brokers)
    before = store.get(STATEFUL_SET, key.namespace, key.name)
    stateful_set = next(one for one in wanted if kind_of(one) == STATEFUL_SET)
    waits = issued_certificate.waits_for_certificate(store, pool, stateful_set)
    waits_for = [] if waits else context.rollouts.waits_for(pool, stateful_set)
    if pool.held or waits_for or waits:
        former = None
        if before is not None and is_outdated(before, stateful_set):
            stored = config_of(store.of_pool(CONFIG_MAP, key), key)
            former = former_config(before, recorded_config(body), stored)
        wanted = held(wanted, pool, former)
    if before is not None and owner_uid(before) == pool.uid and pool.listeners.external is not None:
        # brokers that end free their node ports and load balancers: a Service that waits for one must not keep them
        context.applier.shrink(before, pool.running)
    services = store.of_pool(SERVICE, key)
    desired = in_port_order([one for one in wanted if store.serves(kind_of(one))], services)
    blockers = port_blockers(desired, services)
    done = context.applier.prune(blockers, desired, pool.uid)
    done += [(manifest, context.applier.apply(manifest)) for manifest in desired]
    context.lookup_history.record(key, lookup)
    known = [child for kind in CHILDREN for child in store.of_pool(kind, key) if child not in blockers]
    replaced = before is None or is_replaced(before, stateful_set)
    done += context.applier.prune(issued_certificate.prunable(known, replaced=replaced), desired, pool.uid)
    for manifest, result in done:
        if result is not Result.NOOP:
            logger.info(
                "object %s: pool=%s kind=%s name=%s", result.value, key, manifest["kind"], manifest["metadata"]["name"]
            )
            metrics.count_applied(manifest["kind"], result.value)
    context.events.record(POOL, body, apply_events(key, done, before))
    lacking = sorted({one["kind"] for one in wanted if one not in desired})
    return [readiness.kind_not_served(kind) for kind in lacking], waits_for, waits, config_of(wanted, key)


def _observe(
    context: Context,
    pool: Pool,
    body: Manifest,
    lookup: LookupConfig,
    limitations: list[str],
    waits_for: Sequence[PoolKey],
    *,
    waits: bool,
) -> _Observation:
    """Query the brokers. Write their localities, and trigger a refresh where the bindings are outdated."""
    key = pool.key
    pods = [pod for pod in context.store.of_pool(POD, key) if "deletionTimestamp" not in pod["metadata"]]
    refusals = context.locality_annotator.annotate(pods, pool.locality.node_labels)
    state = LookupState(lookup, pool.running, context.brokers.ask(pods), asleep=pool.phase is Phase.ASLEEP)
    refusals += _refresh_config_maps(context, pool, state, pods)
    if refusals:
        limitations = [*limitations, readiness.annotation_refused(refusals)]
        context.events.record(POOL, body, [Notice(WARNING, "PodsNotAnnotated", limitations[-1])])
    stateful_set = context.store.get(STATEFUL_SET, key.namespace, key.name) or {}
    ready = readiness.ready(pool, stateful_set, pods, state, waits=waits or bool(waits_for))
    failed = context.rollouts.failed(waits_for[0]) if waits_for else ""
    held_back = readiness.update_held(pool, stateful_set, waits_for, context.settings.rolling_pools, failed)
    if waits and not pool.held:
        held_back = issued_certificate.waiting(pool)
    return _Observation(pods, state, ready, limitations, bool(refusals), held_back, waits or bool(waits_for))


def _refresh_config_maps(context: Context, pool: Pool, state: LookupState, pods: list[Manifest]) -> list[str]:
    """Trigger a refresh for brokers with outdated bindings; return the reasons of refused annotations."""
    behind = {report.name for report in state.behind()}
    refusals = []
    for pod in pods:
        name = pod["metadata"]["name"]
        try:
            if name in behind and context.brokers.refresh_config_map(pod, state.wanted.revision):
                logger.info(
                    "bindings refresh triggered: pool=%s pod=%s revision=%s", pool.key, name, state.wanted.revision
                )
        except KubeError as error:
            if not error.refused:
                raise
            refusals.append(str(error))
    return refusals


def _conditions(
    context: Context, pool: Pool, body: Manifest, observed: _Observation, finalizer_errors: Mapping[str, Condition]
) -> list[Condition]:
    """Return all conditions of a reconciled pool."""
    key, report = pool.key, context.sources.report(pool.source)
    managed, probed = context.lac.report(key).condition, context.probes.report(key)
    looked_up = observed.state.condition()
    waiting = observed.held if observed.waits and observed.held is not None else looked_up
    return [
        observed.ready,
        readiness.progressing(observed.settled, observed.ready, waiting, observed.limitations),
        looked_up,
        *([observed.held] if observed.held is not None else []),
        last_known(body, source_reachable(report, source_fields(body))),
        finalizer_errors.get("ExplicitLac")
        or last_known(body, explicit_lac(report, pool.explicit_lac, managed, probed)),
        *finalizer.registration_condition(context, pool, finalizer_errors),
        *([finalizer_errors["LocalCursors"]] if "LocalCursors" in finalizer_errors else []),
    ]


def _write_statuses(
    context: Context,
    pool: Pool,
    body: Manifest,
    bindings: PoolBindings,
    observed: _Observation,
    conditions: Sequence[Condition],
    cursors: Mapping[str, Condition],
    config: str | None,
) -> None:
    """Write the statuses of the pool and of its bindings."""
    values = _values(context, pool.key, body, len(bindings))
    values["brokerConfig"] = config
    values["lookupRevision"] = observed.state.wanted.revision
    values[source_cluster.STATUS_FIELD] = observed.state.bookkeeper_instance or values[source_cluster.STATUS_FIELD]
    applied = context.lac.report(pool.key).applied or values["explicitLac"]
    values["explicitLac"] = applied if pool.explicit_lac.manages else None
    write_conditions(context, POOL, body, conditions, values)
    binding_status.report_status(context, bindings.good, observed.state, cursors, bindings.prevailing)
    binding_status.report_conflicts(context, bindings.against, bindings.held_back)
    binding_status.report_oversized(context, bindings.excess, bindings.oversized)
    binding_status.report_not_allowed(context, bindings)
    binding_status.report_invalid(context, bindings.broken)


def _outcome(context: Context, bindings: PoolBindings, observed: _Observation, *, retry: bool) -> Outcome:
    """Return when to reconcile again without an event."""
    return Outcome(
        observed.settled,
        requeue=not observed.settled and not all(map(waiting_reason, observed.pods)),
        refresh_seconds=finalizer.RETRY_SECONDS
        if retry or observed.refused
        else _refresh_seconds(context, bindings, observed.state),
    )


def _refresh_seconds(context: Context, bindings: PoolBindings, state: LookupState) -> float:
    """Return when to query brokers again for matched topics and lags, which no event announces."""
    if not bindings.contested and not (bindings.good and any(report.reachable for report in state.reports)):
        return 0.0
    unknown = any(state.holders(binding) and state.stats(binding).topics is None for binding, _ in bindings.good)
    return FIRST_STATS_SECONDS if unknown else context.settings.refresh_seconds


def _values(context: Context, key: PoolKey, body: Manifest, bindings: int) -> dict[str, Any]:
    """Return the status fields besides conditions, in any state of the pool: autoscalers read some of them."""
    before = body.get("status") or {}
    stateful_set = context.store.get(STATEFUL_SET, key.namespace, key.name) or {}
    may_sleep = "scaleToZero" in (body.get("spec") or {})  # then it has a waker, too
    return {
        "replicas": (stateful_set.get("status") or {}).get("replicas", 0),
        "readyReplicas": sum(map(is_ready, context.store.of_pool(POD, key))),
        "selector": f"{LABEL_POOL}={key.name}" + (f",{LABEL_NAME}={BROKER_NAME}" if may_sleep else ""),
        "bindings": bindings,
        "lookupRevision": before.get("lookupRevision"),
        "explicitLac": before.get("explicitLac"),
        source_cluster.STATUS_FIELD: before.get(source_cluster.STATUS_FIELD),
        "source": before.get("source"),
        "membershipUid": before.get("membershipUid"),
        "brokerConfig": before.get("brokerConfig"),
    }


def _report_failure(
    context: Context, body: Manifest, bindings: PoolBindings, error: ApiSpecError | NameConflictError | KubeError
) -> Outcome:
    """Report an error that a person must resolve; the next event about the pool retries.

    Raises:
        KubeError: the error itself, when a retry may resolve it.
    """
    if isinstance(error, KubeError) and not error.refused:
        raise error
    if isinstance(error, UnresolvedSourceError):
        reason = error.reason
    elif isinstance(error, ApiSpecError):
        reason = "InvalidSpec"
    else:
        reason = "NameConflict" if isinstance(error, NameConflictError) else "Refused"
    message = str(error)
    conditions = [
        Condition("Ready", ConditionStatus.FALSE, reason, message),
        Condition("Progressing", ConditionStatus.FALSE, reason, message),
        Condition("LookupConfigured", ConditionStatus.UNKNOWN, reason, message),
    ]
    key = PoolKey(body["metadata"]["namespace"], body["metadata"]["name"])
    if write_conditions(context, POOL, body, conditions, _values(context, key, body, len(bindings))):
        logger.warning("pool not reconciled: pool=%s reason=%s: %s", key, reason, message)
    served = binding_status.report_pool_failed(
        context, bindings.readable, _last_state(context, key, bindings), reason, message
    )
    binding_status.report_not_allowed(context, bindings)
    binding_status.report_invalid(context, bindings.broken)
    finalizer.hold_bindings(
        context,
        bindings,
        lambda namespace: binding_status.pool_failure(key, namespace, reason, message),
        partial(_report_leaving, context),
    )
    # no event announces that a foreign object or a quota is gone, nor what brokers serve meanwhile
    return Outcome(
        settled=False,
        requeue=reason in {"NameConflict", "Refused"},
        refresh_seconds=context.settings.refresh_seconds if served else 0.0,
    )


def _last_state(context: Context, key: PoolKey, bindings: PoolBindings) -> LookupState:
    """Return the bindings at the brokers of a pool whose spec may be invalid. Without bindings in question, none is asked."""
    known = context.store.get(CONFIG_MAP, key.namespace, key.bindings_map)
    last = LookupConfig.of_entries(context.lookup_history.last(key, known).values(), key.namespace)
    pods = [pod for pod in context.store.of_pool(POD, key) if "deletionTimestamp" not in pod["metadata"]]
    stateful_set = context.store.get(STATEFUL_SET, key.namespace, key.name) or {}
    count = (stateful_set.get("spec") or {}).get("replicas", len(pods))
    return LookupState(last, count, context.brokers.ask(pods) if bindings.readable else [])
