"""The cluster that chaos happens to: each server in a namespace of its own, bookies on small disks."""

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
from devstack.errors import DevstackError
from devstack.pool import BrokerProcess
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import PulsarSpec, Setting
from tests.chaos.plan import BOOKIES, OWNERS, OWNING, READ_ONLY, STORING, ZOOKEEPER, role

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.chaos.net import Network

BASE_PORT: Final = 31850
CLIENT_PORT: Final = 6650
HTTP_PORT: Final = 8080
"""Of read-only brokers, which have a namespace each."""

SESSION_TIMEOUT_S: Final = 10
DISK_MB: Final = 700
"""Of a bookie's disk, which is in memory; only what is written takes some."""

_LEFT_FREE: Final = 12 << 20
"""Of a full disk: a journal that cannot be written at all would end the bookie before it turns read-only."""

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
        # Else a bookie that was down is left out of new ledgers for half an hour (its quarantine), and no third one is left.
        Setting("broker", "bookkeeperClientHealthCheckEnabled", "false"),
        Setting("broker", "metadataStoreSessionTimeoutMillis", str(SESSION_TIMEOUT_S * 1000)),
        Setting("broker", "managedLedgerMaxEntriesPerLedger", "1000"),
        # Bundles move when the plan says so, and not otherwise.
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


class ChaosStack(PulsarCluster):
    """The source cluster and the pool beside it, by the names of their nodes.

    Args:
        network: where nodes are.
        folder: where the read-only brokers' logs go.
        options: of the read-only brokers.
        name: of the stack; two of them may run beside each other.
    """

    def __init__(self, network: Network, folder: Path, options: Sequence[str], name: str) -> None:
        sites = {name: network.site(name) for name in (ZOOKEEPER, *STORING, *OWNING)}
        super().__init__(replace(SPEC, name=name), sites=sites)
        self._network = network
        self._folder = folder
        self._options = options
        self.read_only: dict[str, BrokerProcess] = {}

    # Disks

    def make_disks(self) -> None:
        """Give each bookie a disk of its own."""
        for name in STORING:
            disk = self.state.data(name)
            disk.mkdir(parents=True, exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "chaos", str(disk)], check=True)

    def remove_disks(self) -> None:
        """Take the disks away, and what a run that was killed has left of them."""
        for name in STORING:
            while os.path.ismount(self.state.data(name)):
                subprocess.run(["umount", "-l", str(self.state.data(name))], check=True)

    def fill_disk(self, name: str) -> None:
        """Leave a bookie hardly any room."""
        usage = os.statvfs(self.state.data(name))
        size = max(usage.f_bavail * usage.f_frsize - _LEFT_FREE, 0)
        with self._ballast(name).open("wb") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, size or 1)
            except OSError as error:
                if error.errno != errno.ENOSPC:  # the bookie has written meanwhile: its disk is full too
                    raise

    def free_disk(self, name: str) -> None:
        """Give the room back."""
        self._ballast(name).unlink(missing_ok=True)

    def _ballast(self, name: str) -> Path:
        return self.state.data(name) / "ballast"

    # Processes

    @property
    def pool_urls(self) -> list[str]:
        """Where clients connect."""
        return [f"pulsar://{self._network.addresses[name]}:{CLIENT_PORT}" for name in READ_ONLY]

    def start_node(self, name: str) -> None:
        """Start a node's process unless it runs, and wait until it answers, but not until a broker is healthy.

        Raises:
            DevstackError: it does not come up.
        """
        if role(name) != "ro":
            self._start_one(name)
            return
        if self.alive(name):
            return
        broker = BrokerProcess(
            self.endpoints,
            self._folder / f"{name}.log",
            self._options,
            (CLIENT_PORT, HTTP_PORT),
            self._network.site(name),
        )
        self.read_only[name] = broker
        broker.wait_ready()

    def pid(self, name: str) -> int | None:
        """The process of a node."""
        if role(name) == "ro":
            broker = self.read_only.get(name)
            return broker.process.pid if broker is not None and broker.process.poll() is None else None
        live = processes.running(self.state.record(name))
        return live.pid if live else None

    def alive(self, name: str) -> bool:
        """Whether a node's process is there, be it stopped."""
        return self.pid(name) is not None

    def signal(self, name: str, what: signal.Signals) -> bool:
        """Send a signal to a node's process; whether there was one."""
        pid = self.pid(name)
        if pid is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, what)
        return True

    def end(self, name: str, what: signal.Signals) -> int | None:
        """End a node's process by a signal, and wait until it is gone; by SIGKILL at last.

        Returns:
            The exit status of a read-only broker.
        """
        if role(name) != "ro":
            processes.stop([self.state.record(name)], _STOP_S, what)
            return None
        broker = self.read_only[name]
        broker.process.send_signal(what)
        try:
            return broker.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            broker.kill()
            raise DevstackError(f"{name} did not end in {_STOP_S:g} s") from None

    def keep_logs(self) -> None:
        """Copy the servers' logs beside those of the read-only brokers."""
        logs = self.state.log(ZOOKEEPER).parent
        if logs.is_dir():
            shutil.copytree(logs, self._folder / "servers", dirs_exist_ok=True)

    def close(self, *, purge: bool) -> None:
        """Take everything down."""
        for broker in self.read_only.values():
            if broker.process.poll() is None:
                broker.kill()
        for name in (ZOOKEEPER, *STORING, *OWNING):
            self.signal(name, signal.SIGCONT)
        self.down()
        self.remove_disks()
        if purge:
            deadline = time.monotonic() + 5
            while any(os.path.ismount(self.state.data(name)) for name in STORING) and time.monotonic() < deadline:
                time.sleep(0.05)
            self.down(purge=True)
