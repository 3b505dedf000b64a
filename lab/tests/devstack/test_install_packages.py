"""All missing packages are named at once, before anything is downloaded, and installed by root alone."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from devstack.errors import DevstackError
from devstack.images.targets import PROJECT
from devstack.kube.preflight import main, parse_packages

SCRIPT = PROJECT / "lab" / "devstack" / "install-packages"
KUBERNETES = [package.name for package in parse_packages((SCRIPT.parent / "kube" / "debian-packages.txt").read_text())]
PYTHON = ["python3", "python3-venv"]
COMPILER = ["gcc", "libc6-dev", "python3-dev"]
HEADERS = {"libc6-dev"}
"""Its file is looked for outside of the PATH, so that this machine may have it."""

JAVA = ["default-jre-headless", "maven"]


class Machine:
    """A machine with a few programs; what they are asked to do is written down.

    Args:
        folder: an empty folder.
        user: number of the user.
        programs: texts of shell scripts, by name.
    """

    def __init__(self, folder: Path, user: int, programs: dict[str, str]) -> None:
        self._path = folder / "bin"
        self._path.mkdir()
        self._asked = folder / "asked"
        for name in ("bash", "dirname", "readlink", "awk", "grep", "head", "env", "sh", "sed"):
            (self._path / name).symlink_to(shutil.which(name) or name)
        told = {
            "id": f"echo {user}",
            "apt-get": f'echo "apt-get $*" >> {self._asked}',
            "apt-cache": "",
            "dpkg": "exit 1",
            **programs,
        }
        for name, text in told.items():
            (self._path / name).write_text(f"#!/bin/sh\n{text}\n")
            (self._path / name).chmod(0o755)

    @property
    def asked(self) -> list[str]:
        """What apt-get was asked to do."""
        return self._asked.read_text().splitlines() if self._asked.exists() else []

    def run(self, group: str, python: str = "nothing", **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self._path), "HOME": str(self._path), "PYTHON": python, **variables}
        return subprocess.run(
            [self._path / "bash", SCRIPT, group], env=environment, capture_output=True, text=True, check=False
        )


@pytest.mark.parametrize(
    ("group", "programs", "packages"),
    [
        ("demo", {}, [*PYTHON, *JAVA]),
        ("demo", {"mvn": ""}, [*PYTHON, "default-jre-headless"]),
        ("demo", {"java": "echo 'openjdk version \"17.0.15\"' >&2"}, [*PYTHON, "maven"]),
        ("demo", {"java": "echo 'openjdk version \"11.0.2\"' >&2"}, [*PYTHON, *JAVA]),
        ("kubernetes", {}, [*PYTHON, *JAVA, "golang-go", *KUBERNETES]),
        ("kubernetes", {"docker": "", "kind": "", "kubectl": ""}, [*PYTHON, *JAVA]),
        ("kubernetes", {"go": ""}, [*PYTHON, *JAVA, *KUBERNETES]),
        ("test", {}, [*PYTHON, *JAVA, "golang-go", *KUBERNETES, "git", "default-jdk-headless", "chromium", "chromium-driver"]),
    ],
)  # fmt: skip
def test_a_user_without_sudo_gets_one_command(
    tmp_path: Path, group: str, programs: dict[str, str], packages: list[str]
) -> None:
    machine = Machine(tmp_path, 1000, programs)
    ran = machine.run(group)
    named = ran.stderr.splitlines()[-1].removeprefix("  apt-get install ").split()
    assert set(named) | HEADERS == {*packages, *COMPILER}
    assert len(named) == len(set(named))
    assert ran.returncode == 1
    assert not machine.asked


@pytest.mark.parametrize("sudo", [True, False])
def test_what_is_installed_is_printed(tmp_path: Path, sudo: bool) -> None:
    machine = Machine(tmp_path, 1000 if sudo else 0, {"sudo": 'exec "$@"'} if sudo else {})
    ran = machine.run("demo")
    command = f"{'sudo ' if sudo else ''}apt-get install {' '.join([*PYTHON, *JAVA, 'gcc'])} "
    assert ran.stdout.startswith(f"these packages are missing, and are installed now: {command}")
    assert [words.split()[1] for words in machine.asked if "show" not in words] == ["update", "install"]
    assert {*PYTHON, *JAVA, *COMPILER} <= {*machine.asked[-1].split(), *HEADERS}
    assert ran.returncode == 0


@pytest.mark.parametrize("user", [0, 1000])
def test_nothing_is_installed_for_a_user_who_forbids_it(tmp_path: Path, user: int) -> None:
    machine = Machine(tmp_path, user, {"sudo": 'exec "$@"'})
    ran = machine.run("demo", NO_INSTALL="1")
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].startswith("  apt-get install ")
    assert not machine.asked


@pytest.mark.parametrize("group", ["kubernetes", "test"])
def test_a_machine_for_no_local_kubernetes_is_refused_whatever_is_installed(tmp_path: Path, group: str) -> None:
    answers = """case "$*" in
        "-m devstack.kube.preflight") echo "error: not here" >&2; exit 1 ;;
        *print*) echo python3.12 ;;
        esac"""
    machine = Machine(tmp_path, 1000, {"python": answers, "sudo": "exit 9"})
    ran = machine.run(group, "python")
    refused, packages, other = ran.stderr.splitlines()
    assert refused == "error: not here"
    assert "golang-go" in packages
    assert "need no Kubernetes" in other
    assert ran.returncode == 1
    assert not machine.asked
    assert "golang-go" in machine.run("system", "python").stdout


def test_the_first_check_for_a_local_kubernetes_is_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(DevstackError, match="needs root") as raised:
        main()
    assert "sudo" in raised.value.hint
