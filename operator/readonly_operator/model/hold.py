"""Objects of a pool whose brokers are not replaced now: everything is applied but what a broker reads when it starts. Pure.

The StatefulSet gets the new pod template with a partition above all ordinals. Kubernetes then starts every pod from the former
template, also after a crash or an eviction. The engine's configuration belongs to the template, so it stays too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_operator.kube.kinds import CONFIG_MAP, STATEFUL_SET, Manifest, kind_of
from readonly_operator.kube.names import CONFIG_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_operator.api.pool import Pool

HELD_PARTITION = 1000
"""Above all ordinals: a pool has 1000 brokers at most."""


def held(desired: Iterable[Manifest], pool: Pool, config: str | None) -> list[Manifest]:
    """Return the desired objects of a pool whose brokers keep their former pod template.

    Args:
        desired: the objects.
        pool: the pool, with rolling updates.
        config: the engine's configuration of the former pod template; None for that of the desired one.
    """
    found = []
    for manifest in desired:
        kind, name = kind_of(manifest), manifest["metadata"]["name"]
        if kind == STATEFUL_SET and name == pool.key.name:
            strategy = manifest["spec"]["updateStrategy"]
            rolling = {**strategy.get("rollingUpdate", {}), "partition": HELD_PARTITION}
            found.append(
                {**manifest, "spec": {**manifest["spec"], "updateStrategy": {**strategy, "rollingUpdate": rolling}}}
            )
        elif kind == CONFIG_MAP and name == pool.key.config_map and config is not None:
            found.append({**manifest, "data": {CONFIG_KEY: config}})
        else:
            found.append(manifest)
    return found


def is_held(stateful_set: Manifest) -> bool:
    """Return whether a StatefulSet keeps all its pods at the former template."""
    strategy = stateful_set["spec"].get("updateStrategy") or {}
    return int((strategy.get("rollingUpdate") or {}).get("partition") or 0) >= HELD_PARTITION
