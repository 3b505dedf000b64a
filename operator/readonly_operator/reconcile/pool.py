"""Reconciling a pool and the bindings that name it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from readonly_operator import status
from readonly_operator.api.binding import Binding
from readonly_operator.api.pool import Pool
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.apply import NameConflictError, Result
from readonly_operator.brokers import is_ready, waiting_reason
from readonly_operator.desired.children import children
from readonly_operator.desired.lookup import LookupConfig
from readonly_operator.kinds import BINDING, CHILDREN, POD, POOL, STATEFUL_SET, Manifest
from readonly_operator.names import LABEL_POOL
from readonly_operator.reconcile import binding as binding_status
from readonly_operator.reconcile.context import Context, Outcome
from readonly_operator.reconcile.lookup import LookupState
from readonly_operator.reconcile.writable import explicit_lac, source_reachable
from readonly_operator.status import Condition, Truth, listed

if TYPE_CHECKING:
    from readonly_operator.names import PoolKey

logger = logging.getLogger(__name__)


def reconcile(context: Context, key: PoolKey) -> Outcome:
    """Make everything about a pool what it should be, and say in its status and in its bindings' how far that is.

    Raises:
        KubeError: the API server refused something; it is to be tried again.
    """
    body = context.store.get(POOL, key.namespace, key.name)
    bindings, broken = _bindings(context, key)
    if body is None or "deletionTimestamp" in body["metadata"]:
        binding_status.say_pool_not_found(context, key, bindings, deleting=body is not None)
        binding_status.say_broken(context, broken)
        return Outcome(settled=True, look_again=False)
    try:
        pool = Pool.load(body)
    except ApiSpecError as error:
        return _give_up(context, body, bindings, "InvalidSpec", str(error))

    lookup = LookupConfig.of(binding for binding, _ in bindings)
    desired = children(pool, lookup, context.settings)
    try:
        _apply(context, pool, desired)
    except NameConflictError as error:
        return _give_up(context, body, bindings, "NameConflict", str(error))

    pods = [pod for pod in context.store.of_pool(POD, key) if "deletionTimestamp" not in pod["metadata"]]
    state = _ask_brokers(context, pool, lookup, pods)
    report = context.sources.report(pool.source)
    stateful_set = context.store.get(STATEFUL_SET, key.namespace, key.name) or {}
    ready = _ready(pool, stateful_set, pods, state)
    looked_up = state.condition()
    settled = ready.status is Truth.TRUE and (state.converged() or pool.replicas == 0)
    conditions = [
        ready,
        _progressing(settled, ready, looked_up),
        looked_up,
        source_reachable(report),
        explicit_lac(report, pool.explicit_lac),
    ]
    values = {
        "replicas": (stateful_set.get("status") or {}).get("replicas", 0),
        "readyReplicas": sum(map(is_ready, pods)),
        "selector": f"{LABEL_POOL}={key.name}",
        "bindings": len(bindings) + len(broken),
        "lookupRevision": lookup.revision,
    }
    rendered = status.render(body.get("status") or {}, pool.generation, conditions, values, context.now())
    status.write(context.kube, context.store, POOL, body, rendered)
    binding_status.say(context, bindings, state)
    binding_status.say_broken(context, broken)
    return Outcome(settled, look_again=not settled and not all(map(waiting_reason, pods)))


def _bindings(context: Context, key: PoolKey) -> tuple[list[tuple[Binding, Manifest]], list[tuple[str, Manifest]]]:
    """The bindings that name the pool, and those of them that cannot be used, with the reason."""
    good: list[tuple[Binding, Manifest]] = []
    broken: list[tuple[str, Manifest]] = []
    for body in context.store.of_pool(BINDING, key):
        if "deletionTimestamp" in body["metadata"]:
            continue
        try:
            good.append((Binding.load(body), body))
        except ApiSpecError as error:
            broken.append((str(error), body))
    return good, broken


def _apply(context: Context, pool: Pool, desired: list[Manifest]) -> None:
    done = [(manifest, context.applier.apply(manifest)) for manifest in desired]
    known = [child for kind in CHILDREN for child in context.store.of_pool(kind, pool.key)]
    done += context.applier.prune(known, desired, pool.uid)
    for manifest, result in done:
        if result is not Result.NOOP:
            logger.info("%s: %s %s %s", pool.key, manifest["kind"], manifest["metadata"]["name"], result.value)


def _ask_brokers(context: Context, pool: Pool, lookup: LookupConfig, pods: list[Manifest]) -> LookupState:
    """Ask every broker what it holds; kubelets of those that are behind are told that there is something new."""
    state = LookupState(lookup, pool.replicas, context.brokers.ask(pods))
    behind = {report.name for report in state.behind()}
    for pod in pods:
        if pod["metadata"]["name"] in behind and context.brokers.nudge(pod, lookup.revision):
            logger.info("%s: kubelet of %s nudged for revision %s", pool.key, pod["metadata"]["name"], lookup.revision)
    return state


def _ready(pool: Pool, stateful_set: Manifest, pods: list[Manifest], state: LookupState) -> Condition:
    if pool.replicas == 0 and not pods:
        return Condition("Ready", Truth.TRUE, "ScaledToZero", "spec.replicas is 0: no broker is wanted")
    serving = sum(map(is_ready, pods))
    head = f"{serving} of {pool.replicas} brokers ready"
    observed = stateful_set.get("status") or {}
    current = observed.get("observedGeneration", 0) >= (stateful_set.get("metadata") or {}).get("generation", 1)
    rolled = observed.get("updatedReplicas", 0) >= pool.replicas or observed.get("currentRevision") == observed.get(
        "updateRevision"
    )
    if serving == pool.replicas == len(pods) and current and rolled:
        return Condition("Ready", Truth.TRUE, "BrokersReady", head)
    if serving >= pool.replicas:
        return Condition("Ready", Truth.FALSE, "RollingOut", f"{head}; brokers are being replaced or removed")
    words = {report.name: report.unready for report in state.reports}
    reasons = []
    for pod in pods:
        if not is_ready(pod):
            name = pod["metadata"]["name"]
            reasons.append(f"{name}: {waiting_reason(pod) or words[name] or 'running, not ready yet'}")
    return Condition("Ready", Truth.FALSE, "BrokersNotReady", f"{head}" + (f"; {listed(reasons)}" if reasons else ""))


def _progressing(settled: bool, ready: Condition, looked_up: Condition) -> Condition:
    if settled:
        return Condition("Progressing", Truth.FALSE, "Settled", "everything is as the spec says")
    waiting = ready if ready.status is not Truth.TRUE else looked_up
    return Condition("Progressing", Truth.TRUE, waiting.reason, waiting.message)


def _give_up(
    context: Context, body: Manifest, bindings: list[tuple[Binding, Manifest]], reason: str, message: str
) -> Outcome:
    """Say what a person must change first; the next event about the pool tries again."""
    conditions = [
        Condition("Ready", Truth.FALSE, reason, message),
        Condition("Progressing", Truth.FALSE, reason, message),
        Condition("LookupConfigured", Truth.UNKNOWN, reason, message),
    ]
    values = {"bindings": len(bindings)}
    rendered = status.render(
        body.get("status") or {}, body["metadata"].get("generation", 0), conditions, values, context.now()
    )
    if status.write(context.kube, context.store, POOL, body, rendered):
        logger.warning("%s/%s: %s: %s", body["metadata"]["namespace"], body["metadata"]["name"], reason, message)
    binding_status.say_pool_broken(context, bindings, reason, message)
    return Outcome(
        settled=False, look_again=reason == "NameConflict"
    )  # a foreign object that goes away makes no event here
