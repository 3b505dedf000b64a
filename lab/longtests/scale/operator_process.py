"""The operator as a process beside the API server, and its cost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from longtests.scale.control_plane import ScaleError, stop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from longtests.scale.control_plane import ControlPlane

METRICS_PORT = 23759
LOOKS = "pulsar_readonly_operator_reconcile_duration_seconds_count"
FAILED = "pulsar_readonly_operator_reconcile_errors_total"
WAITING = "pulsar_readonly_operator_workqueue_depth"
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Operator:
    """A running operator.

    Attributes:
        process: its process.
        log: its log file.
        began: time of its start, in monotonic seconds.
    """

    process: subprocess.Popen[bytes]
    log: Path
    began: float

    def metrics(self) -> dict[str, float] | None:
        """Return the sum of each metric over its labels, of reconciles alone; None before it answers."""
        if self.process.poll() is not None:
            raise ScaleError(f"the operator ended:\n{self.log.read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{METRICS_PORT}/metrics", timeout=10) as answer:
                text = answer.read().decode()
        except OSError:
            return None
        found: dict[str, float] = {}
        for name, labels, value in re.findall(r"^(\w+)(\{.*\})? (\S+)$", text, re.MULTILINE):
            if 'controller="source-cluster"' not in labels:
                found[name] = found.get(name, 0.0) + float(value)
        return found

    def resident_mib(self) -> float:
        """Return its resident memory, in MiB."""
        return self._status("VmRSS")

    def peak_mib(self) -> float:
        """Return its peak resident memory, in MiB."""
        return self._status("VmHWM")

    def cpu_seconds(self) -> float:
        """Return its processor time since its start, in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS

    def wait_until_looked_at(self, pools: int, seconds: float) -> float:
        """Wait until each pool was reconciled and none is queued; return the seconds since the start of the process."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.metrics()
            if found and found.get(LOOKS, 0) >= pools and not found.get(WAITING):
                return time.monotonic() - self.began
            if time.monotonic() > deadline:
                raise ScaleError(f"the operator has not reconciled all pools after {seconds:.0f} s: {found}")
            time.sleep(0.2)

    def _status(self, name: str) -> float:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)
        assert found, name
        return int(found[1]) / 1024


@contextmanager
def operator(plane: ControlPlane, source: Path, image: str, rolling: int) -> Iterator[Operator]:
    """Run an operator for all namespaces in a context.

    Args:
        plane: the API server.
        source: the checkout whose operator runs.
        image: its `--engine-image`.
        rolling: pools whose brokers it replaces at the same time.
    """
    log = plane.folder / "operator.log"
    environment = {
        **os.environ,
        "KUBECONFIG": str(plane.operators_kubeconfig),
        "PYTHONPATH": f"{source / 'operator'}:{source / 'engine'}",
        "PULSAR_READONLY_ROLLING_POOLS": str(rolling),
    }
    environment.pop("KUBERNETES_SERVICE_HOST", None)
    command = [sys.executable, "-c", "import sys; from readonly_operator.command import main; sys.exit(main())"]
    options = ["--all-namespaces", f"--metrics=127.0.0.1:{METRICS_PORT}", f"--engine-image={image}"]
    with log.open("ab") as file:
        began = time.monotonic()
        process = subprocess.Popen([*command, *options], env=environment, stdout=file, stderr=file)
    try:
        yield Operator(process, log, began)
    finally:
        stop(process)
