"""Status of pools and bindings: conditions, and writes that happen only on a difference."""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from readonly_operator.kube.api_server import Kube
    from readonly_operator.kube.kinds import Kind, Manifest
    from readonly_operator.kube.store import Store

MESSAGE_LIMIT = 2000
"""Longest message: people read it in a terminal."""


class ConditionStatus(enum.Enum):
    """Status of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition.

    Attributes:
        type: Ready, Progressing, LookupConfigured, SourceReachable, ExplicitLac, ClusterRegistered, LocalCursors,
            SourceResolved, CertificateIssued, UpdateHeld, Asleep, TopicConflict, Accepted, Paused, Reconciling or Stalled.
        status: whether it holds.
        reason: one CamelCase word.
        message: the reason and the remedy, in a sentence.
    """

    type: str
    status: ConditionStatus
    reason: str
    message: str


STALLED_REASONS = frozenset(
    {
        *("Conflict", "InvalidSource", "InvalidSpec", "NameConflict", "NamespaceNotServed", "NotAllowedByPool"),
        *("OtherCluster", "PoolFailed", "PoolNameTaken", "Refused", "TooLarge"),
    }
)
"""Reasons of Ready that waiting does not end."""

NOT_PAUSED = Condition("Paused", ConditionStatus.FALSE, "NotPaused", "the operator keeps everything as the spec says")


def complete(conditions: Iterable[Condition]) -> list[Condition]:
    """Add the conditions that all reconciled objects have.

    Stalled and Reconciling are present only while they are True, and never both. By this convention kstatus tells a failure
    from slow progress. Reconciling repeats Progressing, whose name kstatus does not know: Ready stays True in a rollout that
    waits, and while one of several brokers has a new binding.
    """
    found = [*conditions, NOT_PAUSED]
    by_type = {one.type: one for one in found}
    ready, progressing = by_type.get("Ready"), by_type.get("Progressing")
    if ready is not None and ready.reason in STALLED_REASONS:
        found.append(Condition("Stalled", ConditionStatus.TRUE, ready.reason, ready.message))
    elif progressing is not None and progressing.status is ConditionStatus.TRUE:
        found.append(Condition("Reconciling", ConditionStatus.TRUE, progressing.reason, progressing.message))
    return found


def paused(current: Mapping[str, Any], message: str) -> list[Condition]:
    """Return the conditions of a paused object; one that was never reconciled has Ready Unknown."""
    found = [Condition("Paused", ConditionStatus.TRUE, "Paused", message)]
    if not any(one["type"] == "Ready" for one in current.get("conditions") or ()):
        found.insert(0, Condition("Ready", ConditionStatus.UNKNOWN, "Paused", message))
    return found


def listed(items: Iterable[str], limit: int = 5) -> str:
    """Join items for a message: the first few, and the number of the others."""
    texts = list(items)
    more = len(texts) - limit
    return "; ".join(texts[:limit]) + (f"; and {more} more" if more > 0 else "")


def render(
    current: Mapping[str, Any],
    generation: int,
    conditions: Iterable[Condition],
    values: Mapping[str, Any],
    now: dt.datetime,
) -> dict[str, Any]:
    """Return a status with these conditions. A condition keeps its transition time while its status stays the same.

    Args:
        current: the status so far.
        generation: the generation of the reconciled spec.
        conditions: all conditions.
        values: the other fields; a field with None is left out.
        now: with a time zone.
    """
    before = {one["type"]: one for one in current.get("conditions") or ()}
    stamp = now.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    rendered = []
    for condition in conditions:
        last = before.get(condition.type)
        same = last is not None and last["status"] == condition.status.value
        rendered.append(
            {
                "type": condition.type,
                "status": condition.status.value,
                "observedGeneration": generation,
                "lastTransitionTime": last["lastTransitionTime"] if last is not None and same else stamp,
                "reason": condition.reason,
                "message": condition.message[:MESSAGE_LIMIT],
            }
        )
    status = {"observedGeneration": generation, **values, "conditions": rendered}
    return {name: value for name, value in status.items() if value is not None}


def keep(
    current: Mapping[str, Any], generation: int, conditions: Iterable[Condition], now: dt.datetime
) -> dict[str, Any]:
    """Return the current status with some conditions replaced.

    The observed generation stays: a later generation was not reconciled. An object without a status gets this one; the API
    server's default (readonly_operator.api.status) is none.
    """
    added = render(current, generation, conditions, {}, now)
    fresh = {one["type"]: one for one in added["conditions"]}
    kept = [one for one in current.get("conditions") or () if one["type"] not in fresh]
    observed = max(current.get("observedGeneration", -1), -1)
    return {
        **current,
        "observedGeneration": generation if observed < 0 else observed,
        "conditions": [*kept, *fresh.values()],
    }


def write(kube: Kube, store: Store, kind: Kind, body: Manifest, status: Mapping[str, Any]) -> bool:
    """Write a status unless the object has it already.

    Returns:
        Whether it was written.

    Raises:
        KubeError: the API server refused.
    """
    if body.get("status") == status:
        return False
    metadata = body["metadata"]
    after = kube.apply_status(
        {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            # the uid makes the request fail, instead of creating an object, after a deletion
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
            "status": status,
        }
    )
    store.put(kind, after)
    return True
