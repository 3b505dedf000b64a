"""Source cluster of a pool, and whether two pools have the same one. Pure.

An address alone does not tell: the same short name is another Service in each namespace, and a server has several names. So
brokers report the id of the BookKeeper cluster (INSTANCEID in its metadata, which BookKeeper makes once, at random). A Pulsar
cluster stores its topics in one BookKeeper cluster: with two ids there are two clusters. With one id it is one cluster, unless
the bookies have a metadata store of their own, which several Pulsar clusters may share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from readonly_operator.api.metadata_store import StoreUrl
from readonly_operator.api.pool.source_ref import bookkeeper_store_of, metadata_store_of

if TYPE_CHECKING:
    from readonly_operator.kube.kinds import Manifest

STATUS_FIELD = "bookkeeperInstance"
"""Field of a pool's status with the id."""


@dataclass(frozen=True, slots=True)
class SourceCluster:
    """A source cluster as a pool names it.

    Attributes:
        store: its metadata store, with full names.
        instance: id of its BookKeeper cluster; empty while no broker has reported it.
        own_bookies: whether its bookies have no other metadata store.
    """

    store: StoreUrl
    instance: str = ""
    own_bookies: bool = True

    @classmethod
    def of(cls, body: Manifest, domain: str) -> SourceCluster | None:
        """Return the source cluster of a pool; None while it has none.

        Args:
            body: the pool.
            domain: DNS domain of the Kubernetes cluster.
        """
        url = metadata_store_of(body)
        if not isinstance(url, str):
            return None
        store = StoreUrl.parse(url).seen_from(body["metadata"]["namespace"], domain)
        instance = (body.get("status") or {}).get(STATUS_FIELD) or ""
        return cls(store, instance, bookkeeper_store_of(body) is None)

    def is_same(self, other: SourceCluster) -> bool:
        """Return whether both are one cluster, as far as it is known."""
        if self.instance and other.instance:
            if self.instance != other.instance:
                return False
            if self.own_bookies and other.own_bookies:
                return True
        return self.store.shares_with(other.store)
