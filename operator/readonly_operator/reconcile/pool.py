"""Reconciling a pool and the bindings that name it."""

from __future__ import annotations

import logging
from typing import Any

from readonly_operator import metrics
from readonly_operator.api.binding import Binding, is_paused
from readonly_operator.api.pool import Pool
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.apply import NameConflictError, Result
from readonly_operator.brokers import is_ready, waiting_reason
from readonly_operator.desired.children import children
from readonly_operator.desired.lookup import LookupConfig
from readonly_operator.events import WARNING, Notice
from readonly_operator.kinds import BINDING, CHILDREN, CONFIG_MAP, POD, POOL, STATEFUL_SET, Manifest, kind_of
from readonly_operator.kube import KubeError
from readonly_operator.names import LABEL_POOL, PoolKey
from readonly_operator.reconcile import binding as binding_status
from readonly_operator.reconcile import holding
from readonly_operator.reconcile.conflicts import Contest, contest
from readonly_operator.reconcile.context import Context, Outcome
from readonly_operator.reconcile.lookup import LookupState
from readonly_operator.reconcile.say import say, say_paused
from readonly_operator.reconcile.tell import applied
from readonly_operator.reconcile.writable import explicit_lac, said_before, source_reachable
from readonly_operator.status import Condition, Truth, listed

logger = logging.getLogger(__name__)

FIRST_FIGURES_SECONDS = 3.0
"""A broker that has just been told of a binding needs so long to list its topics."""


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
        if body is not None:
            values = _values(context, key, body, len(bindings) + len(broken))
            holding.let_go(context, body, lambda condition: say(context, POOL, body, [condition], values))
        else:
            context.told.forget(key)
        return Outcome(settled=True, look_again=False)
    try:
        pool = Pool.load(body)
    except ApiSpecError as error:
        return _give_up(context, body, bindings, broken, "InvalidSpec", str(error))
    if is_paused(body):
        say_paused(context, POOL, body)
        for _, binding_body in bindings:
            say_paused(context, BINDING, binding_body, f'ReadOnlyBrokerPool "{key.name}" is paused')
        binding_status.say_broken(context, broken)
        return Outcome(settled=True, look_again=False)

    unheld = holding.hold(context, pool, body)
    rivalry = contest(context, pool, (binding for binding, _ in bindings))
    held_back = [one for one in bindings if one[0].full_name in rivalry.against]
    bindings = [one for one in bindings if one[0].full_name not in rivalry.against]
    known = context.store.get(CONFIG_MAP, key.namespace, key.bindings_map)
    lookup = LookupConfig.holding(context.told.entries(key, known, bindings))
    names = [pod["metadata"]["name"] for pod in context.store.of_pool(POD, key)]
    there = {ordinal for ordinal in map(key.ordinal, names) if ordinal is not None}
    wanted = children(pool, lookup, context.settings, there)
    desired = [one for one in wanted if context.store.serves(kind_of(one))]
    try:
        _apply(context, pool, body, desired)
    except NameConflictError as error:
        return _give_up(context, body, [*bindings, *held_back], broken, "NameConflict", str(error))
    except KubeError as error:
        if not error.refused:
            raise
        return _give_up(context, body, [*bindings, *held_back], broken, "Refused", str(error))
    context.told.note(key, lookup)

    pods = [pod for pod in context.store.of_pool(POD, key) if "deletionTimestamp" not in pod["metadata"]]
    refusals = context.places.note(pods, pool.locality.node_labels)
    state = _ask_brokers(context, pool, lookup, pods)
    refusals += _nudge(context, pool, state, pods)
    unmarked = _unmarked(refusals)
    if unmarked:
        context.events.record(POOL, body, [Notice(WARNING, "PodsNotAnnotated", unmarked)])
    report = context.sources.report(pool.source)
    stateful_set = context.store.get(STATEFUL_SET, key.namespace, key.name) or {}
    ready = _ready(pool, stateful_set, pods, state)
    looked_up = state.condition()
    kinds = sorted({one["kind"] for one in wanted if one not in desired})
    settled = ready.status is Truth.TRUE and (state.converged() or pool.replicas == 0)
    conditions = [
        ready,
        _progressing(settled, ready, looked_up, [*map(_unknown, kinds), *filter(None, [unmarked])]),
        looked_up,
        said_before(body, source_reachable(report)),
        unheld.get("ExplicitLac")
        or said_before(
            body,
            explicit_lac(report, pool.explicit_lac, context.lac.report(key).condition, context.probes.report(key)),
        ),
        *holding.registered(context, pool, unheld),
    ]
    values = _values(context, key, body, len(bindings) + len(held_back) + len(broken))
    values["lookupRevision"] = lookup.revision
    values["explicitLac"] = (
        context.lac.report(key).noted or values["explicitLac"] if pool.explicit_lac.manages else None
    )
    say(context, POOL, body, conditions, values)
    binding_status.say(context, bindings, state)
    binding_status.say_conflicts(context, rivalry.against, held_back)
    binding_status.say_broken(context, broken)
    return Outcome(
        settled,
        look_again=not settled and not all(map(waiting_reason, pods)),
        refresh_seconds=holding.RETRY_SECONDS
        if unheld or unmarked
        else _refresh_seconds(context, state, bindings, rivalry),
    )


def _values(context: Context, key: PoolKey, body: Manifest, bindings: int) -> dict[str, Any]:
    """What the status says besides conditions, whatever the pool's state: autoscalers read some of it."""
    before = body.get("status") or {}
    stateful_set = context.store.get(STATEFUL_SET, key.namespace, key.name) or {}
    return {
        "replicas": (stateful_set.get("status") or {}).get("replicas", 0),
        "readyReplicas": sum(map(is_ready, context.store.of_pool(POD, key))),
        "selector": f"{LABEL_POOL}={key.name}",
        "bindings": bindings,
        "lookupRevision": before.get("lookupRevision"),
        "explicitLac": before.get("explicitLac"),
    }


def _refresh_seconds(
    context: Context,
    state: LookupState,
    bindings: list[tuple[Binding, Manifest]],
    rivalry: Contest,
) -> float:
    """When to look again at what only brokers know: topics that come and go, and how far their readers are behind."""
    if not rivalry.open and not (bindings and any(report.asked for report in state.reports)):
        return 0.0
    unknown = any(state.holders(binding) and state.figures(binding).topics is None for binding, _ in bindings)
    return FIRST_FIGURES_SECONDS if unknown else context.settings.refresh_seconds


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


def _apply(context: Context, pool: Pool, body: Manifest, desired: list[Manifest]) -> None:
    before = context.store.get(STATEFUL_SET, pool.key.namespace, pool.key.name)
    done = [(manifest, context.applier.apply(manifest)) for manifest in desired]
    known = [child for kind in CHILDREN for child in context.store.of_pool(kind, pool.key)]
    done += context.applier.prune(known, desired, pool.uid)
    for manifest, result in done:
        if result is not Result.NOOP:
            logger.info("%s: %s %s %s", pool.key, manifest["kind"], manifest["metadata"]["name"], result.value)
            metrics.applied(manifest["kind"], result.value)
    context.events.record(POOL, body, applied(pool.key, done, before))


def _ask_brokers(context: Context, pool: Pool, lookup: LookupConfig, pods: list[Manifest]) -> LookupState:
    """Ask every broker what it holds."""
    return LookupState(lookup, pool.replicas, context.brokers.ask(pods))


def _nudge(context: Context, pool: Pool, state: LookupState, pods: list[Manifest]) -> list[str]:
    """Tell kubelets of brokers that are behind that there is something new; why pods may not be annotated for that."""
    behind = {report.name for report in state.behind()}
    refusals = []
    for pod in pods:
        name = pod["metadata"]["name"]
        try:
            if name in behind and context.brokers.nudge(pod, state.wanted.revision):
                logger.info("%s: kubelet of %s nudged for revision %s", pool.key, name, state.wanted.revision)
        except KubeError as error:
            if not error.refused:
                raise
            refusals.append(str(error))
    return refusals


def _unmarked(refusals: list[str]) -> str:
    """What it means that pods may not be annotated; empty where they may."""
    if not refusals:
        return ""
    return (
        "brokers take changed bindings up late, and may not know where they are, for their pods cannot be annotated: "
        + listed(dict.fromkeys(refusals), 2)
    )


def _unknown(kind: str) -> str:
    return f"there is no {kind}, for the cluster does not know that kind"


def _ready(pool: Pool, stateful_set: Manifest, pods: list[Manifest], state: LookupState) -> Condition:
    if pool.replicas == 0 and not pods:
        return Condition("Ready", Truth.TRUE, "ScaledToZero", "spec.replicas is 0: no broker is wanted")
    serving = sum(map(is_ready, pods))
    head = f"{serving} of {pool.replicas} brokers ready"
    observed = stateful_set.get("status") or {}
    current = observed.get("observedGeneration", 0) >= (stateful_set.get("metadata") or {}).get("generation", 1)
    updated = observed.get("updatedReplicas", 0)
    same = observed.get("currentRevision") == observed.get("updateRevision")
    if serving == pool.replicas == len(pods) and current and (same or updated >= pool.replaced):
        former = 0 if same else pool.replicas - updated
        kept = f"; {former} run the former pod template, as spec.updateStrategy says" if former > 0 else ""
        return Condition("Ready", Truth.TRUE, "BrokersReady", f"{head}{kept}")
    if serving >= pool.replicas:
        return Condition("Ready", Truth.FALSE, "RollingOut", f"{head}; brokers are being replaced or removed")
    words = {report.name: report.unready for report in state.reports}
    reasons = []
    for pod in pods:
        if not is_ready(pod):
            name = pod["metadata"]["name"]
            reasons.append(f"{name}: {waiting_reason(pod) or words[name] or 'running, not ready yet'}")
    return Condition("Ready", Truth.FALSE, "BrokersNotReady", f"{head}" + (f"; {listed(reasons)}" if reasons else ""))


def _progressing(settled: bool, ready: Condition, looked_up: Condition, lacking: list[str]) -> Condition:
    but = "".join(f", but {one}" for one in lacking)
    if settled:
        return Condition("Progressing", Truth.FALSE, "Settled", f"everything is as the spec says{but}")
    waiting = ready if ready.status is not Truth.TRUE else looked_up
    return Condition("Progressing", Truth.TRUE, waiting.reason, f"{waiting.message}{but}")


def _give_up(
    context: Context,
    body: Manifest,
    bindings: list[tuple[Binding, Manifest]],
    broken: list[tuple[str, Manifest]],
    reason: str,
    message: str,
) -> Outcome:
    """Say what a person must change first; the next event about the pool tries again."""
    conditions = [
        Condition("Ready", Truth.FALSE, reason, message),
        Condition("Progressing", Truth.FALSE, reason, message),
        Condition("LookupConfigured", Truth.UNKNOWN, reason, message),
    ]
    key = PoolKey(body["metadata"]["namespace"], body["metadata"]["name"])
    if say(context, POOL, body, conditions, _values(context, key, body, len(bindings) + len(broken))):
        logger.warning("%s: %s: %s", key, reason, message)
    binding_status.say_pool_broken(context, bindings, reason, message)
    binding_status.say_broken(context, broken)
    return Outcome(
        settled=False, look_again=reason in {"NameConflict", "Refused"}
    )  # a foreign object or a quota that goes away makes no event here
