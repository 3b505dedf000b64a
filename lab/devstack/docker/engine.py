"""The Docker engine of Debian, unpacked and run in namespaces of its own.

It is for tests on real kind where no Docker engine runs. It shares no network rule, mount or container with this machine, and
containers reach no network outside. So images are loaded, never pulled.
"""

from __future__ import annotations

import os
import shutil
import signal
from typing import TYPE_CHECKING, Final

from devstack.cache import cache_root, content_key
from devstack.common.run import run, succeeds, wait_until
from devstack.docker.capabilities import bounding_set, missing_capabilities, runtime_script
from devstack.errors import DevstackError
from devstack.kube.cgroups import Cgroup
from devstack.kube.layout import SOURCE as KUBE_SOURCE
from devstack.kube.node_processes import NodeProcesses

if TYPE_CHECKING:
    from pathlib import Path

SOURCE: Final = KUBE_SOURCE.parent / "docker"
PACKAGES: Final = ("docker.io", "containerd", "runc", "tini", "busybox-static")
"""Debian packages. They are unpacked and not installed, because an installed engine would be the machine's."""
_INIT: Final = "init"
_DOCKERD: Final = "dockerd"
_NAMESPACES: Final = ("-m", "-n", "-p", "-u", "-i")
_PROXIES: Final = {"http_proxy", "https_proxy", "all_proxy", "no_proxy"}


class Engine:
    """The engine of one folder.

    Args:
        root: folder of the engine's programs, images and containers.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or cache_root() / "docker"
        self._processes = NodeProcesses(self.root / "processes", self.root / "logs")

    @property
    def cgroup(self) -> str:
        """Name of the parent cgroup of all containers."""
        return f"pulsar-readonly-docker-{content_key(str(self.root))[:8]}"

    @property
    def programs(self) -> Path:
        """Folder with the unpacked packages."""
        return self.root / "packages"

    @property
    def cache(self) -> Path:
        """Cache folder for devstack commands in the namespaces: links to the machine's, but for images and clusters."""
        return self.root / "cache"

    def runs(self) -> bool:
        """Return whether the engine's process is alive."""
        return self._processes.pid(_DOCKERD) is not None

    def start(self) -> None:
        """Start the engine unless it runs.

        Raises:
            DevstackError: this is not root, a package is missing, or the engine does not answer; the hint has its log.
        """
        if os.geteuid() != 0:
            raise DevstackError("docker: an engine in namespaces needs root", "run it as root (sudo)")
        if self.runs():
            return
        self._unpack()
        self._processes.stop(_DOCKERD)
        self._processes.stop(_INIT, signal.SIGKILL)
        for name in ("ready", "docker.pid"):
            (self.root / name).unlink(missing_ok=True)
        # Pids of earlier namespaces: they may be those of other processes in the new ones.
        shutil.rmtree(self.root / "run", ignore_errors=True)
        self._processes.ensure(
            _INIT,
            ["bash", str(SOURCE / "namespaces.sh"), str(self.root)],
            wrapper=["unshare", *_NAMESPACES, "--fork", "--mount-proc", "--propagation", "private"],
            env=os.environ,
        )
        wait_until((self.root / "ready").exists, 20, "making the engine's namespaces", self._processes.log_tail(_INIT))
        self._processes.ensure(_DOCKERD, self._command(), wrapper=self.enter(), env=self.environment())

        def answers() -> bool:
            self._processes.require(_DOCKERD)
            return succeeds([*self.enter(), "docker", "info"], env=self.environment())

        wait_until(answers, 60, "the Docker engine answers", f"see {self.root / 'logs' / _DOCKERD}.log", pause=0.5)

    def stop(self) -> None:
        """End the engine with its containers, and remove their cgroups. Images stay for the next start.

        Raises:
            DevstackError: a cgroup is left; the text names it.
        """
        self._processes.stop(_DOCKERD, patience=30)
        self._processes.stop(_INIT, signal.SIGKILL)
        cgroup = Cgroup(self.cgroup)
        cgroup.remove()
        if left := cgroup.folders():
            raise DevstackError(f"docker: the engine has left cgroups: {', '.join(map(str, left))}")

    def enter(self) -> list[str]:
        """Return the command prefix that runs a command in the namespaces.

        Raises:
            DevstackError: the engine does not run.
        """
        pid = self._processes.pid(_INIT)
        if pid is None:
            raise DevstackError("docker: the engine does not run", "start it with: python -m devstack kind up")
        return ["nsenter", "-t", str(pid), *_NAMESPACES, "--"]

    def environment(self) -> dict[str, str]:
        """Return the environment for commands in the namespaces: this process's without proxies, with the engine's programs."""
        own = (self.root / "bin", self.programs / "usr" / "bin", self.programs / "usr" / "sbin")
        path = (*map(str, own), os.environ.get("PATH", ""), "/usr/sbin", "/sbin")
        foreign = ("DOCKER_", "KIND_")  # a context, certificates or a provider of another engine
        kept = {
            name: value
            for name, value in os.environ.items()
            if name.lower() not in _PROXIES and not name.startswith(foreign)
        }
        return {
            **kept,
            "PATH": os.pathsep.join(path),
            "DOCKER_HOST": f"unix://{self.root / 'docker.sock'}",
            "PULSAR_READONLY_CACHE": str(self.cache),
        }

    def run(self, *argv: str, what: str, timeout: float = 600, stdin: str | None = None) -> str:
        """Run a command in the namespaces and return its output.

        Raises:
            DevstackError: it failed; the hint has its error output.
        """
        return run([*self.enter(), *argv], what=what, timeout=timeout, env=self.environment(), stdin=stdin)

    def link(self, name: str, program: Path) -> None:
        """Put a program on the PATH of the namespaces."""
        link = self.root / "bin" / name
        link.unlink(missing_ok=True)
        link.symlink_to(program)

    def _command(self) -> list[str]:
        root = self.root
        options = [f"--data-root={root / 'data'}", f"--exec-root={root / 'run'}", f"--pidfile={root / 'docker.pid'}"]
        options += [f"--host=unix://{root / 'docker.sock'}", f"--cgroup-parent=/{self.cgroup}"]
        if missing := missing_capabilities(bounding_set()):
            runc = shutil.which("runc", path=self.environment()["PATH"]) or "runc"
            script = root / "bin" / "runc-bounded"
            script.write_text(runtime_script(runc, missing))
            script.chmod(0o755)
            options += [f"--add-runtime=bounded={script}", "--default-runtime=bounded"]
        return ["dockerd", *options]

    def _unpack(self) -> None:
        (self.root / "bin").mkdir(parents=True, exist_ok=True)
        if self.programs.exists():
            return
        draft, archives = self.root / f".packages.{os.getpid()}", self.root / f".archives.{os.getpid()}"
        try:
            for folder in (draft, archives):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
            what = "fetching the packages of the Docker engine"
            run(["apt-get", "download", *PACKAGES], what=what, timeout=600, cwd=archives)
            for package in sorted(archives.glob("*.deb")):
                run(["dpkg", "-x", str(package), str(draft)], what=f"unpacking {package.name}")
            draft.rename(self.programs)
        finally:
            for folder in (draft, archives):
                shutil.rmtree(folder, ignore_errors=True)
