"""Where to look next when a pool or a binding is not well: the meaning of each reason, and a command. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_operator.api.reasons import CONDITIONS, OF_BINDINGS, OF_BOTH, OF_POOLS
from readonly_operator.kubectl.snapshot import UNKNOWN, condition_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from readonly_operator.api.reasons import Meaning
    from readonly_operator.kubectl.snapshot import BindingView, BrokerView, ConditionView, PoolView

MAX_STEPS: Final = 20
"""Steps that are shown for one pool. The first ones are the most urgent."""

GOOD_WHEN_FALSE: Final = frozenset({"Paused", "Progressing", "Reconciling", "Stalled", "TopicConflict", "UpdateHeld"})
"""Conditions that need attention while they are True. The others need it while they are not."""

NEVER_BAD: Final = frozenset({"Asleep"})
"""Conditions, and reasons of others, that need no attention: of a pool that may sleep."""

TRY: Final = " Try: "
"""Comes before the command of a step."""

SAME_AS_OTHERS: Final = frozenset({"Progressing", "Reconciling", "Stalled"})
"""Conditions that repeat the reason of another one."""

COMMANDS: Final[Mapping[tuple[str, str], str]] = {
    ("Ready", "BrokersNotReady"): "kubectl get pods -n {namespace} -l pulsar-readonly.io/pool={pool}",
    ("Ready", "InvalidSpec"): "kubectl describe {object} -n {namespace}",
    ("Ready", "Refused"): "kubectl get events -n {namespace} --field-selector involvedObject.name={name}",
    ("Ready", "SourceNotFound"): "kubectl get readonlysources -n {namespace}",
    ("Ready", "PoolNotFound"): "kubectl get readonlybrokerpools -n {pool_namespace}",
    ("Ready", "PoolFailed"): "kubectl readonly status {pool} -n {pool_namespace}",
    ("Ready", "NotAllowedByPool"): "kubectl get readonlybrokerpool {pool} -n {pool_namespace} -o yaml",
    ("SourceReachable", "Unreachable"): "kubectl readonly doctor {pool} -n {pool_namespace}",
    ("ExplicitLac", "Off"): "kubectl readonly doctor {pool} -n {pool_namespace}",
    (
        "LookupConfigured",
        "BrokersUnreachable",
    ): "kubectl get pods -n {pool_namespace} -l pulsar-readonly.io/pool={pool}",
    ("CertificateIssued", "NotIssued"): "kubectl get certificates -n {namespace}",
}
"""A command for a type and a reason of a condition."""

NO_REPORT: Final = (
    "no operator has reported on it: does an operator run, and does it serve this namespace?"
    f"{TRY}kubectl get deployments -A -l app.kubernetes.io/name=pulsar-readonly-operator"
)

_MEANINGS: Final[Mapping[tuple[str, str, str], Meaning]] = {
    (one.condition, one.status, one.reason): one for one in (*OF_BOTH, *OF_BINDINGS)
}
_MEANINGS_OF_POOLS: Final[Mapping[tuple[str, str, str], Meaning]] = {
    (one.condition, one.status, one.reason): one for one in (*OF_BOTH, *OF_POOLS)
}


def is_bad(condition: ConditionView) -> bool:
    """Return whether a condition needs attention. That of an unknown type, as a newer operator may have, is not known to."""
    if condition.type not in CONDITIONS or NEVER_BAD & {condition.type, condition.reason}:
        return False
    if condition.type in GOOD_WHEN_FALSE:
        return condition.status == "True"
    return condition.status != "True"


def of_pool(pool: PoolView) -> list[str]:
    """Return where to look next for a pool, its brokers and its bindings; empty if all is well."""
    names = {
        "name": pool.key.name,
        "namespace": pool.key.namespace,
        "pool": pool.key.name,
        "pool_namespace": pool.key.namespace,
        "object": f"readonlybrokerpool/{pool.key.name}",
    }
    steps = _of_conditions(f"pool {pool.key.name}", pool.conditions, _MEANINGS_OF_POOLS, names)
    for broker in pool.brokers:
        steps += _of_broker(pool.key.namespace, broker)
    for binding in pool.bindings:
        steps += of_binding(binding)
    return _bounded(list(dict.fromkeys(steps)))


def of_binding(binding: BindingView) -> list[str]:
    """Return where to look next for a binding; empty if all is well."""
    names = {
        "name": binding.name,
        "namespace": binding.namespace,
        "pool": binding.pool.name,
        "pool_namespace": binding.pool.namespace,
        "object": f"readonlytopicbinding/{binding.name}",
    }
    return _of_conditions(f"binding {binding.namespace}/{binding.name}", binding.conditions, _MEANINGS, names)


def _of_conditions(
    what: str,
    conditions: Iterable[ConditionView],
    meanings: Mapping[tuple[str, str, str], Meaning],
    names: Mapping[str, str],
) -> list[str]:
    found = tuple(conditions)
    if not any(one.reason for one in found):
        return [f"{what}: {NO_REPORT}"]
    steps = []
    if condition_of(found, "Ready").outdated:
        steps.append(f"{what}: its conditions describe an older spec; {NO_REPORT}")
    for one in sorted(filter(is_bad, found), key=lambda condition: condition.type != "Ready"):
        meaning = meanings.get((one.type, one.status, one.reason))
        if one.type in SAME_AS_OTHERS or (one.status == UNKNOWN and meaning is None):
            continue
        text = f"{what}: {one.type} is {one.status} ({one.reason})"
        text += f": {meaning.text.replace('`', '')}" if meaning is not None else ""
        command = COMMANDS.get((one.type, one.reason))
        steps.append(f"{text}{TRY}{command.format_map(names)}" if command else text)
    return steps


def _of_broker(namespace: str, broker: BrokerView) -> list[str]:
    steps = []
    if not broker.ready:
        why = f": {broker.trouble}" if broker.trouble else ""
        command = "logs" if broker.runs else "describe pod"
        previous = " --previous" if broker.runs and broker.restarts else ""
        steps.append(
            f"broker {broker.pod}: not ready{why}.{TRY}kubectl {command} {broker.pod} -n {namespace}{previous}"
        )
    for one in broker.observed:
        if one.status is None:
            continue
        source = one.status.source
        if source.bindings_error:
            steps.append(f"broker {one.url}: it cannot use the bindings: {source.bindings_error}")
        if not source.connected:
            steps.append(
                f"broker {one.url}: the metadata store does not answer.{TRY}kubectl logs {broker.pod} -n {namespace}"
            )
    return steps


def _bounded(steps: list[str]) -> list[str]:
    if len(steps) <= MAX_STEPS:
        return steps
    return [*steps[: MAX_STEPS - 1], f"and {len(steps) - MAX_STEPS + 1} more"]
