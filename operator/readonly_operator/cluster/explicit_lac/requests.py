"""Requests of pools for the explicit LAC setting, and agreements of pools that share brokers."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from readonly_operator.api.pool.explicit_lac import RESTORE, SUGGESTED_MS
from readonly_operator.kube.names import FINALIZER_WRITER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from readonly_operator.api.pool import Pool, Source
    from readonly_operator.cluster.explicit_lac.observed import ObservedWorkload
    from readonly_operator.kube.kinds import Manifest
    from readonly_operator.kube.names import PoolKey


@dataclass(frozen=True, slots=True, order=True)
class SettingLocation:
    """Objects of one setting.

    Attributes:
        namespace: of both.
        stateful_set: runs the brokers.
        config_map: contains the setting.
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
        """Return namespace and name of the StatefulSet."""
        return self.namespace, self.stateful_set


@dataclass(frozen=True, slots=True)
class SettingRequest:
    """Request of one pool.

    Attributes:
        pool: its namespace and name.
        uid: of the pool.
        created: creation time of the pool, as the API server writes it; older pools take precedence.
        source: the source cluster.
        location: the objects to change.
        interval_ms: the longest accepted interval.
        restore: whether deletion restores the value from before.
        has_finalizer: whether the pool has the finalizer, without which its deletion would not wait.
        deleted_at: time of the pool's deletion request; None for none.
        applied_ms: the interval last set here for this pool's current request; None for none.
    """

    pool: PoolKey
    uid: str
    created: str
    source: Source
    location: SettingLocation
    interval_ms: int
    restore: bool
    has_finalizer: bool
    deleted_at: dt.datetime | None
    applied_ms: int | None

    @classmethod
    def of(cls, pool: Pool, body: Manifest, made: Manifest | None = None) -> SettingRequest | None:
        """Return the request of a pool; None for none, or for a pool being deleted that nothing waits for.

        Args:
            pool: the pool.
            body: its object, with the last applied setting in the status.
            made: the last applied setting, if newer than the status; None for none.
        """
        lac, metadata = pool.explicit_lac, body["metadata"]
        if not lac.manages or lac.target is None:
            return None
        has_finalizer = FINALIZER_WRITER in (metadata.get("finalizers") or ())
        deleted = metadata.get("deletionTimestamp")
        restore = lac.on_deletion == RESTORE
        if deleted and not (has_finalizer and restore):
            return None
        target = lac.target
        location = SettingLocation(
            target.namespace or pool.key.namespace,
            target.stateful_set.name,
            target.config_map.name,
            target.config_map.key,
        )
        applied = made or (body.get("status") or {}).get("explicitLac") or {}
        return cls(
            pool=pool.key,
            uid=pool.uid,
            created=metadata.get("creationTimestamp") or "",
            source=pool.source,
            location=location,
            interval_ms=lac.interval_ms or SUGGESTED_MS,
            restore=restore,
            has_finalizer=has_finalizer,
            deleted_at=dt.datetime.fromisoformat(deleted) if deleted else None,
            applied_ms=applied.get("intervalMs") if applied.get("target") == str(location) else None,
        )

    def allowed_by(self, workload: ObservedWorkload) -> bool:
        """Return whether the pool may manage these brokers: same namespace, or named by the StatefulSet's annotation."""
        return self.pool.namespace == self.location.namespace or workload.allows(self.pool.namespace)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Common request of the pools at one location.

    Attributes:
        location: the objects.
        active: requests of pools that want the setting, the oldest first, those without permission last.
        leaving: requests of pools that are being deleted and restore the value from before.
    """

    location: SettingLocation
    active: tuple[SettingRequest, ...]
    leaving: tuple[SettingRequest, ...]

    @property
    def source(self) -> Source:
        """Return the source cluster, as the first pool names it."""
        return self.first.source

    @property
    def first(self) -> SettingRequest:
        """Return the request that the others follow."""
        return (*self.active, *self.leaving)[0]


def agree(
    requests: Iterable[SettingRequest], workloads: Mapping[tuple[str, str], ObservedWorkload]
) -> tuple[list[Agreement], dict[PoolKey, str]]:
    """Return the agreement of the pools for each StatefulSet.

    Pools may name one StatefulSet with different keys. The oldest pool's location is used then, preferring pools with permission.

    Args:
        requests: of all pools.
        workloads: known StatefulSets, by namespace and name.

    Returns:
        The agreements, and the reason by pool for each overruled pool.
    """

    def allowed(request: SettingRequest) -> bool:
        workload = workloads.get(request.location.workload)
        return workload is None or request.allowed_by(workload)

    locations: dict[tuple[str, str], list[SettingRequest]] = {}
    for request in sorted(requests, key=lambda request: (not allowed(request), request.created, request.uid)):
        locations.setdefault(request.location.workload, []).append(request)
    agreements: list[Agreement] = []
    conflicts: dict[PoolKey, str] = {}
    for group in locations.values():
        eligible = list(filter(allowed, group)) or group
        first = next((request for request in eligible if request.deleted_at is None), eligible[0])
        pools_by_source = [request for request in group if request.location == first.location]
        agreements.append(
            Agreement(
                first.location,
                tuple(request for request in pools_by_source if request.deleted_at is None),
                tuple(request for request in pools_by_source if request.deleted_at is not None),
            )
        )
        for request in group:
            if request.location != first.location:
                conflicts[request.pool] = (
                    f"StatefulSet {first.location.stateful_set} in namespace {first.location.namespace} is managed by the older "
                    f"pool {first.pool} through key {first.location.key} of ConfigMap {first.location.config_map}: "
                    "name the same in spec.explicitLac.target"
                )
    return agreements, conflicts
