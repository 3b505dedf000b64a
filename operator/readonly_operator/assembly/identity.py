"""Identity of a pool for its brokers: its own uid, or that of a deleted pool of the same name whose objects it adopts."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from readonly_operator.api.pool import Pool, recorded_uid
from readonly_operator.kube.kinds import CONFIG_MAP, STATEFUL_SET
from readonly_operator.kube.names import ANNOTATION_POOL_UID, PoolKey
from readonly_operator.kube.ownership import is_orphan_of, owner_uid, was_applied

if TYPE_CHECKING:
    from readonly_operator.assembly.context import Context
    from readonly_operator.kube.kinds import Kind, Manifest


def membership_uid(context: Context, body: Manifest) -> str:
    """Return the uid by which brokers know a pool: the recorded one, or that of its first reconcile.

    `kubectl delete --cascade=orphan` leaves brokers that run with the uid of the deleted pool. Brokers with another uid are not
    admitted beside them, and local cursors are stored under the uid. So the successor keeps it. Before the record exists, only
    the arguments of the brokers have it, and without a StatefulSet the ConfigMap.

    Args:
        context: dependencies.
        body: the pool.

    Raises:
        KubeError: the API server did not answer.
    """
    known = recorded_uid(body)
    if known:
        return known
    key = PoolKey(body["metadata"]["namespace"], body["metadata"]["name"])
    stateful_set = _made_for(context, body, STATEFUL_SET, key.name)
    found = "" if stateful_set is None else _argument(stateful_set)
    if not found:
        config = _made_for(context, body, CONFIG_MAP, key.config_map)
        found = "" if config is None else (config["metadata"].get("annotations") or {}).get(ANNOTATION_POOL_UID, "")
    return found or str(body["metadata"]["uid"])


def identified(context: Context, body: Manifest) -> Pool:
    """Parse a pool that may have no record of its identity, as one that is being deleted while the operator is upgraded.

    Raises:
        ApiSpecError: a field is invalid; the text names it.
        KubeError: the API server did not answer.
    """
    pool, uid = Pool.load(body), membership_uid(context, body)
    return replace(pool, former_uid="" if uid == pool.uid else uid)


def _made_for(context: Context, body: Manifest, kind: Kind, name: str) -> Manifest | None:
    """Return an object that the operator made for the pool, or for a deleted one of its name; None for none.

    The API server is asked for the proof of an object without an owner: the store has none.
    """
    metadata = body["metadata"]
    found = context.store.get(kind, metadata["namespace"], name)
    if found is None or owner_uid(found) == metadata["uid"]:
        return found
    if not is_orphan_of(found, metadata["name"]):
        return None
    found = context.kube.get(kind, metadata["namespace"], name)
    return found if found is not None and is_orphan_of(found, metadata["name"]) and was_applied(found) else None


def _argument(stateful_set: Manifest) -> str:
    """Return the uid in the arguments of the brokers; empty for none."""
    for container in stateful_set["spec"]["template"]["spec"].get("containers") or ():
        given = container.get("args") or []
        for name, value in itertools.pairwise(given):
            if name == "--pool-uid":
                return str(value)
    return ""
