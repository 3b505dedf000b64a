"""The metadata stores of a cluster, by their URLs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.metadata.cluster import ClusterMetadata
from readonly_engine.metadata.errors import MetadataUnavailableError
from readonly_engine.metadata.migratable import MigratableStore
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
    return MigratableStore(ZooKeeperStore(f"{url.hosts}{url.root}"), store_at)


class ClusterStores:
    """The metadata stores of a cluster: that of its brokers, and that of its bookies, which may be the same.

    Args:
        url: the brokers' metadataStoreUrl.
        bookkeeper_url: the bookies' metadataServiceUri; None for the same store.

    Attributes:
        main: the brokers' store.
        bookkeeper: the bookies' store.
        cluster: topics, ledgers and bookies in them.
    """

    def __init__(self, url: MetadataUrl, bookkeeper_url: MetadataUrl | None = None) -> None:
        self.main = store_at(url)
        self.bookkeeper = self.main if bookkeeper_url is None or bookkeeper_url == url else store_at(bookkeeper_url)
        self.cluster = ClusterMetadata(self.main, bookkeeper=self.bookkeeper)

    @property
    def connected(self) -> bool:
        """Return whether both stores answer now."""
        return self.main.connected and self.bookkeeper.connected

    async def start(self) -> None:
        """Connect.

        Raises:
            MetadataError: a store cannot be used.
            MetadataUnavailableError: a store does not answer; the text says if it is that of the bookies.
        """
        await self.main.start()
        if self.bookkeeper is self.main:
            return
        try:
            await self.bookkeeper.start()
        except MetadataUnavailableError as error:
            await self.main.close()
            raise MetadataUnavailableError(f"the bookies' store: {error}") from error

    async def close(self) -> None:
        """End the sessions."""
        if self.bookkeeper is not self.main:
            await self.bookkeeper.close()
        await self.main.close()
