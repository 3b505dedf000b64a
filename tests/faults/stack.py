"""The Pulsar whose parts are killed: three bookies, two brokers; and how its parts are killed."""

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
"""ZooKeeper believes so long in a dead broker (metadataStoreSessionTimeoutMillis, 30 s by default): its topics wait for it."""

SPEC: Final = PulsarSpec(
    name="faults",
    base_port=BASE_PORT,
    bookies=3,
    brokers=2,
    quick=True,
    settings=(
        Setting("broker", "defaultRetentionTimeInMinutes", "-1"),
        Setting("broker", "defaultRetentionSizeInMB", "-1"),
        # Else a bookie that was down is left out of new ledgers for half an hour (its quarantine), and no third one is left.
        Setting("broker", "bookkeeperClientHealthCheckEnabled", "false"),
        Setting("broker", "metadataStoreSessionTimeoutMillis", str(SESSION_TIMEOUT_S * 1000)),
    ),
)

_STOP_S: Final = 10.0


class FaultyStack(PulsarCluster):
    """A stack that can be broken in more ways than restarts."""

    def kill_zookeeper(self) -> None:
        """End ZooKeeper by SIGKILL."""
        processes.stop([self.state.record("zookeeper")], _STOP_S, signal.SIGKILL)

    def start_zookeeper(self) -> None:
        """Start it again, with its data."""
        self._start_one("zookeeper")

    def stall_bookie(self, index: int) -> None:
        """Stop a bookie's process in its tracks: its connections stay open, nothing is answered."""
        os.kill(self._bookie_pid(index), signal.SIGSTOP)

    def resume_bookie(self, index: int) -> None:
        """Let a stalled bookie go on."""
        os.kill(self._bookie_pid(index), signal.SIGCONT)

    def entry_files(self, index: int) -> list[Path]:
        """The files in which a bookie has its entries: entry logs, and its journal, from which it may write them again."""
        data = self.state.data(f"bookie-{index}")
        return sorted(path for pattern in ("ledgers/**/*.log", "journal/**/*.txn") for path in data.glob(pattern))

    def bookie_index(self, bookie_id: str) -> int:
        """Which bookie has this id."""
        return self.endpoints.bookies.index(bookie_id)

    def _bookie_pid(self, index: int) -> int:
        live = processes.running(self.state.record(f"bookie-{index}"))
        if live is None:
            raise DevstackError(f"bookie-{index} does not run")
        return live.pid
