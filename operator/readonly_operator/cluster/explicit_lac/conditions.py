"""Condition ExplicitLac while the operator manages it. Each function is one situation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from readonly_operator.api.pool.explicit_lac import LAC_SETTING
from readonly_operator.kube.names import ANNOTATION_EXPLICIT_LAC_FROM, MANAGER_EXPLICIT_LAC
from readonly_operator.kube.status import Condition, ConditionStatus, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from readonly_operator.cluster.explicit_lac.observed import ObservedBroker, ObservedConfig, SettingRecord
    from readonly_operator.cluster.explicit_lac.requests import SettingLocation, SettingRequest
    from readonly_operator.kube.api_server import Right

TYPE = "ExplicitLac"


def forbidden(location: SettingLocation, missing: Iterable[Right]) -> Condition:
    """The operator lacks rights."""
    rules: dict[tuple[str, str, str, str], list[str]] = {}
    for right in missing:
        rules.setdefault((right.namespace, right.group, right.resource, right.name), []).append(right.verb)
    words = [
        f"verbs [{', '.join(verbs)}] on {resource}{f'.{group}' if group else ''}"
        f"{f' {name}' if name else ''} in namespace {namespace}"
        for (namespace, group, resource, name), verbs in rules.items()
    ]
    return _false(
        "Forbidden",
        f"the operator may not manage {location.stateful_set}: grant its service account {listed(words, 8)}, by a Role and a "
        f"RoleBinding like those of manifests/explicit-lac",
    )


def refused(location: SettingLocation, reason: str) -> Condition:
    """The API server rejects a change for another reason than missing rights."""
    return _false("Refused", f"the API server refuses to change {location}: {reason}")


def target_missing(location: SettingLocation, *, config: bool) -> Condition:
    """An object of the target does not exist."""
    kind, name, field = (
        ("ConfigMap", location.config_map, "configMap.name")
        if config
        else ("StatefulSet", location.stateful_set, "statefulSet.name")
    )
    return _false(
        "TargetNotFound",
        f"there is no {kind} {name} in namespace {location.namespace}: correct spec.explicitLac.target.{field} or .namespace",
    )


def not_allowed(request: SettingRequest) -> Condition:
    """The StatefulSet's annotation does not name the pool's namespace."""
    location = request.location
    return _false(
        "NotAllowed",
        f"StatefulSet {location.stateful_set} does not allow pools of namespace {request.pool.namespace} to manage it; "
        f"its owner can: kubectl annotate statefulset {location.stateful_set} -n {location.namespace} "
        f"{ANNOTATION_EXPLICIT_LAC_FROM}={request.pool.namespace}",
    )


def conflict(reason: str) -> Condition:
    """Another pool manages the same brokers with another target."""
    return _false("Conflict", reason)


def not_read(location: SettingLocation) -> Condition:
    """The pods do not read the ConfigMap as environment."""
    return _false(
        "NotRead",
        f"the pods of StatefulSet {location.stateful_set} do not read ConfigMap {location.config_map} as environment (envFrom), "
        f"so a value in it would change nothing: correct spec.explicitLac.target, or use management Verify and set {LAC_SETTING} "
        "where your brokers read their settings",
    )


def not_a_number(location: SettingLocation, value: str) -> Condition:
    """The key's value is not an interval."""
    shown = " ".join(value.split())[:60]
    return _false(
        "NotOneSetting",
        f"key {location.key} of ConfigMap {location.config_map} holds no number of milliseconds but {shown!r}; only one setting "
        f"to a key can be managed. Use management Verify and set {LAC_SETTING} yourself",
    )


def reverted(location: SettingLocation, wanted: int, config: ObservedConfig) -> Condition:
    """Another manager restored a different value."""
    now = "the key is gone" if config.value is None else f"it is {config.value!r} again"
    return _false(
        "Reverted",
        f"key {location.key} of ConfigMap {location.config_map} was set to {wanted}, and {now}; last changed by "
        f"{config.others or 'nobody who is known'}. It is not set again and no broker is restarted: set {location.key}={wanted} "
        "where that tool takes it from, or change spec.explicitLac.interval",
    )


def unreachable(problem: str) -> Condition:
    """The brokers do not answer, so the operator changes nothing."""
    return Condition(
        TYPE,
        ConditionStatus.UNKNOWN,
        "SourceUnreachable",
        f"nothing is changed as long as brokers do not answer: {problem}",
    )


def other_brokers(location: SettingLocation, admin_url: str) -> Condition:
    """The StatefulSet's pods are not in the list of active brokers."""
    return _false(
        "NotTheSource",
        f"no pod of StatefulSet {location.stateful_set} in namespace {location.namespace} is among the active brokers that "
        f"{admin_url} lists: correct spec.explicitLac.target or spec.source",
    )


def finalizer_pending() -> Condition:
    """The pool does not have its finalizer yet."""
    return _false("Rolling", "the operator sets the pool's finalizer first, because onDeletion is Restore")


def rolling(running: str, reason: str) -> Condition:
    """Brokers are restarting with the new value."""
    return _false("Rolling", f"{running}; {reason}")


def not_evicted(condition: Condition) -> Condition:
    """A disruption budget delays the next restart."""
    return replace(
        condition, message=f"{condition.message}, as soon as its PodDisruptionBudget allows it: it does not now"
    )


def stopped(location: SettingLocation, running: str, reason: str) -> Condition:
    """A restarted broker does not become ready."""
    return _false(
        "RollStopped",
        f"{running}; {reason}. No other broker of StatefulSet {location.stateful_set} is restarted until that one serves",
    )


def not_applied(location: SettingLocation, interval_ms: int, brokers: Sequence[ObservedBroker]) -> Condition:
    """Brokers started after the change and run with another value."""
    names = listed(f"{broker.pod} runs with {broker.interval_ms}" for broker in brokers)
    return _false(
        "NotTaken",
        f"{names} though started after {location.key} was set to {interval_ms} in ConfigMap {location.config_map}; no broker is "
        f"restarted again. Perhaps the image does not write this key into broker.conf (try PULSAR_PREFIX_{LAC_SETTING}), or "
        "another key or variable wins",
    )


def restoring(location: SettingLocation, reason: str) -> Condition:
    """The pool is being deleted."""
    return _false("Restoring", f"{location} is restored to its former value before the pool is deleted; {reason}")


def not_reverted(location: SettingLocation, config: ObservedConfig) -> str:
    """Return why the value from before was not restored."""
    return (
        f"{location} was changed by {config.others or 'somebody'} after {MANAGER_EXPLICIT_LAC} had set it: "
        "it is left as it is"
    )


def other_pool(location: SettingLocation, record: SettingRecord) -> str:
    """Return why a value that was set for another pool was not restored."""
    return f"{location} was set for another ReadOnlyBrokerPool, with uid {record.pool}: it is left as it is"


def partly_reverted(location: SettingLocation, brokers: Sequence[ObservedBroker], reason: str) -> str:
    """Return why some brokers still run with the other value."""
    names = listed(broker.pod for broker in brokers)
    return f"{location} is as it was before, but the deletion waits no longer for {names} to be restarted: {reason}"


def _false(reason: str, message: str) -> Condition:
    return Condition(TYPE, ConditionStatus.FALSE, reason, message)
