"""ReadOnlyBrokerPool as a typed value."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from readonly_operator.api.pool.explicit_lac import ExplicitLac
from readonly_operator.api.pool.sleeping import Phase
from readonly_operator.api.pool.source import Source
from readonly_operator.api.pool.source_ref import source_in_use
from readonly_operator.api.pool.spec import PoolSpec
from readonly_operator.api.schema import declared_values
from readonly_operator.kube.names import ANNOTATION_RESTARTED_AT, PoolKey

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ExplicitLac", "Pool", "PoolSpec", "Source", "recorded_uid"]

SPEC_CACHE_SIZE = 4096
"""Parsed specs that are cached: more than one operator's pools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool(PoolSpec):
    """A pool with its parsed spec.

    Attributes:
        source: the source cluster in use, from the spec or from the status.
        key: namespace and name.
        uid: of the object, for owner references.
        generation: of the spec.
        former_uid: uid of a deleted pool whose brokers this one adopted, from the status; empty for none.
        phase: phase of a pool that may sleep, as the operator decides it.
        restarted_at: value of the annotation that restarts brokers; empty for none. It is not checked.
    """

    source: Source
    key: PoolKey
    uid: str
    generation: int
    former_uid: str = ""
    restarted_at: str = ""
    phase: Phase = Phase.AWAKE

    @property
    def membership_uid(self) -> str:
        """Return the uid by which brokers know the pool: adopted brokers keep theirs, so that none must restart."""
        return self.former_uid or self.uid

    @property
    def identity(self) -> str:
        """Return the pool's identity for the brokers: name and uid, as in PoolMembership of the engine."""
        return f"{self.key.membership_name}@{self.membership_uid}"

    @property
    def running(self) -> int:
        """Return how many brokers shall run now: none while the pool is asleep."""
        return self.replicas if self.phase.has_brokers else 0

    @property
    def replaced(self) -> int:
        """Return how many brokers must run the newest pod template without a person's action."""
        strategy = self.update_strategy
        return 0 if strategy.type == "OnDelete" or strategy.hold else max(self.running - strategy.partition, 0)

    @property
    def held(self) -> bool:
        """Return whether the spec keeps the brokers from being replaced."""
        return self.update_strategy.hold and self.update_strategy.type != "OnDelete"

    @classmethod
    def load(cls, body: Mapping[str, Any]) -> Pool:
        """Parse the object of a pool.

        Raises:
            ApiSpecError: a field is invalid; the text names it.
        """
        metadata = body["metadata"]
        values = dict(_values(json.dumps(body.get("spec") or {})))
        values["source"] = source_in_use(body, values.get("source")).seen_from(metadata["namespace"])
        pool = cls(
            key=PoolKey(metadata["namespace"], metadata["name"]),
            uid=metadata["uid"],
            generation=metadata.get("generation", 0),
            former_uid="" if recorded_uid(body) == metadata["uid"] else recorded_uid(body),
            restarted_at=(metadata.get("annotations") or {}).get(ANNOTATION_RESTARTED_AT, ""),
            **values,
        )
        if pool.scale_to_zero is not None:
            # 0 is that of an autoscaler: nobody would set another number, because a pool without brokers has no metric
            pool = replace(pool, replicas=max(pool.replicas, 1))
        scaling = pool.autoscaling
        if scaling is None or pool.replicas == 0:
            return pool
        # the number that the autoscaler will set
        return replace(pool, replicas=min(max(pool.replicas, scaling.min_replicas), scaling.max_replicas))


def recorded_uid(body: Mapping[str, Any]) -> str:
    """Return the uid by which brokers know a pool, from its status; empty before its first reconcile."""
    found = (body.get("status") or {}).get("membershipUid")
    return found if isinstance(found, str) else ""


@lru_cache(maxsize=SPEC_CACHE_SIZE)
def _values(spec: str) -> dict[str, Any]:
    """Parse the fields of a spec (JSON). Parsing takes milliseconds, and few specs have changed since the last call."""
    return declared_values(PoolSpec, json.loads(spec), "spec")
