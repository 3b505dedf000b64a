"""Making one object what it should be, by server-side apply."""

from __future__ import annotations

import copy
import enum
import logging
from typing import TYPE_CHECKING, Any

from readonly_operator.kube.api_server import HTTP_CONFLICT, KubeError
from readonly_operator.kube.digest import digest
from readonly_operator.kube.kinds import Kind, Manifest, kind_of
from readonly_operator.kube.names import ANNOTATION_APPLIED_HASH, OPERATOR

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_operator.kube.api_server import Kube
    from readonly_operator.kube.store import Store

logger = logging.getLogger(__name__)

ATOMIC = frozenset({"selector"})
"""Fields that Kubernetes replaces as a whole: one more label in a selector is another selector."""


class Result(enum.Enum):
    """What applying an object did."""

    NOOP = "noop"
    CREATED = "created"
    PATCHED = "patched"
    DELETED = "deleted"


class NameConflictError(Exception):
    """An object that the pool needs has a name that is taken by an object which is not the pool's."""


class Applier:
    """Applies the objects of pools.

    Args:
        kube: the API server.
        store: what is known of it; applied objects are noted there.
    """

    def __init__(self, kube: Kube, store: Store) -> None:
        self._kube = kube
        self._store = store
        self._tolerated: set[str] = set()

    def apply(self, desired: Manifest) -> Result:
        """Make the object what it should be; fields that the operator does not name are left alone.

        In lists that it names, such as ports, containers and environments, there is nothing but what it names.

        No request is made when the object that is known has all that is desired, and was applied from the same manifest. Where it
        lacks something, it is applied without being read first, by its uid: had somebody put another in its place, that one
        would be refused.

        Raises:
            NameConflictError: the name is taken by an object that has another owner.
            KubeError: the API server refused.
        """
        kind, metadata = kind_of(desired), desired["metadata"]
        marked = copy.deepcopy(desired)
        marked["metadata"].setdefault("annotations", {})[ANNOTATION_APPLIED_HASH] = digest(desired)
        known = self._store.get(kind, metadata["namespace"], metadata["name"])
        ours = known is not None and _owner(known) == _owner(desired)
        if known is not None and ours and covers(known, marked):
            return Result.NOOP
        before, after = known if ours else None, None
        if before is not None:
            after = self._apply_to(before, marked)
        if after is None:
            before, after = self._read_and_apply(kind, marked, desired)
        if not covers(after, marked):
            after = self._trim(kind, after, desired)
        self._store.put(kind, after)
        if before is None:
            return Result.CREATED
        return Result.NOOP if _version(before) == _version(after) else Result.PATCHED

    def _apply_to(self, known: Manifest, marked: Manifest) -> Manifest | None:
        """Apply to this very object; None where it is not there any more."""
        marked = {**marked, "metadata": {**marked["metadata"], "uid": known["metadata"]["uid"]}}
        try:
            return self._kube.apply(marked)
        except KubeError as error:
            if error.status == HTTP_CONFLICT:
                return None
            raise

    def _read_and_apply(self, kind: Kind, marked: Manifest, desired: Manifest) -> tuple[Manifest | None, Manifest]:
        """Apply to whatever has the name; that, as it was, and as it is now."""
        metadata = desired["metadata"]
        before = self._kube.get(kind, metadata["namespace"], metadata["name"])
        if before is not None and _owner(before) != _owner(desired):
            raise NameConflictError(
                f"{kind.kind} {metadata['name']} exists and does not belong to this pool: "
                "rename or delete it, or give the pool another name"
            )
        return before, self._kube.apply(marked)

    def _trim(self, kind: Kind, live: Manifest, desired: Manifest) -> Manifest:
        """Take out of lists what others have put there: server-side apply leaves it, for it is theirs.

        Where somebody puts it back at once, as admission webhooks do, it is left: nobody wins such a fight.
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
                "%s %s/%s: somebody adds to it whenever it is written; that is left",
                kind.kind,
                metadata["namespace"],
                metadata["name"],
            )
        return after

    def prune(
        self, known: Iterable[Manifest], desired: Iterable[Manifest], owner: str
    ) -> list[tuple[Manifest, Result]]:
        """Delete those of the known objects that this owner (a uid) has and that are no longer desired."""
        wanted = {(kind_of(manifest), manifest["metadata"]["name"]) for manifest in desired}
        done = []
        for manifest in known:
            kind, metadata = kind_of(manifest), manifest["metadata"]
            if (
                _owner(manifest) == owner
                and (kind, metadata["name"]) not in wanted
                and "deletionTimestamp" not in metadata
            ):
                self._kube.delete(manifest)
                done.append((manifest, Result.DELETED))
        return done


def covers(live: Any, desired: Any) -> bool:
    """Whether a live JSON value has everything that is desired, whatever else it has (defaults, other managers' fields)."""
    if isinstance(desired, dict):
        return isinstance(live, dict) and all(
            key in live and (live[key] == value if key in ATOMIC else covers(live[key], value))
            for key, value in desired.items()
        )
    if isinstance(desired, list):
        return (
            isinstance(live, list)
            and len(live) == len(desired)
            and all(covers(one, other) for one, other in zip(live, desired, strict=True))
        )
    return bool(live == desired)


def trimmed(live: Any, desired: Any) -> Any:
    """A live JSON value without the items that others have put into lists which are desired; what is not desired at all stays."""
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


def _owner(manifest: Manifest) -> str | None:
    for reference in manifest["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return str(reference["uid"])
    return None


def _version(manifest: Manifest) -> str:
    return str(manifest["metadata"]["resourceVersion"])
