"""Finalizer of pools whose deletion must restore or remove something at the source cluster; other pools have none."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from readonly_operator.api.pool import Pool
from readonly_operator.api.pool.explicit_lac import RESTORE
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.cluster import registration
from readonly_operator.cluster.explicit_lac import conditions as explicit_lac
from readonly_operator.cluster.explicit_lac.requests import SettingRequest
from readonly_operator.kube.api_server import KubeError
from readonly_operator.kube.kinds import POOL
from readonly_operator.kube.names import FINALIZER_WRITER, MANAGER_EXPLICIT_LAC
from readonly_operator.kube.status import Condition, ConditionStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from readonly_operator.assembly.context import Context
    from readonly_operator.kube.kinds import Manifest

logger = logging.getLogger(__name__)

FORBIDDEN = 403
RETRY_SECONDS = 10.0
"""How soon a refused change of the finalizer is tried again."""


def sync_finalizer(context: Context, pool: Pool, body: Manifest) -> dict[str, Condition]:
    """Add the finalizer to a pool whose deletion has to wait, and remove it from any other pool.

    Returns:
        Conditions by type that report missing rights; empty on success.

    Raises:
        KubeError: the API server refused for another reason.
    """
    wanted = needs_finalizer(pool)
    present = FINALIZER_WRITER in (body["metadata"].get("finalizers") or ())
    if wanted == present:
        return {}
    try:
        _set(context, body, present=wanted)
    except KubeError as error:
        if error.status != FORBIDDEN:
            raise
        types = [explicit_lac.TYPE] if _restores(pool) or not wanted else []
        types += [registration.TYPE] if pool.lookup.cluster_name else []
        return {one.type: one for one in (_forbidden(name, pool.key.namespace) for name in types)}
    return {}


def needs_finalizer(pool: Pool) -> bool:
    """Return whether the pool's deletion must restore or remove something at the source cluster."""
    return bool(pool.lookup.cluster_name) or _restores(pool)


def registration_condition(context: Context, pool: Pool, finalizer_errors: Mapping[str, Condition]) -> list[Condition]:
    """Return the condition ClusterRegistered; none when the pool asks for no registration.

    Args:
        context: dependencies.
        pool: the pool.
        finalizer_errors: the result of `sync_finalizer`.
    """
    if not pool.lookup.cluster_name:
        return []
    if registration.TYPE in finalizer_errors:
        return [finalizer_errors[registration.TYPE]]
    waiting = Condition(
        registration.TYPE, ConditionStatus.UNKNOWN, "NotChecked", "the source cluster has not been asked yet"
    )
    return [context.registrations.report(pool.key).condition or waiting]


def release(context: Context, body: Manifest, report: Callable[[Condition], object]) -> None:
    """Remove the finalizer of a pool that is being deleted once nothing is left to restore; else report the pending work.

    Raises:
        KubeError: the API server refused.
    """
    if FINALIZER_WRITER not in (body["metadata"].get("finalizers") or ()):
        return
    waiting = _pending(context, body)
    if waiting is not None:
        report(waiting)
        return
    try:
        _set(context, body, present=False)
    except KubeError as error:
        if error.status == FORBIDDEN:
            report(_forbidden(explicit_lac.TYPE, body["metadata"]["namespace"]))
        raise


def _pending(context: Context, body: Manifest) -> Condition | None:
    try:
        pool = Pool.load(body)
    except ApiSpecError:
        return None
    if pool.lookup.cluster_name and not (entry := context.registrations.report(pool.key)).released:
        return entry.condition or Condition(
            registration.TYPE, ConditionStatus.FALSE, "Removing", "the cluster's entry is being removed"
        )
    if SettingRequest.of(pool, body) is None:
        return None
    report = context.lac.report(pool.key)
    if report.released:
        return None
    return report.condition or Condition(
        explicit_lac.TYPE, ConditionStatus.FALSE, "Restoring", "the owner brokers' former setting is being restored"
    )


def _restores(pool: Pool) -> bool:
    return pool.explicit_lac.manages and pool.explicit_lac.on_deletion == RESTORE


def _forbidden(condition: str, namespace: str) -> Condition:
    return Condition(
        condition,
        ConditionStatus.FALSE,
        "Forbidden",
        "something is to be put back when the pool is deleted (spec.explicitLac.onDeletion: Restore, "
        "spec.lookup.clusterName), and for that it has a finalizer, which the operator may neither set nor take away: "
        f"grant its service account verb patch on readonlybrokerpools.pulsar-readonly.io in namespace {namespace}, "
        "as manifests/explicit-lac does",
    )


def _set(context: Context, body: Manifest, *, present: bool) -> None:
    metadata = body["metadata"]
    finalizers = [one for one in metadata.get("finalizers") or () if one != FINALIZER_WRITER]
    if present:
        finalizers.append(FINALIZER_WRITER)
    # conditional on the version, because the whole list is written
    patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": finalizers}}
    after = context.kube.merge(MANAGER_EXPLICIT_LAC, POOL, metadata["namespace"], metadata["name"], patch)
    if after is None or ("deletionTimestamp" in after["metadata"] and not after["metadata"].get("finalizers")):
        context.store.remove(POOL, body)  # the watch may start after the deletion and miss it
    else:
        context.store.put(POOL, after)
