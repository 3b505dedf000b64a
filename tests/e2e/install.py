"""The two ways to install the operator; with either, the same tests run. What the other way left is taken over."""

import subprocess
from pathlib import Path

from devstack.kube import programs
from devstack.kube.kubectl import environment
from tests.e2e.kubernetes import Kubernetes

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "pulsar-readonly"
OVERLAY = ROOT / "manifests" / "overlays" / "devstack"
VALUES = Path(__file__).parent / "helm-values.yaml"
RELEASE = "pulsar-readonly"
WAYS = ("kustomize", "helm")


def install(kubernetes: Kubernetes, way: str, namespace: str) -> None:
    """Install or upgrade the operator, with this checkout's definitions."""
    if way == "helm":
        # Helm makes definitions that are missing, and never changes one
        kubernetes("apply", "--server-side", "--force-conflicts", "-f", str(CHART / "crds"))
        helm(
            kubernetes,
            *("upgrade", "--install", RELEASE, str(CHART), "--namespace", namespace, "--create-namespace"),
            *("--values", str(VALUES), "--take-ownership"),
        )
        return
    if kubernetes("get", "secret", "-n", namespace, "-l", f"owner=helm,name={RELEASE}", "-o", "name").strip():
        helm(kubernetes, "uninstall", RELEASE, "--namespace", namespace, "--wait")
    kubernetes("apply", "-k", str(OVERLAY))


def helm(kubernetes: Kubernetes, *arguments: str) -> str:
    """Run Helm on the cluster; returns what it printed."""
    done = subprocess.run(
        [str(programs.find("helm", programs.HELM)), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        env=environment(kubernetes.kubeconfig),
    )
    assert done.returncode == 0, f"helm {' '.join(arguments)}: {done.stderr}"
    return done.stdout
