"""The Pulsar whose servers are killed: three bookies and two brokers, with operations to break them."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Final

from devstack.common import processes
from devstack.errors import DevstackError
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import PulsarSpec, Setting

if TYPE_CHECKING:
    from pathlib import Path

BASE_PORT: Final = 31700
SESSION_TIMEOUT_S: Final = 10
"""Session timeout of brokers (metadataStoreSessionTimeoutMillis, default 30 s): a dead broker owns its topics for so long."""

SPEC: Final = PulsarSpec(
    name="faults",
    base_port=BASE_PORT,
    bookies=3,
    brokers=2,
    quick=True,
    settings=(
        Setting("broker", "defaultRetentionTimeInMinutes", "-1"),
        Setting("broker", "defaultRetentionSizeInMB", "-1"),
        # By default, a bookie that was down is in quarantine for half an hour, and new ledgers would lack a third one.
        Setting("broker", "bookkeeperClientHealthCheckEnabled", "false"),
        Setting("broker", "metadataStoreSessionTimeoutMillis", str(SESSION_TIMEOUT_S * 1000)),
    ),
)

_STOP_S: Final = 10.0


class FaultyStack(PulsarCluster):
    """A stack with more operations to break it than restarts."""

    def kill_zookeeper(self) -> None:
        """Kill ZooKeeper by SIGKILL."""
        processes.stop([self.state.record(self.metadata_server)], _STOP_S, signal.SIGKILL)

    def start_zookeeper(self) -> None:
        """Start ZooKeeper again, with its data."""
        self._start_one(self.metadata_server)

    def stall_bookie(self, index: int) -> None:
        """Suspend a bookie's process: its connections stay open, and it answers nothing."""
        os.kill(self._bookie_pid(index), signal.SIGSTOP)

    def resume_bookie(self, index: int) -> None:
        """Resume a stalled bookie."""
        os.kill(self._bookie_pid(index), signal.SIGCONT)

    def entry_files(self, index: int) -> list[Path]:
        """Return the files with a bookie's entries: entry logs, and the journal, from which it may write them again."""
        data = self.state.data(f"bookie-{index}")
        return sorted(path for pattern in ("ledgers/**/*.log", "journal/**/*.txn") for path in data.glob(pattern))

    def bookie_index(self, bookie_id: str) -> int:
        """Return the index of the bookie with this id."""
        return self.endpoints.bookies.index(bookie_id)

    def _bookie_pid(self, index: int) -> int:
        live = processes.running(self.state.record(f"bookie-{index}"))
        if live is None:
            raise DevstackError(f"bookie-{index} does not run")
        return live.pid
