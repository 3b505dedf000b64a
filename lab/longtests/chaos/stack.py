"""The cluster of the chaos test: each server in its own network namespace, bookies on small disks."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from devstack.common import processes
from devstack.console import say
from devstack.pool import BrokerProcess
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.oxia_servers import COORDINATOR
from devstack.pulsar.spec import OXIA, PulsarSpec, Setting
from longtests.chaos.plan import BOOKIES, METADATA, OWNERS, OWNING, READ_ONLY, STORING, role

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from longtests.chaos.bindings import BindingFiles
    from longtests.chaos.net import Network

BASE_PORT: Final = 31850
CLIENT_PORT: Final = 6650
HTTP_PORT: Final = 8080
"""Ports of read-only brokers, which have a namespace each."""

SESSION_TIMEOUT_S: Final = 10
DISK_MB: Final = 700
"""Size of a bookie's disk, which is in memory; only written blocks use memory."""

_LEFT_FREE: Final = 12 << 20
"""Free bytes of a full disk: without any, the journal would fail and end the bookie before it becomes read-only."""

_STOP_S: Final = 30.0

SPEC: Final = PulsarSpec(
    name="chaos",
    base_port=BASE_PORT,
    bookies=BOOKIES,
    brokers=OWNERS,
    quick=True,
    transactions=True,
    settings=(
        Setting("zookeeper", "4lw.commands.whitelist", "*"),
        # By default, a bookie that was down is in quarantine for half an hour, and new ledgers would lack a third one.
        Setting("broker", "bookkeeperClientHealthCheckEnabled", "false"),
        Setting("broker", "metadataStoreSessionTimeoutMillis", str(SESSION_TIMEOUT_S * 1000)),
        Setting("broker", "managedLedgerMaxEntriesPerLedger", "1000"),
        Setting("broker", "subscriptionExpiryCheckIntervalInMinutes", "1"),
        # Only the plan moves bundles.
        Setting("broker", "loadBalancerSheddingEnabled", "false"),
        Setting("broker", "loadBalancerAutoBundleSplitEnabled", "false"),
        Setting("bookie", "zkTimeout", str(SESSION_TIMEOUT_S * 1000)),
        Setting("bookie", "logSizeLimit", str(16 << 20)),
        Setting("bookie", "journalMaxSizeMB", "32"),
        Setting("bookie", "journalPreAllocSizeMB", "4"),
        Setting("bookie", "minUsableSizeForIndexFileCreation", str(1 << 20)),
        Setting("bookie", "minUsableSizeForEntryLogCreation", str(1 << 20)),
        Setting("bookie", "minUsableSizeForHighPriorityWrites", str(1 << 20)),
        Setting("bookie", "diskUsageThreshold", "0.95"),
        Setting("bookie", "diskUsageWarnThreshold", "0.90"),
        Setting("bookie", "diskCheckInterval", "500"),
        Setting("bookie", "isForceGCAllowWhenNoSpace", "true"),
    ),
)


def lacked_store(log: str) -> bool:
    """Return whether the last line of a broker's log is its error at a start without its metadata store."""
    last = log.rstrip().rpartition("\n")[2].lstrip()
    return last.startswith("pulsar-readonly serve: --metadata-store-url: ") and (
        "no ZooKeeper answers at " in last or "no Oxia answers within " in last or last.endswith(": ConnectionLoss")
    )


class ChaosStack(PulsarCluster):
    """The source cluster and the pool, by the names of their nodes.

    Args:
        network: the network of the nodes.
        folder: folder of the read-only brokers' logs.
        options: options of the read-only brokers.
        bindings: their files of bindings.
        name: name of the stack; two stacks may run concurrently.
    """

    def __init__(
        self, network: Network, folder: Path, options: Sequence[str], bindings: BindingFiles, name: str
    ) -> None:
        sites = {name: network.site(name) for name in (*STORING, *OWNING)}
        sites |= dict.fromkeys((SPEC.metadata_server, COORDINATOR), network.site(METADATA))
        super().__init__(replace(SPEC, name=name), sites=sites)
        self._network = network
        self._folder = folder
        self._options = options
        self._bindings = bindings
        self.read_only: dict[str, BrokerProcess] = {}

    # Disks

    def make_disks(self) -> None:
        """Create a disk for each bookie."""
        for name in STORING:
            disk = self.state.data(name)
            disk.mkdir(parents=True, exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "chaos", str(disk)], check=True)

    def remove_disks(self) -> None:
        """Remove the disks, also those of a killed run."""
        for name in STORING:
            while os.path.ismount(self.state.data(name)):
                subprocess.run(["umount", "-l", str(self.state.data(name))], check=True)

    def fill_disk(self, name: str) -> None:
        """Fill a bookie's disk almost completely."""
        usage = os.statvfs(self.state.data(name))
        size = max(usage.f_bavail * usage.f_frsize - _LEFT_FREE, 0)
        with self._ballast(name).open("wb") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, size or 1)
            except OSError as error:
                if error.errno != errno.ENOSPC:  # the bookie wrote meanwhile, so its disk is full too
                    raise

    def free_disk(self, name: str) -> None:
        """Free the bookie's disk."""
        self._ballast(name).unlink(missing_ok=True)

    def _ballast(self, name: str) -> Path:
        return self.state.data(name) / "ballast"

    # Processes

    @property
    def pool_urls(self) -> list[str]:
        """Return the URLs for clients."""
        return [f"pulsar://{self._network.addresses[name]}:{CLIENT_PORT}" for name in READ_ONLY]

    def start_node(self, name: str) -> None:
        """Start a node's process unless it is running, and wait until it answers, but not until a broker is healthy.

        Raises:
            DevstackError: it does not start.
        """
        if role(name) != "ro":
            for server in self._servers_of(name):
                self._start_one(server)
            return
        if self.alive(name):
            return
        broker = BrokerProcess(
            self.endpoints,
            self._folder / f"{name}.log",
            (*self._options, "--bindings", str(self._bindings.path(name))),
            (CLIENT_PORT, HTTP_PORT),
            self._network.site(name),
        )
        self.read_only[name] = broker
        broker.wait_ready()

    def lacked_store(self, name: str) -> bool:
        """Return whether a read-only broker exited at its start because the store did not answer; it is then restarted."""
        broker = self.read_only[name]
        return broker.process.poll() == 1 and lacked_store(broker.log_end())

    def pid(self, name: str) -> int | None:
        """Return the process id of a node; None for none."""
        if role(name) == "ro":
            broker = self.read_only.get(name)
            return broker.process.pid if broker is not None and broker.process.poll() is None else None
        live = processes.running(self.state.record(self._servers_of(name)[0]))
        return live.pid if live else None

    def alive(self, name: str) -> bool:
        """Return whether a node's process exists, suspended or not."""
        return self.pid(name) is not None

    def signal(self, name: str, what: signal.Signals) -> bool:
        """Send a signal to a node's process; return whether there was one."""
        pid = self.pid(name)
        if pid is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, what)
        return True

    def end(self, name: str, what: signal.Signals) -> int | None:
        """End a node's process by a signal, after 30 s by SIGKILL as Kubernetes does, and wait for its end.

        Returns:
            The exit status of a read-only broker that needed no SIGKILL.
        """
        if role(name) != "ro":
            processes.stop([self.state.record(self._servers_of(name)[0])], _STOP_S, what)
            return None
        broker = self.read_only[name]
        broker.process.send_signal(what)
        try:
            return broker.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            say(f"{name} did not stop in {_STOP_S:g} s: killing it")
            broker.kill()
            return None

    def _servers_of(self, name: str) -> tuple[str, ...]:
        """Return the servers of a node; faults hit the first. A node has its server's name, but for the metadata store."""
        if name != METADATA:
            return (name,)
        return (self.metadata_server, COORDINATOR) if self.spec.metadata == OXIA else (self.metadata_server,)

    def keep_logs(self) -> None:
        """Copy the servers' logs to those of the read-only brokers."""
        logs = self.state.log(self.metadata_server).parent
        if logs.is_dir():
            shutil.copytree(logs, self._folder / "servers", dirs_exist_ok=True)

    def close(self, *, purge: bool) -> None:
        """Stop everything."""
        for broker in self.read_only.values():
            if broker.process.poll() is None:
                broker.kill()
        for name in (METADATA, *STORING, *OWNING):
            self.signal(name, signal.SIGCONT)
        self.down()
        self.remove_disks()
        if purge:
            deadline = time.monotonic() + 5
            while any(os.path.ismount(self.state.data(name)) for name in STORING) and time.monotonic() < deadline:
                time.sleep(0.05)
            self.down(purge=True)
