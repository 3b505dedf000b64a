"""Finalizer of pools and bindings whose deletion must restore or remove something at the source cluster; others have none."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from readonly_operator.api.pool.explicit_lac import RESTORE
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.assembly import cursor_release
from readonly_operator.assembly.identity import identified
from readonly_operator.bindings.pool_bindings import full_name
from readonly_operator.cluster import registration
from readonly_operator.cluster.explicit_lac import conditions as explicit_lac
from readonly_operator.cluster.explicit_lac.requests import SettingRequest
from readonly_operator.cluster.local_cursors import policies as local_cursors
from readonly_operator.kube.api_server import HTTP_CONFLICT, KubeError
from readonly_operator.kube.kinds import BINDING, POOL
from readonly_operator.kube.names import FINALIZER_WRITER, MANAGER_EXPLICIT_LAC
from readonly_operator.kube.status import Condition, ConditionStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from readonly_operator.api.pool import Pool
    from readonly_operator.assembly.broker_report import BrokerReport
    from readonly_operator.assembly.context import Context
    from readonly_operator.bindings.pool_bindings import LoadedBinding, PoolBindings
    from readonly_operator.kube.events import Notice
    from readonly_operator.kube.kinds import Kind, Manifest

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
    if wanted == _is_present(body):
        return {}
    try:
        _set(context, POOL, body, present=wanted)
    except KubeError as error:
        if error.status != FORBIDDEN:
            raise
        types = [explicit_lac.TYPE] if _restores(pool) or not wanted else []
        types += [registration.TYPE] if pool.lookup.cluster_name else []
        types += [local_cursors.TYPE] if pool.releases else []
        return {one.type: one for one in (_forbidden(name, POOL, pool.key.namespace) for name in types)}
    return {}


def needs_finalizer(pool: Pool) -> bool:
    """Return whether the pool's deletion must restore or remove something at the source cluster."""
    return bool(pool.lookup.cluster_name) or _restores(pool) or pool.releases


def sync_binding_finalizers(context: Context, bindings: Sequence[LoadedBinding]) -> dict[str, Condition]:
    """Add the finalizer to bindings whose deletion releases local cursors, and remove it from the others.

    Returns:
        Conditions by the binding's name that report missing rights; empty on success.

    Raises:
        KubeError: the API server refused for another reason.
    """
    errors = {}
    patches = _BindingPatches(context)
    for binding, body in bindings:
        if binding.paused or binding.releases == _is_present(body):
            continue
        forbidden = patches.set(body, present=binding.releases)
        if forbidden is not None:
            errors[binding.full_name] = forbidden
    return errors


def release_bindings(
    context: Context,
    pool: Pool,
    bindings: PoolBindings,
    brokers: Sequence[BrokerReport],
    report: Callable[[Manifest, Condition], object],
) -> bool:
    """Remove the finalizer of deleted bindings once their local cursors are released; else report the pending work.

    Returns:
        Whether a deletion waits.

    Raises:
        KubeError: the API server refused.
    """
    finisher = _Finisher(context, report)
    waits = cursor_release.release_bindings(context, pool, bindings, brokers, finisher.finish, report)
    return waits or finisher.waits


def abandon_bindings(
    context: Context, bindings: PoolBindings, reason: str, report: Callable[[Manifest, Condition], object]
) -> None:
    """Remove the finalizer of deleted bindings without releasing local cursors.

    Args:
        context: dependencies.
        bindings: the bindings of the pool.
        reason: why, for an event; empty for no event.
        report: called with a binding whose finalizer the operator may not remove, and the condition.

    Raises:
        KubeError: the API server refused.
    """
    finisher = _Finisher(context, report)
    for body in filter(cursor_release.is_leaving, bindings.leaving):
        finisher.finish(body, cursor_release.abandoned(body, reason) if reason else None)


def hold_bindings(
    context: Context,
    bindings: PoolBindings,
    reason: Callable[[str], str],
    report: Callable[[Manifest, Condition], object],
) -> None:
    """Report why the deletion of bindings waits that release local cursors; remove the finalizer of other deleted bindings.

    Bindings that the pool does not allow wait for nothing.

    Args:
        context: dependencies.
        bindings: the bindings of the pool.
        reason: returns why, in words for users of a namespace.
        report: called with a binding whose deletion waits, and the condition.

    Raises:
        KubeError: the API server refused.
    """
    finisher = _Finisher(context, report)
    for body in filter(cursor_release.is_leaving, bindings.leaving):
        denial = bindings.denials.get(full_name(body))
        if denial:
            finisher.finish(body, cursor_release.abandoned(body, denial))
        elif cursor_release.releases(body):
            report(body, cursor_release.waiting(reason(body["metadata"]["namespace"])))
        else:
            finisher.finish(body, None)


class _BindingPatches:
    """Changes of the finalizer of bindings. A refusal concerns the bindings of one namespace alone, and is met there once.

    Anybody can write the finalizer into a binding that names a pool of somebody else. So it must cost the pool nothing.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._refused: set[str] = set()
        self.conflict = False

    def set(self, body: Manifest, *, present: bool) -> Condition | None:
        """Add or remove the finalizer; return a condition that reports the missing right, and None otherwise.

        Raises:
            KubeError: the API server refused for another reason.
        """
        namespace = body["metadata"]["namespace"]
        if namespace not in self._refused:
            try:
                _set(self._context, BINDING, body, present=present)
            except KubeError as error:
                if error.status == HTTP_CONFLICT:  # the event about the other change reconciles the binding again
                    self.conflict = True
                    return None
                if error.status != FORBIDDEN:
                    raise
                self._refused.add(namespace)
            else:
                return None
        return _forbidden(local_cursors.TYPE, BINDING, namespace)


class _Finisher:
    """End of the deletion of bindings.

    Args:
        context: dependencies.
        report: called with a binding whose finalizer the operator may not remove, and the condition.

    Attributes:
        waits: whether the deletion of one continues to wait.
    """

    def __init__(self, context: Context, report: Callable[[Manifest, Condition], object]) -> None:
        self._context = context
        self._report = report
        self._patches = _BindingPatches(context)
        self.waits = False

    def finish(self, body: Manifest, notice: Notice | None) -> None:
        """Remove the finalizer, and write the event about the result, if any."""
        self._patches.conflict = False
        forbidden = self._patches.set(body, present=False)
        if forbidden is not None:
            self._report(body, forbidden)
        if forbidden is not None or self._patches.conflict:
            self.waits = True
        elif notice is not None:
            self._context.events.record(BINDING, body, [notice])


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


def release(context: Context, body: Manifest, bindings: PoolBindings, report: Callable[[Condition], object]) -> bool:
    """Remove the finalizer of a pool that is being deleted once nothing is left to restore; else report the pending work.

    Returns:
        Whether the deletion waits.

    Raises:
        KubeError: the API server refused.
    """
    if not _is_present(body):
        return False
    found = _pending(context, body, bindings)
    if isinstance(found, Condition):
        report(found)
        return True
    try:
        _set(context, POOL, body, present=False)
    except KubeError as error:
        if error.status == FORBIDDEN:
            report(_forbidden(explicit_lac.TYPE, POOL, body["metadata"]["namespace"]))
        raise
    if found is not None:
        context.events.record(POOL, body, [found])
    return False


def _pending(context: Context, body: Manifest, bindings: PoolBindings) -> Condition | Notice | None:
    """Return the condition while the deletion has to wait, then an event about the result, if any."""
    try:
        pool = identified(context, body)
    except ApiSpecError:
        return None
    released = cursor_release.pool_release(context, pool, body, bindings)
    if isinstance(released, Condition):
        return released
    if pool.lookup.cluster_name and not (entry := context.registrations.report(pool.key)).released:
        return entry.condition or Condition(
            registration.TYPE, ConditionStatus.FALSE, "Removing", "the cluster's entry is being removed"
        )
    if SettingRequest.of(pool, body) is None:
        return released
    report = context.lac.report(pool.key)
    if report.released:
        return released
    return report.condition or Condition(
        explicit_lac.TYPE, ConditionStatus.FALSE, "Restoring", "the owner brokers' former setting is being restored"
    )


def _restores(pool: Pool) -> bool:
    return pool.explicit_lac.manages and pool.explicit_lac.on_deletion == RESTORE


def _is_present(body: Manifest) -> bool:
    return FINALIZER_WRITER in (body["metadata"].get("finalizers") or ())


def _forbidden(condition: str, kind: Kind, namespace: str) -> Condition:
    return Condition(
        condition,
        ConditionStatus.FALSE,
        "Forbidden",
        f"something is to be put back or removed when the {kind.kind} is deleted (spec.explicitLac.onDeletion: Restore, "
        "spec.lookup.clusterName, spec.onDeletion: Release), and for that it has a finalizer, which the operator may neither "
        f"set nor take away: grant its service account verb patch on {kind.plural}.{kind.group} in namespace {namespace}, "
        "as manifests/explicit-lac does",
    )


def _set(context: Context, kind: Kind, body: Manifest, *, present: bool) -> None:
    metadata = body["metadata"]
    finalizers = [one for one in metadata.get("finalizers") or () if one != FINALIZER_WRITER]
    if present:
        finalizers.append(FINALIZER_WRITER)
    # conditional on the version, because the whole list is written
    patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": finalizers}}
    after = context.kube.merge(MANAGER_EXPLICIT_LAC, kind, metadata["namespace"], metadata["name"], patch)
    if after is None or ("deletionTimestamp" in after["metadata"] and not after["metadata"].get("finalizers")):
        context.store.remove(kind, after or body)  # the watch may start after the deletion and miss it
    else:
        context.store.put(kind, after)
