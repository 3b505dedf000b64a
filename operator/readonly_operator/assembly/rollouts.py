"""Budget of rollouts: how many pools may replace their brokers at the same time.

A newer operator changes the pods of all pools at once. The others wait. A StatefulSet that waits has a partition, so a new
process of the operator continues from what it observes.

A pool that was well, took a new image, and has no ready broker of it after STUCK_SECONDS, speaks against that image: no other
pool takes it then. Any other stuck rollout is a mistake of its pool, and stops nobody for longer.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from readonly_operator.kube.apply import covers
from readonly_operator.kube.kinds import POD, STATEFUL_SET, Manifest
from readonly_operator.kube.names import ANNOTATION_TEMPLATE_HASH, PoolKey
from readonly_operator.kube.pods import is_ready
from readonly_operator.model.hold import is_held

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_operator.api.pool import Pool
    from readonly_operator.kube.store import Store

STUCK_SECONDS = 600.0
"""A rollout with no progress for this time plus minReadySeconds is stuck."""
GRANT_SECONDS = 30.0
"""How long a permission counts before the StatefulSet shows the rollout."""


@dataclass(frozen=True, slots=True)
class _Progress:
    """Progress of a rollout.

    Attributes:
        signature: changes with every step.
        since: when it changed last, by the clock.
    """

    signature: tuple[Any, ...]
    since: float


class RolloutBudget:
    """Permit rollouts of pools. Thread-safe.

    Args:
        store: the known objects.
        limit: the most pools at the same time.
        clock: seconds, monotonic.
        is_lost: returns whether a namespace cannot be read at present. Nothing is known of rollouts there: none waits for them.
    """

    def __init__(
        self,
        store: Store,
        limit: int,
        clock: Callable[[], float] = time.monotonic,
        is_lost: Callable[[str], object] = lambda _: False,
    ) -> None:
        self._store = store
        self._limit = limit
        self._clock = clock
        self._is_lost = is_lost
        self._lock = threading.Lock()
        self._granted: dict[PoolKey, float] = {}
        self._progress: dict[PoolKey, _Progress] = {}
        self._excused: set[PoolKey] = set()
        """Pools whose rollout says nothing about an image: they had it before, or were not well."""
        self._failed: dict[PoolKey, str] = {}

    def waits_for(self, pool: Pool, desired: Manifest) -> list[PoolKey]:
        """Return the pools whose rollouts a pool waits for; none when it may replace its brokers, or need not.

        Args:
            pool: the pool.
            desired: its desired StatefulSet.
        """
        live = self._store.get(STATEFUL_SET, pool.key.namespace, pool.key.name)
        with self._lock:
            if live is None or pool.held or pool.update_strategy.type == "OnDelete":
                self._granted.pop(pool.key, None)
                return []
            if not (_is_changed(live, desired) or _is_pending(live, pool.replaced)):
                if _is_observed(live):
                    self._granted.pop(pool.key, None)
                return []
            rolling = self._rolling()
            others = sorted(rolling - {pool.key})
            goes_on = pool.key in rolling or _is_rolling(live)  # a stuck one is not stopped half-way
            if not goes_on:
                image = _image(desired["spec"]["template"])
                failed = sorted(key for key, one in self._failed.items() if one == image)
                has_image = self._has(pool.key, image)
                if failed and not has_image:
                    return failed
                if len(others) >= self._limit:
                    return others
                ready = (live.get("status") or {}).get("readyReplicas", 0)
                if has_image or ready < live["spec"].get("replicas", 1):
                    self._excused.add(pool.key)
            self._granted.setdefault(pool.key, self._clock())
            return []

    def failed(self, key: PoolKey) -> str:
        """Return the image that brokers of a pool do not get ready with, by the last `waits_for`; empty for none."""
        return self._failed.get(key, "")

    def _rolling(self) -> set[PoolKey]:
        """Return the pools that roll, or may start to."""
        now, found, progress, failed = self._clock(), set(), {}, {}
        for body in self._store.pools():
            key = PoolKey(body["metadata"]["namespace"], body["metadata"]["name"])
            live = self._store.get(STATEFUL_SET, key.namespace, key.name)
            if self._is_lost(key.namespace):
                continue
            if live is not None and _is_rolling(live):
                signature = _signature(live)
                last = self._progress.get(key)
                progress[key] = last if last and last.signature == signature else _Progress(signature, now)
                pause = live["spec"].get("minReadySeconds") or 0  # Kubernetes waits so long after each broker
                image = _image(live["spec"]["template"])
                if now - progress[key].since < STUCK_SECONDS + pause:
                    found.add(key)
                elif key not in self._excused and not self._has(key, image, is_ready):
                    failed[key] = image
            elif now - self._granted.get(key, -GRANT_SECONDS) < GRANT_SECONDS:
                found.add(key)
        self._progress, self._failed = progress, failed
        self._granted = {key: at for key, at in self._granted.items() if key in found}
        self._excused &= progress.keys() | found
        return found

    def _has(self, key: PoolKey, image: str, counts: Callable[[Manifest], bool] = lambda _: True) -> bool:
        """Return whether a broker of a pool has an image, of those that count."""
        return any(_image(pod) == image and counts(pod) for pod in self._store.of_pool(POD, key))


def is_outdated(live: Manifest, desired: Manifest) -> bool:
    """Return whether brokers run another pod template than the desired one, or will after it is applied."""
    return _is_changed(live, desired) or is_pending(live)


def is_replaced(live: Manifest, desired: Manifest) -> bool:
    """Return whether all brokers run the desired pod template, by a status of after its last change."""
    return _is_observed(live) and not is_outdated(live, desired)


def is_pending(live: Manifest) -> bool:
    """Return whether some pods run another pod template than the newest."""
    return _is_pending(live, live["spec"].get("replicas", 1))


def _is_changed(live: Manifest, desired: Manifest) -> bool:
    """Return whether applying the desired StatefulSet changes the pod template."""
    known = (live["metadata"].get("annotations") or {}).get(ANNOTATION_TEMPLATE_HASH)
    if known is None:  # of an operator that did not write it
        return not covers(live["spec"]["template"], desired["spec"]["template"])
    return bool(known != desired["metadata"]["annotations"][ANNOTATION_TEMPLATE_HASH])


def _is_pending(live: Manifest, replaced: int) -> bool:
    """Return whether fewer pods than these run the newest template.

    Of a StatefulSet that is held, a status of before the last change counts as yes. It is about the template before: taken for
    the newest, it would release the brokers at the next reconcile.
    """
    if is_held(live) and not _is_observed(live):
        return True
    status = live.get("status") or {}
    current, update = status.get("currentRevision"), status.get("updateRevision")
    return (
        bool(update)
        and current != update
        and status.get("updatedReplicas", 0) < min(replaced, status.get("replicas", 0))
    )


def _is_rolling(live: Manifest) -> bool:
    """Return whether Kubernetes replaces pods now, until the last one is ready."""
    strategy = live["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete" or is_held(live):
        return False
    replicas = live["spec"].get("replicas", 1)
    partition = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
    status = live.get("status") or {}
    if partition == 0 and status.get("updateRevision") and status.get("currentRevision") != status["updateRevision"]:
        return bool(status.get("replicas", 0))  # the last pod may not be ready yet
    return _is_pending(live, max(replicas - partition, 0))


def _image(pod: Manifest) -> str:
    """Return the image of a pod, or of a pod template; empty for none."""
    containers = pod["spec"].get("containers") or [{}]
    return str(containers[0].get("image") or "")


def _is_observed(live: Manifest) -> bool:
    return bool((live.get("status") or {}).get("observedGeneration", 0) >= live["metadata"].get("generation", 0))


def _signature(live: Manifest) -> tuple[Any, ...]:
    status = live.get("status") or {}
    return tuple(status.get(name) for name in ("updateRevision", "updatedReplicas", "readyReplicas", "replicas"))
