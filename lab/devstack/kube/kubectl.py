"""kubectl for one cluster."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from devstack.common.run import run, succeeds

if TYPE_CHECKING:
    from pathlib import Path


@cache
def _discovered() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="pulsar-readonly-kubectl-")


def environment(kubeconfig: Path | str) -> dict[str, str]:
    """Return this process's environment for kubectl and Helm at one cluster.

    kubectl keeps what a server has for six hours, by the server's address alone (`CachedDiscoveryClient`). Local clusters
    that follow each other have one address: kubectl would ask the second for versions that only the first had. So
    each process has a folder of its own for this, until it ends.

    A third of the CPU of a short kubectl is garbage collection, so that is off.
    """
    return {"GOGC": "off", **os.environ, "KUBECONFIG": str(kubeconfig), "KUBECACHEDIR": _discovered().name}


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with a kubeconfig.

    Attributes:
        program: path or name of the program.
        kubeconfig: path of the kubeconfig.
    """

    program: str
    kubeconfig: Path

    def run(self, *arguments: str, stdin: str | None = None, timeout: float = 60) -> str:
        """Run kubectl and return its output.

        Raises:
            DevstackError: kubectl failed; the hint has its error output.
        """
        what = f"kubectl {' '.join(arguments[:5])}"
        return run([self.program, *arguments], what=what, stdin=stdin, timeout=timeout, env=self._env())

    def json(self, *arguments: str, timeout: float = 60) -> Any:
        """Run kubectl with `-o json` and return its decoded output."""
        return json.loads(self.run(*arguments, "-o", "json", timeout=timeout))

    def succeeds(self, *arguments: str, timeout: float = 30) -> bool:
        """Return whether the command succeeds."""
        return succeeds([self.program, *arguments], timeout=timeout, env=self._env())

    def apply(self, manifest: str, *options: str) -> str:
        """Apply a manifest (YAML) by server-side apply, as field manager `devstack`."""
        options = ("--server-side", "--force-conflicts", "--field-manager=devstack", *options)
        return self.run("apply", *options, "-f", "-", stdin=manifest, timeout=120)

    def _env(self) -> dict[str, str]:
        return environment(self.kubeconfig)
