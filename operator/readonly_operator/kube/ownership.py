"""Ownership of a pool's objects and pods, and the proof that an object without an owner was made by the operator. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from readonly_operator.kube.kinds import POOL, STATEFUL_SET
from readonly_operator.kube.names import ANNOTATION_APPLIED_HASH, GROUP, LABEL_POOL, OPERATOR, PoolKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_operator.kube.kinds import Manifest


def owner_uid(manifest: Manifest) -> str | None:
    """Return the uid of the object's controller, or None when it has none."""
    controller = _controller(manifest)
    return None if controller is None else str(controller["uid"])


def owning_pool(manifest: Manifest) -> str | None:
    """Return the name of the pool that controls the object, or None when no pool does."""
    controller = _controller(manifest)
    if controller is None or controller.get("kind") != POOL.kind or not _in_group(controller.get("apiVersion")):
        return None
    return str(controller["name"])


def broker_pool(pod: Manifest) -> str | None:
    """Return the name of the pool whose StatefulSet has the pod, or None for another pod, such as a copy with the same labels.

    The StatefulSet of a pool has the pool's name. A pod without a controller counts if it has the name of a broker: Kubernetes
    adopts such a pod.
    """
    metadata, controller = pod["metadata"], _controller(pod)
    name = (metadata.get("labels") or {}).get(LABEL_POOL)
    if not name:
        return None
    if controller is None:
        is_broker = PoolKey(metadata["namespace"], name).ordinal(metadata["name"]) is not None
    else:
        of_apps = str(controller.get("apiVersion")).startswith(f"{STATEFUL_SET.group}/")
        is_broker = of_apps and (controller.get("kind"), controller.get("name")) == (STATEFUL_SET.kind, name)
    return name if is_broker else None


def is_orphan_of(manifest: Manifest, pool: str) -> bool:
    """Return whether the object has the operator's marks of a pool of this name, and no controller.

    `kubectl delete --cascade=orphan` leaves such objects. Anybody can write the marks; see `was_applied` for the proof.
    """
    metadata = manifest["metadata"]
    marked = ANNOTATION_APPLIED_HASH in (metadata.get("annotations") or {})
    return marked and _controller(manifest) is None and (metadata.get("labels") or {}).get(LABEL_POOL) == pool


def was_applied(manifest: Manifest) -> bool:
    """Return whether the operator applied the object. The API server records the managers of the fields.

    Args:
        manifest: as the API server returns it, with managedFields.
    """
    managers = manifest["metadata"].get("managedFields") or ()
    return any(one.get("manager") == OPERATOR and one.get("operation") == "Apply" for one in managers)


def _in_group(api_version: object) -> bool:
    """Return whether an `apiVersion` is one of the project's group, in any version: a later release may have written it."""
    group, slash, version = str(api_version).partition("/")
    return (group, slash) == (GROUP, "/") and bool(version)


def _controller(manifest: Manifest) -> Mapping[str, Any] | None:
    references = manifest["metadata"].get("ownerReferences") or ()
    return next((one for one in references if one.get("controller")), None)
