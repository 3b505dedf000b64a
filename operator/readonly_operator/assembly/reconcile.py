"""Reconciling a pool and the bindings that name it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from readonly_operator import metrics
from readonly_operator.api.binding import is_paused
from readonly_operator.api.pool import Pool
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.assembly import binding_status, readiness
from readonly_operator.assembly import finalizer as holding
from readonly_operator.assembly.apply_events import applied
from readonly_operator.assembly.conditions import say, say_paused
from readonly_operator.assembly.context import Context, Outcome
from readonly_operator.assembly.lookup_state import LookupState
from readonly_operator.assembly.source_conditions import explicit_lac, said_before, source_reachable
from readonly_operator.bindings.pool_bindings import Bound
from readonly_operator.kube.api_server import KubeError
from readonly_operator.kube.apply import NameConflictError, Result
from readonly_operator.kube.events import WARNING, Notice
from readonly_operator.kube.kinds import BINDING, CHILDREN, CONFIG_MAP, POD, POOL, STATEFUL_SET, Manifest, kind_of
from readonly_operator.kube.names import LABEL_POOL, PoolKey
from readonly_operator.kube.pods import is_ready, waiting_reason
from readonly_operator.kube.status import Condition, Truth
from readonly_operator.model.children import children
from readonly_operator.model.lookup import LookupConfig

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

logger = logging.getLogger(__name__)

FIRST_FIGURES_SECONDS = 3.0
"""A broker that has just been told of a binding needs so long to list its topics."""


def reconcile(context: Context, key: PoolKey) -> Outcome:
    """Make everything about a pool what it should be, and say in its status and in its bindings' how far that is.

    Raises:
        KubeError: the API server refused something; it is to be tried again.
    """
    body = context.store.get(POOL, key.namespace, key.name)
    bound = Bound.of(context.store, key)
    if body is None or "deletionTimestamp" in body["metadata"]:
        return _let_go(context, key, body, bound)
    try:
        pool = Pool.load(body)
        if is_paused(body):
            return _leave_alone(context, pool, body, bound)
        unheld = holding.hold(context, pool, body)
        bound = bound.without_conflicts(context.store, context.brokers.matched, pool)
        lookup = _lookup(context, pool, bound)
        lacking = _apply(context, pool, body, lookup)
    except (ApiSpecError, NameConflictError, KubeError) as error:
        return _give_up(context, body, bound, error)
    seen = _look(context, pool, body, lookup, lacking)
    _say(context, pool, body, bound, seen, _conditions(context, pool, body, seen, unheld))
    return _outcome(context, bound, seen, unheld)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What there is after everything was applied.

    Attributes:
        pods: those that are there to stay.
        state: what their brokers say.
        ready: whether they are what the spec wants.
        lacking: what will not come by itself, in words.
        refused: whether pods may not be annotated.
    """

    pods: Sequence[Manifest]
    state: LookupState
    ready: Condition
    lacking: Sequence[str]
    refused: bool

    @property
    def settled(self) -> bool:
        """Whether nothing is awaited."""
        return self.ready.status is Truth.TRUE and (self.state.converged() or self.state.brokers == 0)


def _let_go(context: Context, key: PoolKey, body: Manifest | None, bound: Bound) -> Outcome:
    """A pool that is not there, or not for long: put back what is to be put back, and tell its bindings."""
    binding_status.say_pool_not_found(context, key, bound.good, deleting=body is not None)
    binding_status.say_broken(context, bound.broken)
    if body is None:
        context.told.forget(key)
    else:
        values = _values(context, key, body, len(bound))
        holding.let_go(context, body, lambda condition: say(context, POOL, body, [condition], values))
    return Outcome(settled=True, look_again=False)


def _leave_alone(context: Context, pool: Pool, body: Manifest, bound: Bound) -> Outcome:
    """A pool that is paused: nothing changes."""
    say_paused(context, POOL, body)
    for _, binding_body in bound.good:
        say_paused(context, BINDING, binding_body, f'ReadOnlyBrokerPool "{pool.key.name}" is paused')
    binding_status.say_broken(context, bound.broken)
    return Outcome(settled=True, look_again=False)


def _lookup(context: Context, pool: Pool, bound: Bound) -> LookupConfig:
    """What brokers are to hold."""
    known = context.store.get(CONFIG_MAP, pool.key.namespace, pool.key.bindings_map)
    return LookupConfig.holding(context.told.entries(pool.key, known, bound.good))


def _apply(context: Context, pool: Pool, body: Manifest, lookup: LookupConfig) -> list[str]:
    """Make the pool's objects what they should be; what is lacking then, in words."""
    key, store = pool.key, context.store
    names = [pod["metadata"]["name"] for pod in store.of_pool(POD, key)]
    there = {ordinal for ordinal in map(key.ordinal, names) if ordinal is not None}
    wanted = children(pool, lookup, context.settings, there)
    desired = [one for one in wanted if store.serves(kind_of(one))]
    before = store.get(STATEFUL_SET, key.namespace, key.name)
    done = [(manifest, context.applier.apply(manifest)) for manifest in desired]
    context.told.note(key, lookup)
    known = [child for kind in CHILDREN for child in store.of_pool(kind, key)]
    done += context.applier.prune(known, desired, pool.uid)
    for manifest, result in done:
        if result is not Result.NOOP:
            logger.info("%s: %s %s %s", key, manifest["kind"], manifest["metadata"]["name"], result.value)
            metrics.applied(manifest["kind"], result.value)
    context.events.record(POOL, body, applied(key, done, before))
    return [readiness.unknown(kind) for kind in sorted({one["kind"] for one in wanted if one not in desired})]


def _look(context: Context, pool: Pool, body: Manifest, lookup: LookupConfig, lacking: list[str]) -> _Seen:
    """Ask the brokers what they hold; tell them where they are, and that there is something new where they are behind."""
    key = pool.key
    pods = [pod for pod in context.store.of_pool(POD, key) if "deletionTimestamp" not in pod["metadata"]]
    refusals = context.places.note(pods, pool.locality.node_labels)
    state = LookupState(lookup, pool.replicas, context.brokers.ask(pods))
    refusals += _nudge(context, pool, state, pods)
    if refusals:
        lacking = [*lacking, readiness.unmarked(refusals)]
        context.events.record(POOL, body, [Notice(WARNING, "PodsNotAnnotated", lacking[-1])])
    stateful_set = context.store.get(STATEFUL_SET, key.namespace, key.name) or {}
    return _Seen(pods, state, readiness.ready(pool, stateful_set, pods, state), lacking, bool(refusals))


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


def _conditions(
    context: Context, pool: Pool, body: Manifest, seen: _Seen, unheld: Mapping[str, Condition]
) -> list[Condition]:
    """All there is to say of a pool that is worked on."""
    key, report = pool.key, context.sources.report(pool.source)
    managed, tried = context.lac.report(key).condition, context.probes.report(key)
    looked_up = seen.state.condition()
    return [
        seen.ready,
        readiness.progressing(seen.settled, seen.ready, looked_up, seen.lacking),
        looked_up,
        said_before(body, source_reachable(report)),
        unheld.get("ExplicitLac") or said_before(body, explicit_lac(report, pool.explicit_lac, managed, tried)),
        *holding.registered(context, pool, unheld),
    ]


def _say(
    context: Context, pool: Pool, body: Manifest, bound: Bound, seen: _Seen, conditions: Sequence[Condition]
) -> None:
    """Write the statuses of the pool and of its bindings."""
    values = _values(context, pool.key, body, len(bound))
    values["lookupRevision"] = seen.state.wanted.revision
    noted = context.lac.report(pool.key).noted or values["explicitLac"]
    values["explicitLac"] = noted if pool.explicit_lac.manages else None
    say(context, POOL, body, conditions, values)
    binding_status.say(context, bound.good, seen.state)
    binding_status.say_conflicts(context, bound.against, bound.held_back)
    binding_status.say_broken(context, bound.broken)


def _outcome(context: Context, bound: Bound, seen: _Seen, unheld: Mapping[str, Condition]) -> Outcome:
    """When to look again, where no event will tell."""
    return Outcome(
        seen.settled,
        look_again=not seen.settled and not all(map(waiting_reason, seen.pods)),
        refresh_seconds=holding.RETRY_SECONDS
        if unheld or seen.refused
        else _refresh_seconds(context, bound, seen.state),
    )


def _refresh_seconds(context: Context, bound: Bound, state: LookupState) -> float:
    """When to look again at what only brokers know: topics that come and go, and how far their readers are behind."""
    if not bound.contested and not (bound.good and any(report.asked for report in state.reports)):
        return 0.0
    unknown = any(state.holders(binding) and state.figures(binding).topics is None for binding, _ in bound.good)
    return FIRST_FIGURES_SECONDS if unknown else context.settings.refresh_seconds


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


def _give_up(
    context: Context, body: Manifest, bound: Bound, error: ApiSpecError | NameConflictError | KubeError
) -> Outcome:
    """Say what a person must change first; the next event about the pool tries again.

    Raises:
        KubeError: the error itself, where nobody need change anything.
    """
    if isinstance(error, KubeError) and not error.refused:
        raise error
    if isinstance(error, ApiSpecError):
        reason = "InvalidSpec"
    else:
        reason = "NameConflict" if isinstance(error, NameConflictError) else "Refused"
    message = str(error)
    conditions = [
        Condition("Ready", Truth.FALSE, reason, message),
        Condition("Progressing", Truth.FALSE, reason, message),
        Condition("LookupConfigured", Truth.UNKNOWN, reason, message),
    ]
    key = PoolKey(body["metadata"]["namespace"], body["metadata"]["name"])
    if say(context, POOL, body, conditions, _values(context, key, body, len(bound))):
        logger.warning("%s: %s: %s", key, reason, message)
    binding_status.say_pool_broken(context, bound.readable, reason, message)
    binding_status.say_broken(context, bound.broken)
    # a foreign object or a quota that goes away makes no event here
    return Outcome(settled=False, look_again=reason in {"NameConflict", "Refused"})
