"""Configuration files of the servers: those of the distribution, with changed keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.demo.properties import edit_properties

from devstack.pulsar.spec import CLUSTER_NAME, HOST, LOOPBACK

if TYPE_CHECKING:
    from pathlib import Path

    from devstack.pulsar.spec import PulsarSpec, Site


def zookeeper_conf(home: Path, spec: PulsarSpec, data: Path, site: Site = LOOPBACK, index: int = 0) -> str:
    """Return the file of ZooKeeper: client port on its site, no admin server, no metrics port."""
    return edit_properties(
        (home / "conf" / "zookeeper.conf").read_text(),
        {
            **({"forceSync": "no"} if spec.quick else {}),
            "dataDir": str(data),
            "clientPort": str(spec.zookeeper_port + index),
            "clientPortAddress": site.host,
            "admin.enableServer": "false",
            "metricsProvider.className": "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider",
            **_ensemble(spec),
            **{setting.key: setting.value for setting in spec.settings if setting.role == "zookeeper"},
        },
    )


def _ensemble(spec: PulsarSpec) -> dict[str, str]:
    """Return the keys by which several ZooKeepers know each other; none for a single one."""
    if spec.zookeepers == 1:
        return {}
    ports = [spec.zookeeper_ports(index) for index in range(spec.zookeepers)]
    return {f"server.{number}": f"{HOST}:{peers}:{election}" for number, (peers, election) in enumerate(ports, 1)}


def _metrics(site: Site, port: int) -> dict[str, str]:
    """Return the keys by which a bookie shows metrics: by Vert.x, as BookKeeper's other server does not run on Jetty 12 (4.2)."""
    return {
        "prometheusStatsHttpEnable": "false",
        "httpServerEnabled": "true",
        "httpServerClass": "org.apache.bookkeeper.http.vertx.VertxHttpServer",
        "httpServerHost": site.host,
        "httpServerPort": str(port),
    }


def bookie_conf(home: Path, spec: PulsarSpec, index: int, data: Path, site: Site = LOOPBACK, store: str = HOST) -> str:
    """Return the file of a bookie: its site, folders and ports, and small caches.

    Auto-recovery is off, because tests stop bookies and expect that ledgers stay on their bookies. Also, bookies that start it
    concurrently on a new ZooKeeper race for /ledgers/underreplication/LAYOUT. `--set bookie.autoRecoveryDaemonEnabled=true` turns
    it on.
    """
    changes = {
        "bookiePort": str(spec.bookie_port(index)),
        "advertisedAddress": site.host,
        "allowLoopback": "true",
        "listeningInterface": site.interface,
        "journalDirectories": str(data / "journal"),
        "ledgerDirectories": str(data / "ledgers"),
        "metadataServiceUri": f"metadata-store:{spec.bookkeeper_metadata_store_url(store)}",
        "zkServers": "",
        **_metrics(site, spec.bookie_metrics_port(index)),
        "autoRecoveryDaemonEnabled": "false",
        "dbStorage_writeCacheMaxSizeMb": "64",
        "dbStorage_readAheadCacheMaxSizeMb": "64",
        "dbStorage_rocksDB_blockCacheSize": str(16 << 20),
        # A bookie becomes read-only on a nearly full disk; these values suit a disk that other programs use, too.
        "logSizeLimit": str(128 << 20),
        "journalMaxSizeMB": "256",
        "journalMaxBackups": "1",
        "journalSyncData": str(not spec.quick).lower(),
        "diskUsageThreshold": "0.98",
        "diskUsageWarnThreshold": "0.97",
    }
    changes |= {setting.key: setting.value for setting in spec.settings if setting.role == "bookie"}
    return edit_properties((home / "conf" / "bookkeeper.conf").read_text(), changes)


def broker_conf(home: Path, spec: PulsarSpec, index: int, site: Site = LOOPBACK, store: str = HOST) -> str:
    """Return the file of a broker: its site, quick ledger rolls, no deletion of idle topics, explicit LAC of the spec."""
    metadata = spec.metadata_store_url(store)
    changes = {
        "metadataStoreUrl": metadata,
        "configurationMetadataStoreUrl": metadata,
        **(
            {"bookkeeperMetadataServiceUri": f"metadata-store:{spec.bookkeeper_metadata_store_url(store)}"}
            if spec.apart
            else {}
        ),
        "clusterName": CLUSTER_NAME,
        "bindAddress": site.host,
        "advertisedAddress": site.host,
        "brokerServicePort": str(spec.broker_port(index)),
        "webServicePort": str(spec.broker_http_port(index)),
        "managedLedgerDefaultEnsembleSize": str(spec.quorum),
        "managedLedgerDefaultWriteQuorum": str(spec.quorum),
        "managedLedgerDefaultAckQuorum": str(spec.quorum),
        "managedLedgerMinLedgerRolloverTimeMinutes": "0",
        "bookkeeperExplicitLacIntervalInMills": str(spec.explicit_lac_ms),
        "allowAutoTopicCreation": "true",
        "brokerDeleteInactiveTopicsEnabled": "false",
        "functionsWorkerEnabled": "false",
        "transactionCoordinatorEnabled": "true" if spec.transactions else "false",
        "brokerShutdownTimeoutMs": "10000",
        # The stock value of 10 ms costs an idle broker a fifth of its CPU.
        **({"managedLedgerCacheEvictionIntervalMs": "100"} if spec.quick else {}),
    }
    changes |= {setting.key: setting.value for setting in spec.settings if setting.role == "broker"}
    changes |= {setting.key: setting.value for setting in spec.settings if setting.role == f"broker-{index}"}
    return edit_properties((home / "conf" / "broker.conf").read_text(), changes)
