"""The metadata store of a URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.metadata.errors import MetadataError
from readonly_engine.metadata.url import MetadataUrl, StoreKind
from readonly_engine.metadata.zookeeper import ZooKeeperStore

if TYPE_CHECKING:
    from readonly_engine.metadata.store import MetadataStore


def store_at(url: MetadataUrl) -> MetadataStore:
    """Return the metadata store of a URL, which `start` connects.

    Raises:
        MetadataError: stores of this kind are not served.
    """
    if url.kind is StoreKind.OXIA:
        raise MetadataError("Oxia is not served yet")
    return ZooKeeperStore(f"{url.hosts}{url.root}")
