"""The life of a local Kubernetes: up, harm, repair, down without a trace.

It runs in a network namespace and a cache folder of its own, beside whatever cluster this machine has already.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from devstack.kube.cgroups import Cgroup
from devstack.kube.kind import kind_usable
from devstack.kube.layout import Layout, default_layout

PROJECT = Path(__file__).resolve().parents[3]
SYSCTLS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops")

pytestmark = pytest.mark.skipif(kind_usable(), reason="a Docker engine runs: clusters are kind's")


class Sandbox:
    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self._holder = subprocess.Popen(
            ["unshare", "-n", "sh", "-c", "ip link set lo up && echo ready && exec sleep infinity"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "ready\n"

    def run(self, *argv: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["nsenter", "-t", str(self._holder.pid), "-n", *argv],
            cwd=PROJECT,
            env={**os.environ, "PULSAR_READONLY_CACHE": str(self.cache)},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def kube(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "devstack", "kube", *arguments)

    def status(self) -> dict:
        return json.loads(self.kube("status", "--json").stdout)

    def trace(self) -> dict[str, object]:
        """Everything that a cluster changes on a machine."""
        processes = set()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if str(self.cache) in (folder / "cmdline").read_text(errors="replace"):
                    processes.add(folder.name)
        return {
            "processes": processes,
            "mounts": [line for line in Path("/proc/mounts").read_text().splitlines() if str(self.cache) in line],
            "namespaces": [line for line in Path("/proc/mounts").read_text().splitlines() if line.startswith("nsfs")],
            "links": sorted(link["ifname"] for link in json.loads(self.run("ip", "-json", "link").stdout)),
            "routes": self.run("ip", "route").stdout,
            "cgroups": self.cgroups(),
            "sysctls": {name: Path("/proc/sys", name).read_text() for name in SYSCTLS},
        }

    def cgroups(self) -> list[str]:
        return [str(path) for path in Cgroup(Layout(self.cache / "kube").cgroup).folders()]

    def close(self) -> None:
        self.kube("down", "--purge")
        self._holder.kill()
        self._holder.wait(10)
        assert self._holder.stdout is not None
        self._holder.stdout.close()


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    built = subprocess.run(
        [sys.executable, "-m", "devstack", "kube", "build"], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    cache = Path(tempfile.mkdtemp(prefix="kube", dir="/var/tmp"))  # a short path: there is a socket in it
    try:
        shutil.copytree(default_layout().builds, cache / "kube" / "builds", symlinks=True, copy_function=link)
        with closing(Sandbox(cache)) as box:
            yield box
    finally:
        shutil.rmtree(cache)


def link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.mark.slow
def test_up_repairs_and_down_leaves_nothing(sandbox: Sandbox) -> None:
    before = sandbox.trace()

    up = sandbox.kube("up")
    assert up.returncode == 0, up.stderr
    assert up.stdout == f"export KUBECONFIG={sandbox.cache}/kube/state/admin.kubeconfig\n"
    first = sandbox.status()
    assert first["up"]
    assert first["nodes"] == {"node1": True}
    assert sandbox.cgroups()
    assert "prokube0" in sandbox.trace()["links"]

    again = sandbox.kube("up")
    assert again.returncode == 0, again.stderr
    assert sandbox.status()["processes"] == first["processes"], "a second up must leave alone what runs"

    os.kill(first["processes"]["node1-kubelet"], signal.SIGKILL)
    assert sandbox.kube("up").returncode == 0
    repaired = sandbox.status()
    assert repaired["processes"]["node1-kubelet"] not in (None, first["processes"]["node1-kubelet"])
    assert repaired["processes"]["etcd"] == first["processes"]["etcd"]

    os.kill(repaired["processes"]["node1-init"], signal.SIGKILL)  # as if the machine had lost power
    after_crash = sandbox.kube("up", "--nodes", "2")
    assert after_crash.returncode == 0, after_crash.stderr
    assert sandbox.status()["nodes"] == {"node1": True, "node2": True}

    down = sandbox.kube("down")
    assert down.returncode == 0, down.stderr
    assert sandbox.trace() == before
    assert (sandbox.cache / "kube" / "state" / "etcd").exists()

    back = sandbox.kube("up")
    assert back.returncode == 0, back.stderr
    purged = sandbox.kube("down", "--purge")
    assert purged.returncode == 0, purged.stderr
    assert sandbox.trace() == before
    assert not (sandbox.cache / "kube" / "state").exists()
    assert sandbox.kube("status").returncode == 1


def test_a_route_in_the_way_is_named(sandbox: Sandbox) -> None:
    sandbox.run("ip", "link", "add", "other0", "type", "bridge")
    sandbox.run("ip", "link", "set", "other0", "up")
    sandbox.run("ip", "route", "add", "10.244.7.0/24", "dev", "other0")
    up = sandbox.kube("up")
    assert up.returncode == 1
    assert "10.244.7.0/24 dev other0" in up.stderr
    assert not sandbox.cgroups()
