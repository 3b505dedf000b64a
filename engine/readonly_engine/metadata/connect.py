"""The metadata store of a URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.metadata.url import StoreKind
from readonly_engine.metadata.zookeeper import ZooKeeperStore

if TYPE_CHECKING:
    from readonly_engine.metadata.store import MetadataStore
    from readonly_engine.metadata.url import MetadataUrl


def store_at(url: MetadataUrl) -> MetadataStore:
    """Return the metadata store of a URL, which `start` connects."""
    if url.kind is StoreKind.OXIA:
        from readonly_engine.metadata.oxia.store import OxiaStore  # noqa: PLC0415 - loads gRPC, which ZooKeeper does without

        return OxiaStore(url.hosts, url.root)
    return ZooKeeperStore(f"{url.hosts}{url.root}")
