"""The metadata stores of a cluster, by their URLs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.metadata.cluster import ClusterMetadata
from readonly_engine.metadata.errors import AccessDeniedError, MetadataError, MetadataUnavailableError
from readonly_engine.metadata.migratable import MigratableStore
from readonly_engine.metadata.security import OPEN_STORE
from readonly_engine.metadata.url import StoreKind
from readonly_engine.metadata.zookeeper import ZooKeeperStore
from readonly_engine.net.tls import ClientTls

BOOKIES_STORE: Final = "the bookies' store"
"""Begin of the text of an error of the bookies' store, where that is another one."""

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from readonly_engine.metadata.security import StoreSecurity
    from readonly_engine.metadata.store import WatchedStore
    from readonly_engine.metadata.url import MetadataUrl
    from readonly_engine.net.durations import Durations


def _zookeeper(url: MetadataUrl, security: StoreSecurity) -> WatchedStore:
    # The target of a migration is reached without TLS, as by the owner brokers (DualMetadataStore.initializeTargetStore).
    return MigratableStore(ZooKeeperStore(f"{url.hosts}{url.root}", security), store_at)


def _check_zookeeper(security: StoreSecurity) -> None:
    security.login()
    if security.tls is not None:
        ClientTls(security.tls)


def _oxia(url: MetadataUrl, security: StoreSecurity) -> WatchedStore:
    from readonly_engine.metadata.oxia.store import OxiaStore  # noqa: PLC0415 - loads gRPC, which ZooKeeper does without

    return OxiaStore(url.hosts, url.root, security)


def _check_oxia(security: StoreSecurity) -> None:
    from readonly_engine.metadata.oxia.credentials import channel_credentials  # noqa: PLC0415 - loads gRPC

    channel_credentials(security)


class Connector(NamedTuple):
    """How a kind of metadata store is connected.

    Attributes:
        make: returns the store of a URL.
        check: checks the files of TLS and login.
    """

    make: Callable[[MetadataUrl, StoreSecurity], WatchedStore]
    check: Callable[[StoreSecurity], None]


CONNECTORS: Final[Mapping[StoreKind, Connector]] = {
    StoreKind.ZOOKEEPER: Connector(_zookeeper, _check_zookeeper),
    StoreKind.OXIA: Connector(_oxia, _check_oxia),
}


def store_at(url: MetadataUrl, security: StoreSecurity = OPEN_STORE) -> WatchedStore:
    """Return the metadata store of a URL, which `start` connects.

    Args:
        url: the store.
        security: TLS of the connections, and login at the store.

    Raises:
        TlsError: a file of TLS cannot be used.
        LoginError: the file of the login cannot be used, or the store has no logins.
    """
    return CONNECTORS[url.kind].make(url, security)


def check_security(url: MetadataUrl, security: StoreSecurity) -> None:
    """Check the files of TLS and login for a store. Nothing is connected.

    Raises:
        TlsError: a file of TLS cannot be used.
        LoginError: the file of the login cannot be used, or the store has no logins.
    """
    CONNECTORS[url.kind].check(security)


class ClusterStores:
    """The metadata stores of a cluster: that of its brokers, and that of its bookies, which may be the same.

    Args:
        url: the brokers' metadataStoreUrl.
        bookkeeper_url: the bookies' metadataServiceUri; None for the same store.
        security: TLS and login of the connections to both.

    Raises:
        TlsError: a file of TLS cannot be used.
        LoginError: the file of the login cannot be used.

    Attributes:
        main: the brokers' store.
        bookkeeper: the bookies' store.
        cluster: topics, ledgers and bookies in them.
    """

    def __init__(
        self, url: MetadataUrl, bookkeeper_url: MetadataUrl | None = None, security: StoreSecurity = OPEN_STORE
    ) -> None:
        self.main = self.bookkeeper = store_at(url, security)
        if bookkeeper_url is not None and bookkeeper_url != url:
            self.bookkeeper = store_at(bookkeeper_url, security)
        self.cluster = ClusterMetadata(self.main, bookkeeper=self.bookkeeper)

    @property
    def connected(self) -> bool:
        """Return whether both stores answer now."""
        return self.main.connected and self.bookkeeper.connected

    @property
    def denied(self) -> int:
        """Return the number of requests and connections that the stores refused."""
        return self.main.denied + (0 if self.bookkeeper is self.main else self.bookkeeper.denied)

    @property
    def durations(self) -> Durations:
        """Return how many requests the stores have answered, and how long that took."""
        if self.bookkeeper is self.main:
            return self.main.durations
        return self.main.durations + self.bookkeeper.durations

    async def start(self) -> None:
        """Connect. After an error, and after a cancellation, no session is left.

        Raises:
            AccessDeniedError: a store refuses this client, or the client does not trust the store.
            MetadataError: a store cannot be used.
            MetadataUnavailableError: a store does not answer; the text says if it is that of the bookies.
        """
        await self.main.start()
        if self.bookkeeper is self.main:
            return
        try:
            await self.bookkeeper.start()
        except BaseException as error:
            await self.main.close()
            for kind in (AccessDeniedError, MetadataUnavailableError, MetadataError):
                if isinstance(error, kind):
                    raise kind(f"{BOOKIES_STORE}: {error}") from error
            raise

    async def close(self) -> None:
        """End the sessions."""
        if self.bookkeeper is not self.main:
            await self.bookkeeper.close()
        await self.main.close()
