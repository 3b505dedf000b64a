"""Release of local cursors when a pool or a binding with onDeletion: Release is deleted.

Brokers set the guards of bound topics again, so they must have dropped a deleted binding, or have ended with their pool, first.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from readonly_operator.api.binding import Binding
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.bindings.coverage import Coverage, Uncovered
from readonly_operator.cluster.local_cursors.controller import GIVE_UP_SECONDS, ReleaseReport
from readonly_operator.cluster.local_cursors.policies import TYPE
from readonly_operator.cluster.local_cursors.release import ReleaseRequest
from readonly_operator.kube.events import NORMAL, WARNING, Notice
from readonly_operator.kube.kinds import POD, STATEFUL_SET
from readonly_operator.kube.names import FINALIZER_WRITER
from readonly_operator.kube.status import Condition, ConditionStatus, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from readonly_operator.api.pool import Pool
    from readonly_operator.assembly.broker_report import BrokerReport
    from readonly_operator.assembly.context import Context
    from readonly_operator.bindings.pool_bindings import PoolBindings
    from readonly_operator.kube.kinds import Manifest
    from readonly_operator.kube.names import PoolKey

NOT_BEGUN = ReleaseReport()


def waiting(text: str) -> Condition:
    """Return the condition of an object whose deletion waits for the release."""
    return Condition(TYPE, ConditionStatus.FALSE, "Releasing", f"local cursors are being removed: {text}")


def result(report: ReleaseReport) -> Notice:
    """Return the event about the end of a release."""
    if report.complete:
        return Notice(NORMAL, "Released", report.text)
    return Notice(
        WARNING,
        "NotReleased",
        f"local cursors stay at the source cluster: {report.text}; docs/how-to/bindings.md has the commands to remove them",
    )


def is_leaving(body: Manifest) -> bool:
    """Return whether the deletion of an object waits for the operator's finalizer."""
    metadata = body["metadata"]
    return "deletionTimestamp" in metadata and FINALIZER_WRITER in (metadata.get("finalizers") or ())


def pool_release(context: Context, pool: Pool, body: Manifest, bindings: PoolBindings) -> Condition | Notice | None:
    """Delete the brokers of a pool that is being deleted, then have its local cursors removed.

    Returns:
        The condition while the deletion has to wait, then the event about the result; None when nothing is to be removed.

    Raises:
        KubeError: the API server refused.
    """
    key = pool.key
    if not pool.releases or not is_leaving(body) or _is_orphaned(context, pool, body):
        context.cursor_releases.track(key, {})
        return None
    stateful_set = context.store.get(STATEFUL_SET, key.namespace, key.name)
    if stateful_set is not None and "deletionTimestamp" not in stateful_set["metadata"]:
        context.kube.delete(stateful_set)
    pods = [pod["metadata"]["name"] for pod in context.store.of_pool(POD, key)]
    if pods and _age(context, body) < GIVE_UP_SECONDS + pool.pod_template.termination_grace_period_seconds:
        return waiting(f"brokers are about to end: {listed(pods)}")
    known = Coverage.of(binding for binding, _ in bindings.readable).namespaces
    request = ReleaseRequest(f"pool {key}", pool.source, pool.identity, None, known)
    context.cursor_releases.track(key, {(key, pool.uid): request})
    report = context.cursor_releases.report(key).get(pool.uid, NOT_BEGUN)
    return result(report) if report.released else waiting(report.text)


def release_bindings(
    context: Context,
    pool: Pool,
    bindings: PoolBindings,
    brokers: Sequence[BrokerReport],
    finish: Callable[[Manifest, Notice | None], object],
    report: Callable[[Manifest, Condition], object],
) -> bool:
    """Have the guards of deleted bindings removed, once no broker of the pool holds the binding.

    Args:
        context: dependencies.
        pool: the pool.
        bindings: its bindings.
        brokers: reports of its brokers.
        finish: called with an object whose deletion need not wait any more, and an event about it.
        report: called with an object whose deletion has to wait, and the condition.

    Returns:
        Whether a deletion waits.
    """
    requests: dict[tuple[PoolKey, str], ReleaseRequest] = {}
    ready: list[Manifest] = []
    waits = False
    others = [binding for binding, _ in bindings.readable]
    for body in filter(is_leaving, bindings.leaving):
        binding = _loaded(body)
        if binding is None or not binding.releases:
            finish(body, None)
            continue
        if binding.full_name in bindings.denials:
            # it could name topics that the pool serves for others
            finish(body, abandoned(body, bindings.denials[binding.full_name]))
            continue
        waits = True
        holders = _holders(brokers, binding.full_name, timely=_age(context, body) < GIVE_UP_SECONDS)
        if holders:
            report(body, waiting(f"brokers hold the binding, or do not answer: {listed(holders)}"))
            continue
        topics = Uncovered.of(binding, others, (broken for _, broken in bindings.broken))
        label = f"binding {binding.full_name}"
        requests[pool.key, body["metadata"]["uid"]] = ReleaseRequest(label, pool.source, pool.identity, topics)
        ready.append(body)
    context.cursor_releases.track(pool.key, requests)
    reports = context.cursor_releases.report(pool.key)
    for body in ready:
        made = reports.get(body["metadata"]["uid"], NOT_BEGUN)
        if made.released:
            finish(body, result(made))
        else:
            report(body, waiting(made.text))
    return waits


def abandoned(body: Manifest, reason: str) -> Notice | None:
    """Return the event about a deleted binding whose guards are not removed for a reason; None if it asks for no removal."""
    return result(ReleaseReport(released=True, text=reason)) if releases(body) else None


def releases(body: Manifest) -> bool:
    """Return whether a deleted binding asks for the removal of its guards; False for an invalid spec."""
    binding = _loaded(body)
    return binding is not None and binding.releases


def _holders(brokers: Iterable[BrokerReport], binding: str, *, timely: bool) -> list[str]:
    """Return the brokers that hold a binding. A silent broker may hold it, but is waited for a limited time only."""
    return [broker.name for broker in brokers if broker.has_loaded(binding) or (not broker.reachable and timely)]


def _is_orphaned(context: Context, pool: Pool, body: Manifest) -> bool:
    """Return whether the brokers stay without the pool (kubectl delete --cascade=orphan), and with them their cursors."""
    if "orphan" in (body["metadata"].get("finalizers") or ()):
        return True
    stateful_set = context.store.get(STATEFUL_SET, pool.key.namespace, pool.key.name)
    owners = () if stateful_set is None else stateful_set["metadata"].get("ownerReferences") or ()
    return stateful_set is not None and not any(owner.get("uid") == pool.uid for owner in owners)


def _loaded(body: Manifest) -> Binding | None:
    try:
        return Binding.load(body)
    except ApiSpecError:
        return None


def _age(context: Context, body: Manifest) -> float:
    """Return the seconds since the deletion was requested."""
    return (context.now() - dt.datetime.fromisoformat(body["metadata"]["deletionTimestamp"])).total_seconds()
