"""Server-side apply of desired objects."""

from __future__ import annotations

import copy
import enum
import logging
from typing import TYPE_CHECKING, Any

from readonly_operator.kube.api_server import HTTP_CONFLICT, KubeError
from readonly_operator.kube.digest import digest
from readonly_operator.kube.kinds import POOL, STATEFUL_SET, Kind, Manifest, kind_of
from readonly_operator.kube.names import ANNOTATION_APPLIED_HASH, LABEL_POOL, OPERATOR
from readonly_operator.kube.ownership import is_orphan_of, owner_uid, owning_pool, was_applied

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_operator.kube.api_server import Kube
    from readonly_operator.kube.store import Store

logger = logging.getLogger(__name__)

ATOMIC = frozenset({"selector"})
"""Fields that Kubernetes replaces as a whole: a selector with another label is another selector."""
MAX_INCOMPLETE = 4096
"""Objects whose dropped fields are remembered; beyond it all are forgotten, which costs each one request."""


MAPS = frozenset({"annotations", "data", "labels", "matchLabels", "nodeSelector"})
"""Fields with any keys: the API server stores their empty values."""


class Result(enum.Enum):
    """Result of applying one object."""

    NOOP = "noop"
    CREATED = "created"
    PATCHED = "patched"
    DELETED = "deleted"


class NameConflictError(Exception):
    """An object of another owner already has a name that the pool needs."""


class Applier:
    """Apply the objects of pools.

    Args:
        kube: the API server.
        store: the known objects; applied objects are put there.
    """

    def __init__(self, kube: Kube, store: Store) -> None:
        self._kube = kube
        self._store = store
        self._tolerated: set[str] = set()
        self._incomplete: dict[str, str] = {}

    def apply(self, desired: Manifest) -> Result:
        """Apply the desired object; fields that the operator does not set are left alone.

        Lists that the operator sets, such as ports, containers and environments, contain its items only.

        An object without a controller that the operator applied for a pool of the same name is adopted.

        An object that has everything desired, from the same manifest, costs no request. Neither does one that is as the API
        server left it when this manifest was applied: it drops fields of features that are off, and empty values. Any other known
        object is applied without being read first, if it still is as observed: Kubernetes may have taken its owner meanwhile.

        Raises:
            NameConflictError: an object of another owner has the name.
            KubeError: the API server refused.
        """
        kind, metadata = kind_of(desired), desired["metadata"]
        marked = copy.deepcopy(desired)
        marked["metadata"].setdefault("annotations", {})[ANNOTATION_APPLIED_HASH] = digest(desired)
        known = self._store.get(kind, metadata["namespace"], metadata["name"])
        ours = known is not None and owner_uid(known) == owner_uid(desired)
        if known is not None and ours and (covers(known, marked) or self._is_left(known, marked)):
            return Result.NOOP
        before, after = known if ours else None, None
        if before is not None:
            after = self._apply_to(before, marked)
        if after is None:
            before, after = self._read_and_apply(kind, marked, desired)
        if not covers(after, marked):
            after = self._trim(kind, after, desired)
        self._remember(after, marked)
        self._store.put(kind, after)
        if before is None:
            return Result.CREATED
        return Result.NOOP if _version(before) == _version(after) else Result.PATCHED

    def _apply_to(self, known: Manifest, marked: Manifest) -> Manifest | None:
        """Apply to the object as it is known; return None when it is gone or has changed."""
        try:
            observed = self._end_rolling_updates(known, marked)
            return self._kube.apply(_as_observed(marked, observed))
        except KubeError as error:
            if error.status == HTTP_CONFLICT:
                return None
            raise

    def _read_and_apply(self, kind: Kind, marked: Manifest, desired: Manifest) -> tuple[Manifest | None, Manifest]:
        """Read the object by name, then apply; return the object before and after."""
        metadata = desired["metadata"]
        before = self._kube.get(kind, metadata["namespace"], metadata["name"])
        if before is not None and owner_uid(before) != owner_uid(desired) and not _is_left_behind(before, desired):
            raise NameConflictError(
                f"{kind.kind} {metadata['name']} exists and does not belong to this pool: "
                "rename or delete it, or give the pool another name"
            )
        if before is None:
            return None, self._kube.apply(marked)
        if owner_uid(before) != owner_uid(desired):
            self._check_not_leaving(desired)
        observed = self._end_rolling_updates(before, marked)
        return before, self._kube.apply(_as_observed(marked, observed))

    def _check_not_leaving(self, desired: Manifest) -> None:
        """Ask whether the pool of an object is there: an orphan may be known before the deletion of its pool.

        Kubernetes would delete what belongs to a pool that is gone, and a new pool could not adopt it.

        Raises:
            KubeError: the pool is being deleted or is gone (409): the reconcile is tried again, when the event has come.
        """
        pool, namespace = str(owning_pool(desired)), desired["metadata"]["namespace"]
        live = (self._kube.get(POOL, namespace, pool) or {}).get("metadata") or {}
        if live.get("uid") != owner_uid(desired) or "deletionTimestamp" in live:
            raise KubeError(f"ReadOnlyBrokerPool {pool} is being deleted", HTTP_CONFLICT)

    def _end_rolling_updates(self, live: Manifest, desired: Manifest) -> Manifest:
        """Remove the settings of rolling updates from a StatefulSet that is about to be of type OnDelete; return it.

        The API server has filled in some of them. No field manager owns these, so applying the type alone leaves them, and is
        refused ("only allowed for updateStrategy 'RollingUpdate'").

        Raises:
            KubeError: the API server refused, or the StatefulSet has changed meanwhile (409).
        """
        kind, metadata = kind_of(live), live["metadata"]
        if kind != STATEFUL_SET or "rollingUpdate" not in (live["spec"].get("updateStrategy") or {}):
            return live
        strategy = desired["spec"]["updateStrategy"]
        if strategy["type"] == "RollingUpdate":
            return live
        # labels and owner, too: an orphan becomes the pool's by this request, and only the pool's objects may be changed
        own = {key: desired["metadata"][key] for key in ("labels", "ownerReferences") if key in desired["metadata"]}
        patch = {
            "metadata": {**own, "resourceVersion": metadata["resourceVersion"]},
            "spec": {"updateStrategy": {**strategy, "rollingUpdate": None}},
        }
        return self._kube.merge(OPERATOR, kind, metadata["namespace"], metadata["name"], patch) or live

    def _remember(self, live: Manifest, marked: Manifest) -> None:
        """Remember what the API server made of a manifest if it dropped a part; forget it otherwise."""
        uid = live["metadata"]["uid"]
        if covers(live, marked):
            self._incomplete.pop(uid, None)
            return
        if len(self._incomplete) >= MAX_INCOMPLETE:
            self._incomplete.clear()
        self._incomplete[uid] = _outcome(live, marked)

    def _is_left(self, live: Manifest, marked: Manifest) -> bool:
        """Return whether an object is as the API server left it when this manifest was applied."""
        return self._incomplete.get(live["metadata"]["uid"]) == _outcome(live, marked)

    def _trim(self, kind: Kind, live: Manifest, desired: Manifest) -> Manifest:
        """Remove list items of other managers, which server-side apply keeps.

        An admission webhook may add them again at once. Its items are then left in place.
        """
        metadata = live["metadata"]
        spec = trimmed(live.get("spec"), desired.get("spec"))
        if spec == live.get("spec") or metadata["uid"] in self._tolerated:
            return live
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "spec": spec}
        after = self._kube.merge(OPERATOR, kind, metadata["namespace"], metadata["name"], patch)
        if after is None:
            return live
        if trimmed(after.get("spec"), desired.get("spec")) != after.get("spec"):
            self._tolerated.add(metadata["uid"])
            logger.warning(
                "another manager adds list items on every write, leaving them: kind=%s object=%s/%s",
                kind.kind,
                metadata["namespace"],
                metadata["name"],
            )
        return after

    def shrink(self, live: Manifest, replicas: int) -> None:
        """Lower the replicas of an existing StatefulSet, and change nothing else of it.

        Raises:
            KubeError: the API server refused, or the StatefulSet has changed meanwhile.
        """
        metadata = live["metadata"]
        if live["spec"].get("replicas", 1) <= replicas:
            return
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "spec": {"replicas": replicas}}
        after = self._kube.merge(OPERATOR, kind_of(live), metadata["namespace"], metadata["name"], patch)
        if after is not None:
            self._store.put(kind_of(live), after)

    def prune(
        self, known: Iterable[Manifest], desired: Iterable[Manifest], owner: str
    ) -> list[tuple[Manifest, Result]]:
        """Delete the known objects of this owner (a uid) that are no longer desired."""
        wanted = {(kind_of(manifest), manifest["metadata"]["name"]) for manifest in desired}
        done = []
        for manifest in known:
            kind, metadata = kind_of(manifest), manifest["metadata"]
            if (
                owner_uid(manifest) == owner
                and (kind, metadata["name"]) not in wanted
                and "deletionTimestamp" not in metadata
            ):
                self._kube.delete(manifest)
                done.append((manifest, Result.DELETED))
        return done


def covers(live: Any, desired: Any, field: str = "") -> bool:
    """Return whether a live JSON value contains the desired one, whatever else it has (defaults, other managers' fields).

    Args:
        live: a part of the live object.
        desired: the same part of the desired one.
        field: the field that has this value.
    """
    if isinstance(desired, dict):
        return isinstance(live, dict) and all(
            (live[key] == value if key in ATOMIC else covers(live[key], value, key))
            if key in live
            else field not in MAPS and _is_dropped(key, value)
            for key, value in desired.items()
        )
    if isinstance(desired, list):
        return (
            isinstance(live, list)
            and len(live) == len(desired)
            and all(covers(one, other) for one, other in zip(live, desired, strict=True))
        )
    return bool(live == desired)


def _is_dropped(key: str, value: Any) -> bool:
    """Return whether the API server stores no field with this value in an object of its own kinds (Go's omitempty).

    Other fields with false or {} are pointers, which it stores: absent, they have another meaning.
    """
    return value in ("", []) or (key == "readOnly" and value is False) or (key == "matchLabels" and value == {})


def trimmed(live: Any, desired: Any) -> Any:
    """Return a live JSON value without additional items in desired lists; values that are not desired stay."""
    if isinstance(live, dict) and isinstance(desired, dict):
        return {key: trimmed(value, desired[key]) if key in desired else value for key, value in live.items()}
    if not isinstance(live, list) or not isinstance(desired, list):
        return live
    kept = []
    for wanted in desired:
        found = next((one for one in live if covers(trimmed(one, wanted), wanted)), None)
        if found is None:
            return live
        kept.append(trimmed(found, wanted))
    return kept


def _as_observed(marked: Manifest, observed: Manifest) -> Manifest:
    """Return the manifest for the object of this uid and version only."""
    precondition = {key: observed["metadata"][key] for key in ("uid", "resourceVersion")}
    return {**marked, "metadata": {**marked["metadata"], **precondition}}


def _is_left_behind(live: Manifest, desired: Manifest) -> bool:
    """Return whether the operator applied the object for a pool of the same name, which no longer exists."""
    pool = (desired["metadata"].get("labels") or {}).get(LABEL_POOL)
    return pool is not None and is_orphan_of(live, pool) and was_applied(live)


def _outcome(live: Manifest, marked: Manifest) -> str:
    """Return a hash of a manifest and of the object, without what Kubernetes changes by itself."""
    metadata = {key: live["metadata"].get(key) for key in ("annotations", "labels", "ownerReferences")}
    rest = {key: value for key, value in live.items() if key not in {"metadata", "status"}}
    return digest([marked, metadata, rest])


def _version(manifest: Manifest) -> str:
    return str(manifest["metadata"]["resourceVersion"])
