"""Conditions of a pool about its own brokers: Ready and Progressing. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_operator.api.pool.sleeping import Phase
from readonly_operator.assembly.rollouts import is_pending
from readonly_operator.kube.pods import is_ready, termination_message, waiting_reason
from readonly_operator.kube.status import STALLED_REASONS, Condition, ConditionStatus, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from readonly_operator.api.pool import Pool
    from readonly_operator.assembly.lookup_state import LookupState
    from readonly_operator.kube.kinds import Manifest
    from readonly_operator.kube.names import PoolKey

MAX_QUOTE_LENGTH = 300
"""Longest quotation in a message, in characters."""
NAME_TAKEN = "another pool of this name"
"""Part of a broker's last line when the metadata store has brokers of a pool with the same name and another uid."""


def ready(
    pool: Pool, stateful_set: Manifest, pods: Sequence[Manifest], state: LookupState, *, waits: bool = False
) -> Condition:
    """Return Ready: True when all desired brokers serve with the desired pod template, else the reasons by broker.

    Args:
        pool: the desired state.
        stateful_set: the current one; empty for none.
        pods: pods that are not being deleted.
        state: reports of their brokers.
        waits: whether the rollout waits for other pools.
    """
    if pool.phase is Phase.ASLEEP and not pods:
        message = "the pool sleeps, and a client that looks a topic up wakes it (spec.scaleToZero)"
        return Condition("Ready", ConditionStatus.TRUE, "Asleep", message)
    if pool.replicas == 0 and not pods:
        return Condition("Ready", ConditionStatus.TRUE, "ScaledToZero", "spec.replicas is 0: no broker is wanted")
    serving = sum(map(is_ready, pods))
    head = f"{serving} of {pool.running} brokers ready"
    observed = stateful_set.get("status") or {}
    current = observed.get("observedGeneration", 0) >= (stateful_set.get("metadata") or {}).get("generation", 1)
    updated = observed.get("updatedReplicas", 0)
    same = observed.get("currentRevision") == observed.get("updateRevision")
    if serving == pool.running == len(pods) and current and (same or waits or updated >= pool.replaced):
        former = 0 if same else pool.running - updated
        why = "until they may be replaced (UpdateHeld)" if waits else "as spec.updateStrategy says"
        kept = f"; {former} run the former pod template, {why}" if former > 0 else ""
        return Condition("Ready", ConditionStatus.TRUE, "BrokersReady", f"{head}{kept}")
    if serving >= pool.running:
        return Condition("Ready", ConditionStatus.FALSE, "RollingOut", f"{head}; brokers are being replaced or removed")
    refusals = [f"{pod['metadata']['name']}: {termination_message(pod)}" for pod in pods if not is_ready(pod)]
    taken = [refusal for refusal in refusals if NAME_TAKEN in refusal]
    if taken:
        return Condition(
            "Ready",
            ConditionStatus.FALSE,
            "PoolNameTaken",
            f"{head}: a pool of the same namespace and name in another Kubernetes cluster has live brokers on this metadata "
            f"store; delete one of the two pools and create it under another name; {listed(taken, 1)}",
        )
    words = {report.name: report.unready for report in state.reports}
    reasons = []
    for pod in pods:
        if not is_ready(pod):
            name = pod["metadata"]["name"]
            reasons.append(f"{name}: {waiting_reason(pod) or words[name] or 'running, not ready yet'}")
    return Condition(
        "Ready", ConditionStatus.FALSE, "BrokersNotReady", f"{head}" + (f"; {listed(reasons)}" if reasons else "")
    )


def progressing(settled: bool, served: Condition, looked_up: Condition, limitations: Iterable[str]) -> Condition:
    """Return Progressing: whether the operator waits for something.

    Args:
        settled: whether it waits for nothing.
        served: the condition Ready.
        looked_up: the condition LookupConfigured, or UpdateHeld while a rollout waits.
        limitations: permanent shortcomings, in words.
    """
    but = "".join(f", but {one}" for one in limitations)
    if settled:
        return Condition("Progressing", ConditionStatus.FALSE, "Settled", f"everything is as the spec says{but}")
    if served.reason in STALLED_REASONS:
        return Condition("Progressing", ConditionStatus.FALSE, served.reason, f"{served.message}{but}")
    waiting = served if served.status is not ConditionStatus.TRUE else looked_up
    return Condition("Progressing", ConditionStatus.TRUE, waiting.reason, f"{waiting.message}{but}")


def update_held(
    pool: Pool, stateful_set: Manifest, waits_for: Sequence[PoolKey], limit: int, failed: str = ""
) -> Condition | None:
    """Return UpdateHeld while brokers keep their former pod template; None while they may be replaced.

    Args:
        pool: the desired state.
        stateful_set: the current one; empty for none.
        waits_for: pools whose rollouts this one waits for.
        limit: the most pools that may roll at the same time.
        failed: image with which brokers of those pools do not get ready; empty while they roll.
    """
    if failed:
        return Condition(
            "UpdateHeld",
            ConditionStatus.TRUE,
            "ImageFailed",
            f"brokers keep the former pod template: no broker gets ready with image {failed} in {listed(map(str, waits_for))}; "
            "set another image (--engine-image of the operator, or spec.image), or mend or delete these pools",
        )
    if waits_for:
        return Condition(
            "UpdateHeld",
            ConditionStatus.TRUE,
            "WaitsForPools",
            f"brokers keep the former pod template until other pools are done: {listed(map(str, waits_for))}; "
            f"PULSAR_READONLY_ROLLING_POOLS of the operator is {limit}",
        )
    if not pool.held:
        return None
    pending = bool(stateful_set) and is_pending(stateful_set)
    what = "a newer pod template waits" if pending else "no newer pod template waits"
    return Condition(
        "UpdateHeld",
        ConditionStatus.TRUE,
        "Held",
        f"no broker is replaced while spec.updateStrategy.hold is true; {what}",
    )


def annotation_refused(refusals: Iterable[str]) -> str:
    """Return the consequences of refused pod annotations, in words."""
    return "pods cannot be annotated, so brokers get changed bindings late and may not know their locality: " + listed(
        dict.fromkeys(refusals), 2
    )


def oversized(count: int) -> list[str]:
    """Return the consequence of bindings that do not fit into the ConfigMap, in words; none without any."""
    if count == 0:
        return []
    one = count == 1
    return [f"{count} binding{'' if one else 's'} {'does' if one else 'do'} not fit into the pool's ConfigMap"]


def not_scaling(autoscaler: Manifest) -> list[str]:
    """Return why the HorizontalPodAutoscaler cannot decide, in words; none while it can, or is inactive at 0 replicas.

    Args:
        autoscaler: the existing one; empty for none.
    """
    found = (autoscaler.get("status") or {}).get("conditions") or ()
    active: Mapping[str, str] = next((one for one in found if one.get("type") == "ScalingActive"), {})
    if active.get("status") != "False" or active.get("reason") == "ScalingDisabled":
        return []
    words = " ".join(str(active.get("message") or "it gives no reason").split())[:MAX_QUOTE_LENGTH]
    return [f"the HorizontalPodAutoscaler cannot decide: {active.get('reason')}: {words}"]


def not_parallel(pool: Pool, stateful_set: Manifest) -> list[str]:
    """Return that Kubernetes ignores spec.updateStrategy.maxUnavailable, in words; none where it does not.

    The API server drops the field while its feature gate is off.

    Args:
        pool: the desired state.
        stateful_set: the existing one, after it was applied; empty for none.
    """
    strategy = (stateful_set.get("spec") or {}).get("updateStrategy") or {}
    if pool.update_strategy.max_unavailable is None or not strategy:
        return []
    if "maxUnavailable" in (strategy.get("rollingUpdate") or {}):
        return []
    message = (
        "brokers are replaced one by one, because this Kubernetes cluster ignores spec.updateStrategy.maxUnavailable: its "
        "feature gate MaxUnavailableStatefulSet is off"
    )
    return [message]


def kind_not_served(kind: str) -> str:
    """Return the consequence of a kind that the Kubernetes cluster does not serve, in words."""
    return f"no {kind} is created, because the Kubernetes cluster does not serve that kind"
