"""The servers' configuration files, made from the distribution's own by changing keys in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devstack.pulsar.spec import CLUSTER_NAME, HOST, LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from devstack.pulsar.spec import PulsarSpec, Site


def edit_properties(text: str, changes: Mapping[str, str]) -> str:
    """Set keys of a Java properties file.

    The shipped files end without a newline, so that an appended line would glue to the last one; and of a key that is given
    twice, the first value can win. So each key is set where it stands first, and its other lines are dropped.

    Args:
        text: the file's text.
        changes: values by key; a key that the file lacks is added at its end.

    Returns:
        The changed text, which ends with a newline.
    """
    missing = dict(changes)
    lines: list[str] = []
    for line in text.splitlines():
        key, equals, _ = line.partition("=")
        key = key.strip()
        if not equals or key.startswith(("#", "!")) or key not in changes:
            lines.append(line)
        elif key in missing:
            lines.append(f"{key}={missing.pop(key)}")
    lines.extend(f"{key}={value}" for key, value in missing.items())
    return "\n".join(lines) + "\n"


def zookeeper_conf(home: Path, spec: PulsarSpec, data: Path, site: Site = LOOPBACK) -> str:
    """ZooKeeper's file: client port at its site, no admin server and no metrics port."""
    return edit_properties(
        (home / "conf" / "zookeeper.conf").read_text(),
        {
            **({"forceSync": "no"} if spec.quick else {}),
            "dataDir": str(data),
            "clientPort": str(spec.zookeeper_port),
            "clientPortAddress": site.host,
            "admin.enableServer": "false",
            "metricsProvider.className": "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider",
            **{setting.key: setting.value for setting in spec.settings if setting.role == "zookeeper"},
        },
    )


def bookie_conf(
    home: Path, spec: PulsarSpec, index: int, data: Path, site: Site = LOOPBACK, zookeeper: str = HOST
) -> str:
    """A bookie's file: its site, small caches, its own folders and ports.

    Auto-recovery is off: tests stop bookies and expect ledgers to stay where they are, and bookies that start it at once on a
    fresh ZooKeeper race for /ledgers/underreplication/LAYOUT. `--set bookie.autoRecoveryDaemonEnabled=true` brings it back.
    """
    changes = {
        "bookiePort": str(spec.bookie_port(index)),
        "advertisedAddress": site.host,
        "allowLoopback": "true",
        "listeningInterface": site.interface,
        "journalDirectories": str(data / "journal"),
        "ledgerDirectories": str(data / "ledgers"),
        "metadataServiceUri": f"metadata-store:zk:{zookeeper}:{spec.zookeeper_port}",
        "zkServers": "",
        "prometheusStatsHttpAddress": site.host,
        "prometheusStatsHttpPort": str(spec.bookie_metrics_port(index)),
        "httpServerEnabled": "false",
        "autoRecoveryDaemonEnabled": "false",
        "dbStorage_writeCacheMaxSizeMb": "64",
        "dbStorage_readAheadCacheMaxSizeMb": "64",
        "dbStorage_rocksDB_blockCacheSize": str(16 << 20),
        # A bookie turns read-only on a nearly full disk; these are for a disk shared with everything else.
        "logSizeLimit": str(128 << 20),
        "journalMaxSizeMB": "256",
        "journalMaxBackups": "1",
        "journalSyncData": str(not spec.quick).lower(),
        "diskUsageThreshold": "0.98",
        "diskUsageWarnThreshold": "0.97",
    }
    changes |= {setting.key: setting.value for setting in spec.settings if setting.role == "bookie"}
    return edit_properties((home / "conf" / "bookkeeper.conf").read_text(), changes)


def broker_conf(home: Path, spec: PulsarSpec, index: int, site: Site = LOOPBACK, zookeeper: str = HOST) -> str:
    """A broker's file: its site, quick ledger rolls, topics that stay when idle, explicit LAC as the spec says."""
    metadata = f"zk:{zookeeper}:{spec.zookeeper_port}"
    changes = {
        "metadataStoreUrl": metadata,
        "configurationMetadataStoreUrl": metadata,
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
    }
    changes |= {setting.key: setting.value for setting in spec.settings if setting.role == "broker"}
    changes |= {setting.key: setting.value for setting in spec.settings if setting.role == f"broker-{index}"}
    return edit_properties((home / "conf" / "broker.conf").read_text(), changes)
