"""Status of pools and bindings: conditions, and writing them only when they differ."""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from readonly_operator.kinds import Kind, Manifest
    from readonly_operator.kube import Kube
    from readonly_operator.store import Store

MESSAGE_LIMIT = 2000
"""Longest message: people read it in a terminal."""


class Truth(enum.Enum):
    """Value of a condition's status."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition.

    Attributes:
        type: Ready, Progressing, LookupConfigured, SourceReachable or ExplicitLac.
        status: whether it holds.
        reason: why, in one CamelCase word.
        message: why and what to do, in a sentence.
    """

    type: str
    status: Truth
    reason: str
    message: str


def listed(items: Iterable[str], limit: int = 5) -> str:
    """Items for a message: the first few, and how many more there are."""
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
    """The status that says this, where a condition keeps the time of its last change as long as its status stays.

    Args:
        current: the status so far.
        generation: of the spec that this is about.
        conditions: all conditions.
        values: the other fields; None for fields that are to be absent.
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
            # the uid makes it fail, instead of creating anything, when the object was deleted meanwhile
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
            "status": status,
        }
    )
    store.put(kind, after)
    return True
