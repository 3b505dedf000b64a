"""Helm, kubectl and promtool: the devstack's, which are locked; else this machine's; else they are built now."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from devstack.kube import programs
from tests.support.yaml_documents import load_all_yaml

ROOT = Path(__file__).resolve().parents[3]
NAMESPACE = "pulsar-readonly-system"
RELEASE = "pulsar-readonly"
KUBERNETES = "1.36"
"""What charts are rendered for: without a cluster Helm asks for a version that depends on how it was built."""


def run(*command: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="session")
def helm() -> Callable[..., subprocess.CompletedProcess[str]]:
    path = str(programs.find("helm", programs.HELM))
    return lambda *arguments: run(path, *arguments)


@pytest.fixture(scope="session")
def kustomize() -> Callable[[str], list[dict]]:
    """The objects of a kustomization."""
    path = str(programs.find("kubectl", programs.KUBE))

    def render(folder: str) -> list[dict]:
        done = run(path, "kustomize", str(ROOT / folder))
        assert done.returncode == 0, done.stderr
        return list(load_all_yaml(done.stdout))

    return render


@pytest.fixture
def template(helm) -> Callable[..., list[dict]]:
    """The objects that the chart renders: values as --set takes them, options of helm template."""

    def render(*values: str, options: tuple[str, ...] = (), release: str = RELEASE) -> list[dict]:
        done = template_run(helm, *values, options=options, release=release)
        assert done.returncode == 0, done.stderr
        return [one for one in load_all_yaml(done.stdout) if one]

    return render


def template_run(
    helm, *values: str, options: tuple[str, ...] = (), release: str = RELEASE
) -> subprocess.CompletedProcess[str]:
    chosen = [part for value in values for part in ("--set", value)]
    defaults = str(Path(__file__).with_name("defaults.yaml"))
    return plain_template_run(helm, "--values", defaults, *chosen, *options, release=release)


def plain_template_run(helm, *options: str, release: str = RELEASE) -> subprocess.CompletedProcess[str]:
    """Render the chart with its own values alone, but for these options."""
    chart = str(ROOT / "charts" / "pulsar-readonly")
    return helm("template", release, chart, "--namespace", NAMESPACE, "--kube-version", KUBERNETES, *options)
