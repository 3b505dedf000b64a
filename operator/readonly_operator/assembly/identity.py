"""Identity of a pool for its brokers: its own uid, or that of a deleted pool of the same name whose objects it adopts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from readonly_operator.kube.kinds import CONFIG_MAP
from readonly_operator.kube.names import ANNOTATION_POOL_UID
from readonly_operator.kube.ownership import is_orphan_of, owner_uid

if TYPE_CHECKING:
    from readonly_operator.api.pool import Pool
    from readonly_operator.kube.store import Store


def identified(store: Store, pool: Pool) -> Pool:
    """Return the pool with the uid by which its brokers know it.

    `kubectl delete --cascade=orphan` leaves brokers that run with the uid of the deleted pool. Brokers with another uid are not
    admitted beside them, and local cursors are stored under the uid. So the successor keeps it.

    Args:
        store: the known objects.
        pool: the pool, with its own uid.
    """
    config = store.get(CONFIG_MAP, pool.key.namespace, pool.key.config_map)
    if config is None or not (owner_uid(config) == pool.uid or is_orphan_of(config, pool.key.name)):
        return pool
    uid = (config["metadata"].get("annotations") or {}).get(ANNOTATION_POOL_UID) or pool.uid
    return pool if uid == pool.uid else replace(pool, former_uid=uid)
