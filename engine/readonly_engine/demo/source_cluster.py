"""The source cluster of the demo: a stock Pulsar that it starts on 127.0.0.1, or one that runs already."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from aiohttp import ClientError, ClientSession, ClientTimeout

from readonly_engine.demo.class_archive import ClassArchives
from readonly_engine.demo.console import print_progress
from readonly_engine.demo.properties import edit_properties

if TYPE_CHECKING:
    from pathlib import Path

    from readonly_engine.demo.children import Child, Children

HOST: Final = "127.0.0.1"
CLUSTER: Final = "demo"
START_TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 60.0
TICK_MS: Final = "1000"
SESSION_TIMEOUT_MS: Final = "4000"
"""Longest session at ZooKeeper. Claims of a killed read-only broker end with its session, within another tick. By default it asks
for 12 s. The stock C++ and Python client tries again after 3.1, 6.3 and 12.7 s."""

_ATTEMPT: Final = ClientTimeout(total=10)

# C1 only: the servers live for a minute, and a start takes half the CPU.
_GC: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+PerfDisableSharedMem"
_SMALL: Final = "-Xms32m -Xmx128m"
_LARGE: Final = "-Xms128m -Xmx512m -XX:MaxDirectMemorySize=256m"


@dataclass(frozen=True, slots=True)
class SourceCluster:
    """Addresses of a source cluster.

    Attributes:
        metadata_store: URL of the metadata store, in Pulsar's form.
        service_url: service URL of its brokers.
        admin_url: URL of its admin API.
        bookie_port: port of the bookie, if it is a child of the demo.
        bookie: the bookie, if it is a child of the demo.
        owner: the owner broker, if it is a child of the demo.
        zookeeper: ZooKeeper, if it is a child of the demo.
        recording: folder where its servers record their classes when they end; None if they do not.
        archives: the archives of their classes, if they are children of the demo.
    """

    metadata_store: str
    service_url: str
    admin_url: str
    bookie_port: int = 0
    bookie: Child | None = None
    owner: Child | None = None
    zookeeper: Child | None = None
    recording: Path | None = None
    archives: ClassArchives | None = None

    async def wait_ready(self) -> None:
        """Wait until the demo's own servers are ready.

        Raises:
            DemoError: a server ends, or is not ready in time.
        """
        if self.bookie is not None:
            await self.bookie.ready(lambda: port_answers(self.bookie_port), START_TIMEOUT_S)
        if self.owner is not None:
            async with ClientSession(timeout=_ATTEMPT) as session:
                url = f"{self.admin_url}/admin/v2/brokers/ready"
                await self.owner.ready(lambda: answers(session, url), START_TIMEOUT_S)

    async def record_classes(self) -> None:
        """End the demo's own servers, and keep the archives of their classes for the next start, unless it has them.

        A server that does not end in time, or writes no archive, costs the next start some seconds and is no error.
        """
        if self.recording is None or self.archives is None:
            return
        print_progress(
            "the demo is over, and Ctrl-C is safe: recording Java's classes, once, for a start in half the time"
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                for server in (self.owner, self.bookie, self.zookeeper):  # a broker ends only while its bookie runs
                    if server is not None:
                        server.terminate()
                        await server.wait()
        await asyncio.to_thread(self.archives.store, self.recording)


def free_ports(count: int) -> list[int]:
    """Return TCP ports of 127.0.0.1 that no process listens on."""
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def write_configuration(home: Path, folder: Path, zookeeper: int, bookie: int, broker: int, admin: int) -> None:
    """Write the files of ZooKeeper, a bookie and a broker: those of the distribution with changed keys.

    All servers listen on 127.0.0.1 only. Nothing is flushed to disk with fsync, because the data live as long as the demo.

    Args:
        home: folder of the distribution.
        folder: folder of the demo's data.
        zookeeper: port of ZooKeeper.
        bookie: port of the bookie.
        broker: port of the broker.
        admin: port of the broker's admin API.
    """
    store = f"zk:{HOST}:{zookeeper}"
    changes = {
        "zookeeper.conf": {
            "dataDir": str(folder / "zookeeper"),
            "clientPort": str(zookeeper),
            "clientPortAddress": HOST,
            "admin.enableServer": "false",
            "forceSync": "no",
            "tickTime": TICK_MS,
            "maxSessionTimeout": SESSION_TIMEOUT_MS,
            "metricsProvider.className": "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider",
        },
        "bookkeeper.conf": {
            "bookiePort": str(bookie),
            "advertisedAddress": HOST,
            "allowLoopback": "true",
            "listeningInterface": "lo",
            "journalDirectories": str(folder / "journal"),
            "ledgerDirectories": str(folder / "ledgers"),
            "metadataServiceUri": f"metadata-store:{store}",
            "zkServers": "",
            "prometheusStatsHttpEnable": "false",
            "httpServerEnabled": "false",
            "autoRecoveryDaemonEnabled": "false",
            "dbStorage_writeCacheMaxSizeMb": "64",
            "dbStorage_readAheadCacheMaxSizeMb": "64",
            "dbStorage_rocksDB_blockCacheSize": str(16 << 20),
            "logSizeLimit": str(128 << 20),
            "journalMaxSizeMB": "256",
            "journalSyncData": "false",
            # By default a bookie becomes read-only on a disk that is 95 % full.
            "diskUsageThreshold": "0.99",
            "diskUsageWarnThreshold": "0.98",
        },
        "broker.conf": {
            "metadataStoreUrl": store,
            "configurationMetadataStoreUrl": store,
            "clusterName": CLUSTER,
            "bindAddress": HOST,
            "advertisedAddress": HOST,
            "brokerServicePort": str(broker),
            "webServicePort": str(admin),
            "managedLedgerDefaultEnsembleSize": "1",
            "managedLedgerDefaultWriteQuorum": "1",
            "managedLedgerDefaultAckQuorum": "1",
            "bookkeeperExplicitLacIntervalInMills": "100",
            "brokerDeleteInactiveTopicsEnabled": "false",
            "functionsWorkerEnabled": "false",
        },
    }
    for name, keys in changes.items():
        text = (home / "conf" / name).read_text(encoding="utf-8")
        (folder / name).write_text(edit_properties(text, keys), encoding="utf-8")
    (folder / "zookeeper").mkdir()


async def start_pulsar(children: Children, home: Path, folder: Path) -> SourceCluster:
    """Start ZooKeeper, write the cluster's metadata, and start a bookie and a broker; they are not ready yet.

    Args:
        children: starts processes.
        home: folder of the distribution.
        folder: an empty folder for their data.

    Raises:
        DemoError: the metadata cannot be written.
    """
    zookeeper, bookie, broker, admin = free_ports(4)
    write_configuration(home, folder, zookeeper, bookie, broker, admin)
    cluster = SourceCluster(f"zk:{HOST}:{zookeeper}", f"pulsar://{HOST}:{broker}", f"http://{HOST}:{admin}")
    pulsar = str(home / "bin" / "pulsar")
    archives = ClassArchives.of(home)
    recording = None if archives.recorded else folder / "classes"
    if recording is not None:
        recording.mkdir()

    def environment(role: str, memory: str) -> dict[str, str]:
        return {
            "PULSAR_ZK_CONF": str(folder / "zookeeper.conf"),
            "PULSAR_BOOKKEEPER_CONF": str(folder / "bookkeeper.conf"),
            "PULSAR_BROKER_CONF": str(folder / "broker.conf"),
            "PULSAR_LOG_DIR": str(folder),
            **archives.environment(role, folder / "empty", recording),
            # RocksDB leaves its library in Java's temporary folder.
            **{f"{prefix}_EXTRA_OPTS": f"-Djava.io.tmpdir={folder}" for prefix in ("PULSAR", "BOOKIE")},
            **{f"{prefix}_MEM": memory for prefix in ("PULSAR", "BOOKIE")},
            **{f"{prefix}_GC": _GC for prefix in ("PULSAR", "BOOKIE")},
            "MALLOC_ARENA_MAX": "2",
        }

    async def start(name: str, role: str, memory: str, *arguments: str) -> Child:
        return await children.start(name, [pulsar, role, *arguments], environment(role, memory))

    print_progress("starting ZooKeeper, a bookie and a broker of a stock Pulsar")
    # The next program waits for ZooKeeper itself.
    store = await start("ZooKeeper", "zookeeper", _SMALL)
    metadata = await start(
        *("cluster metadata", "initialize-cluster-metadata", _SMALL),
        *("--cluster", CLUSTER, "--web-service-url", cluster.admin_url, "--broker-service-url", cluster.service_url),
        *("--metadata-store", cluster.metadata_store, "--configuration-metadata-store", cluster.metadata_store),
    )
    await metadata.output()
    return replace(
        cluster,
        bookie_port=bookie,
        bookie=await start("bookie", "bookie", _LARGE),
        owner=await start("broker", "broker", _LARGE),
        zookeeper=store,
        recording=recording,
        archives=archives,
    )


async def port_answers(port: int) -> bool:
    """Return whether a port of 127.0.0.1 accepts connections."""
    try:
        _, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return False
    writer.close()
    return True


async def answers(session: ClientSession, url: str) -> bool:
    """Return whether a GET request is answered with status 200."""
    try:
        async with session.get(url) as response:
            return response.status == 200
    except (ClientError, OSError, TimeoutError):
        return False
