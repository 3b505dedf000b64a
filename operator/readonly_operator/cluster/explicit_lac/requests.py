"""What pools want of writable brokers, and what those that share brokers agree on."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from readonly_operator.api.pool.explicit_lac import RESTORE, SUGGESTED_MS
from readonly_operator.kube.names import FINALIZER_WRITER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from readonly_operator.api.pool import Pool, Source
    from readonly_operator.cluster.explicit_lac.observed import WorkloadSeen
    from readonly_operator.kube.kinds import Manifest
    from readonly_operator.kube.names import PoolKey


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """The objects that one setting lives in.

    Attributes:
        namespace: of both.
        stateful_set: what runs the brokers.
        config_map: where the setting stands.
        key: of the value in it.
    """

    namespace: str
    stateful_set: str
    config_map: str
    key: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.config_map}/{self.key}"

    @property
    def workload(self) -> tuple[str, str]:
        """Namespace and name of the StatefulSet."""
        return self.namespace, self.stateful_set


@dataclass(frozen=True, slots=True)
class Wish:
    """What one pool wants.

    Attributes:
        pool: its namespace and name.
        uid: of the pool.
        created: when the pool was made, as the API server writes it; older pools go first.
        source: the writable cluster.
        place: what may be changed.
        interval_ms: the longest interval that it accepts.
        restore: whether deletion puts back what was there before.
        held: whether the pool has the finalizer, without which a deletion would not wait.
        deleted_at: when its deletion was asked for; None when it was not.
        noted_ms: the interval that was last set for this pool at this place, since it wants that; None for none.
    """

    pool: PoolKey
    uid: str
    created: str
    source: Source
    place: Place
    interval_ms: int
    restore: bool
    held: bool
    deleted_at: dt.datetime | None
    noted_ms: int | None

    @classmethod
    def of(cls, pool: Pool, body: Manifest, made: Manifest | None = None) -> Wish | None:
        """What a pool wants; None for nothing, or for a deleted one that nothing waits for.

        Args:
            pool: the pool.
            body: its object, whose status has what was set for it.
            made: what was set for it, which its status may not have yet; None for nothing.
        """
        lac, metadata = pool.explicit_lac, body["metadata"]
        if not lac.manages or lac.target is None:
            return None
        held = FINALIZER_WRITER in (metadata.get("finalizers") or ())
        deleted = metadata.get("deletionTimestamp")
        restore = lac.on_deletion == RESTORE
        if deleted and not (held and restore):
            return None
        target = lac.target
        place = Place(
            target.namespace or pool.key.namespace,
            target.stateful_set.name,
            target.config_map.name,
            target.config_map.key,
        )
        noted = made or (body.get("status") or {}).get("explicitLac") or {}
        return cls(
            pool=pool.key,
            uid=pool.uid,
            created=metadata.get("creationTimestamp") or "",
            source=pool.source,
            place=place,
            interval_ms=lac.interval_ms or SUGGESTED_MS,
            restore=restore,
            held=held,
            deleted_at=dt.datetime.fromisoformat(deleted) if deleted else None,
            noted_ms=noted.get("intervalMs") if noted.get("target") == str(place) else None,
        )

    def allowed_by(self, workload: WorkloadSeen) -> bool:
        """Whether the pool may manage these brokers: of its own namespace, or by their owner's annotation."""
        return self.pool.namespace == self.place.namespace or workload.allows(self.pool.namespace)


@dataclass(frozen=True, slots=True)
class Agreement:
    """What the pools that name one place want together.

    Attributes:
        place: the objects.
        active: pools that want the setting, the oldest first, those last that may not have it.
        leaving: pools that are being deleted and want back what was there before.
    """

    place: Place
    active: tuple[Wish, ...]
    leaving: tuple[Wish, ...]

    @property
    def source(self) -> Source:
        """The writable cluster, as the first pool names it."""
        return self.first.source

    @property
    def first(self) -> Wish:
        """The pool that the others follow."""
        return (*self.active, *self.leaving)[0]


def agree(
    wishes: Iterable[Wish], workloads: Mapping[tuple[str, str], WorkloadSeen]
) -> tuple[list[Agreement], dict[PoolKey, str]]:
    """What the pools agree on, for each StatefulSet.

    Pools that name one StatefulSet with different keys cannot all have their way: the oldest one's place counts, and none's that
    may not manage it while another may.

    Args:
        wishes: of all pools.
        workloads: the StatefulSets that are known so far, by namespace and name.

    Returns:
        The agreements, and for each pool that has to give way the reason.
    """

    def allowed(wish: Wish) -> bool:
        workload = workloads.get(wish.place.workload)
        return workload is None or wish.allowed_by(workload)

    places: dict[tuple[str, str], list[Wish]] = {}
    for wish in sorted(wishes, key=lambda wish: (not allowed(wish), wish.created, wish.uid)):
        places.setdefault(wish.place.workload, []).append(wish)
    agreements: list[Agreement] = []
    conflicts: dict[PoolKey, str] = {}
    for group in places.values():
        eligible = list(filter(allowed, group)) or group
        first = next((wish for wish in eligible if wish.deleted_at is None), eligible[0])
        together = [wish for wish in group if wish.place == first.place]
        agreements.append(
            Agreement(
                first.place,
                tuple(wish for wish in together if wish.deleted_at is None),
                tuple(wish for wish in together if wish.deleted_at is not None),
            )
        )
        for wish in group:
            if wish.place != first.place:
                conflicts[wish.pool] = (
                    f"StatefulSet {first.place.stateful_set} in namespace {first.place.namespace} is managed by the older "
                    f"pool {first.pool} through key {first.place.key} of ConfigMap {first.place.config_map}: "
                    "name the same in spec.explicitLac.target"
                )
    return agreements, conflicts
