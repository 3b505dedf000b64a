"""The workflow files: they run targets that exist, and kind with the Kubernetes that the project is tested on."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from devstack.kube import programs
from tests.shell_blocks.checks import problems
from tests.support.yaml_documents import load_yaml

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))


def steps(path: Path) -> list[dict]:
    jobs = load_yaml(path.read_text(encoding="utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


def commands(path: Path) -> list[str]:
    jobs = load_yaml(path.read_text(encoding="utf-8"))["jobs"].values()
    return [step.get("run", "") for step in steps(path)] + [
        run for job in jobs for run in job.get("strategy", {}).get("matrix", {}).get("run", [])
    ]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_target_exists(path: Path) -> None:
    ran = [
        problems(shlex.split(command.replace("${{ matrix.install }}", "helm")))
        for run in commands(path)
        for command in re.findall(r"^(?:sudo \S+ )?(make .+)$", run, re.MULTILINE)
    ]
    assert ran
    assert not any(ran), ran


def test_kind_is_the_release_that_tests_run_with_and_has_their_kubernetes() -> None:
    module = (ROOT / "lab" / "devstack" / "kube" / "src" / "kind" / "go.mod").read_text(encoding="utf-8")
    (kind,) = [
        step["with"] for step in steps(ROOT / ".github/workflows/ci.yaml") if "kind-action" in step.get("uses", "")
    ]
    assert kind["version"] == programs.module_version(module, "sigs.k8s.io/kind")
    assert kind["kubectl_version"].split(".")[:2] == programs.KUBE.version().split(".")[:2]


def test_kubeadm_is_of_the_same_kubernetes_as_the_other_programs() -> None:
    module = (ROOT / "lab" / "devstack" / "kube" / "src" / "kind" / "go.mod").read_text(encoding="utf-8")
    assert programs.module_version(module, "k8s.io/kubernetes") == programs.KUBE.version()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_is_pinned_to_a_commit(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    used = re.findall(r"uses: (\S+)", text)
    assert used
    assert len(re.findall(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", text, re.MULTILINE)) == len(used)


@pytest.mark.parametrize("failing", ["ruff check", "ruff format", "mypy"])
def test_a_check_that_fails_hides_no_other(failing: str, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$*"\ncase "$*" in *"{failing}"*) exit 1;; esac\n')
    python.chmod(0o755)
    command = ["make", "--silent", "lint", "types", f"PY={python}", "STAMP=Makefile"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == ["-m ruff check .", "-m ruff format --check .", "-m mypy"]
    assert done.returncode == 2
