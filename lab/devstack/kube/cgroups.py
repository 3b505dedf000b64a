"""Cgroups of nodes, in the one hierarchy of cgroup v2 or in each hierarchy of v1. Hybrid machines have v1 for this purpose."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devstack.errors import DevstackError

ROOT: Final = Path("/sys/fs/cgroup")
_NEEDED: Final = ("cpu", "cpuset", "memory", "pids")
"""Controllers without which kubelet does not start."""
_LEAF: Final = "init"
"""Cgroup of a container's own processes. Docker in Docker and kind use the same name."""
_PASSES: Final = 10
_WEIGHTS: Final = {"cpu.shares": "10240", "cpu.weight": "1000"}
"""Weights of v1 and v2: those of ten processes. A new cgroup has that of one, so that on a busy machine all pods together would
wait for the CPU until the source Pulsar misses its deadlines."""


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A cgroup below the root.

    Attributes:
        name: its name.
        root: folder with the mounts of v1, or mount of v2.
    """

    name: str
    root: Path = ROOT

    def folders(self) -> list[Path]:
        """Return the folders of the cgroup, one in each hierarchy that has it."""
        return sorted(self.root.glob(self.name if _is_v2(self.root) else f"*/{self.name}"))

    def pids(self) -> list[int]:
        """Return the pids in the cgroup and its descendants."""
        found: set[int] = set()
        for folder in self.folders():
            for part, _, _ in os.walk(folder):
                with contextlib.suppress(OSError):  # it was removed meanwhile
                    found.update(_pids(Path(part)))
        return sorted(found)

    def make(self, child: str) -> None:
        """Make the cgroup and a child, which can limit all resources.

        Raises:
            DevstackError: the root's controllers cannot be delegated.
        """
        if _is_v2(self.root):
            for folder in (self.root / self.name, self.root / self.name / child):
                _delegate(folder.parent)
                folder.mkdir(exist_ok=True)
                _weigh(folder)
            return
        for hierarchy in self.root.iterdir():
            if not hierarchy.is_dir() or hierarchy.is_symlink() or hierarchy.name == "unified":
                continue
            folder = hierarchy / self.name / child
            folder.mkdir(parents=True, exist_ok=True)
            for part in (folder.parent, folder):
                _weigh(part)
            if hierarchy.name == "cpuset":  # a new cpuset has no CPUs and memory nodes, and then no process can join it
                for part in (folder.parent, folder):
                    for setting in ("cpuset.cpus", "cpuset.mems"):
                        (part / setting).write_text((hierarchy / setting).read_text())

    def remove(self, patience: float = 20.0) -> None:
        """Kill the cgroup's processes and remove it. Retry, because processes leave a cgroup some time after their end."""
        deadline = time.monotonic() + patience
        while self.folders() and time.monotonic() < deadline:
            for pid in self.pids():  # a pod's process outlives its node only if the node was incomplete
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for top in self.folders():
                for folder, _, _ in os.walk(top, topdown=False):
                    with contextlib.suppress(OSError):
                        Path(folder).rmdir()
            if self.folders():
                time.sleep(0.05)


def check_cgroups(root: Path = ROOT) -> None:
    """Check that nodes can have cgroups.

    Raises:
        DevstackError: a controller is missing, or the folder is read-only; the hint is the remedy.
    """
    there = _controllers(root) if _is_v2(root) else [name for name in _NEEDED if (root / name / "tasks").exists()]
    missing = [name for name in _NEEDED if name not in there]
    if missing:
        raise DevstackError(
            f"kube: {root} has no cgroup controller {', '.join(missing)}",
            "mount cgroup2 on it; if only memory is missing, boot with cgroup_enable=memory",
        )
    probe = (root if _is_v2(root) else root / "memory") / f"pulsar-readonly-probe-{os.getpid()}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise DevstackError(
            f"kube: root may not make cgroups in {probe.parent}: {error.strerror}",
            "run the container with --privileged, which makes /sys/fs/cgroup writable",
        ) from error


def _weigh(folder: Path) -> None:
    for name, weight in _WEIGHTS.items():
        if (folder / name).exists():
            (folder / name).write_text(weight)


def _is_v2(root: Path) -> bool:
    return (root / "cgroup.controllers").exists()


def _controllers(folder: Path) -> list[str]:
    return (folder / "cgroup.controllers").read_text().split()


def _pids(folder: Path) -> list[int]:
    """Return the pids in a cgroup, without 0, which stands for each process of another PID namespace."""
    return [pid for pid in map(int, (folder / "cgroup.procs").read_text().split()) if pid]


def _delegate(folder: Path) -> None:
    """Let the children of a cgroup of v2 use all of its controllers.

    A cgroup other than the machine's root must have no processes for that ("no internal processes" in the kernel's
    cgroup-v2.rst). The root that a container sees has some: move them into a leaf.
    """
    if (folder / "cgroup.type").exists():  # the machine's root has no such file
        _move_processes(folder, folder / _LEAF)
    controllers = _controllers(folder)
    try:
        (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))
    except OSError as error:
        raise DevstackError(
            f"kube: {folder}/cgroup.subtree_control does not take {', '.join(controllers)}: {error.strerror}",
            "run the container with --privileged --cgroupns=private",
        ) from error


def _move_processes(source: Path, target: Path) -> None:
    for _ in range(_PASSES):  # processes can fork meanwhile
        pids = _pids(source)
        if not pids:
            return
        target.mkdir(exist_ok=True)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError), (target / "cgroup.procs").open("a") as procs:
                procs.write(str(pid) + "\n")
