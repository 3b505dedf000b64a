"""Kind: its kubectl for tests, and a runtime for root without all capabilities."""

import json
import subprocess
from pathlib import Path

import pytest

from devstack.docker.capabilities import bounding_set, missing_capabilities, runtime_script
from devstack.errors import DevstackError
from devstack.kube.kind import KindCluster
from devstack.kube.layout import Layout

FULL = 0x1FFFFFFFFFF
WITHOUT = FULL & ~(1 << 24)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH."""
    folder = tmp_path / "machine"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_kubectl_of_the_machine_is_linked_for_tests(tmp_path: Path, machine: Path) -> None:
    kubectl = program(machine / "kubectl")
    layout = Layout(tmp_path / "kube")
    for _ in range(2):
        KindCluster(layout, "x").build([])
        assert (layout.bin / "kubectl").readlink() == kubectl


def test_a_link_takes_the_place_of_a_program_that_was_built(tmp_path: Path, machine: Path) -> None:
    kubectl, layout = program(machine / "kubectl"), Layout(tmp_path / "kube")
    layout.bin.mkdir(parents=True)
    (layout.bin / "kubectl").symlink_to(program(tmp_path / "built" / "kubectl"))
    KindCluster(layout, "x").build([])
    assert (layout.bin / "kubectl").readlink() == kubectl


def test_a_kubectl_that_is_the_link_itself_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout, built = Layout(tmp_path / "kube"), program(tmp_path / "built" / "kubectl")
    layout.bin.mkdir(parents=True)
    (layout.bin / "kubectl").symlink_to(built)
    monkeypatch.setenv("PATH", str(layout.bin))
    KindCluster(layout, "x").build([])
    assert (layout.bin / "kubectl").readlink() == built


def test_a_machine_without_kubectl_is_told_so(tmp_path: Path, machine: Path) -> None:
    with pytest.raises(DevstackError, match="the program kubectl is missing"):
        KindCluster(Layout(tmp_path / "kube"), "x").build([])


def test_the_bounding_set_is_read_from_the_status_of_a_process() -> None:
    assert bounding_set("Name:\tx\nCapEff:\t0000000000000000\nCapBnd:\t000001fffeffffff\n") == WITHOUT
    assert bounding_set("Name:\tx\n") & FULL == FULL
    assert bounding_set() >= 0


def test_only_a_capability_out_of_bounds_is_missing() -> None:
    assert missing_capabilities(WITHOUT) == ["CAP_SYS_RESOURCE"]
    assert missing_capabilities(FULL) == []


@pytest.mark.parametrize(
    "asked",
    [
        ["CAP_SYS_RESOURCE"],
        ["CAP_SYS_RESOURCE", "CAP_CHOWN"],
        ["CAP_CHOWN", "CAP_SYS_RESOURCE"],
        ["CAP_CHOWN", "CAP_SYS_RESOURCE", "CAP_KILL"],
        ["CAP_CHOWN", "CAP_KILL"],
        [],
    ],
)
@pytest.mark.parametrize("option", ["--bundle", "-b", "--process", "-p"])
def test_the_runtime_asks_for_no_capability_that_is_missing(tmp_path: Path, asked: list[str], option: str) -> None:
    bundle = option in {"--bundle", "-b"}
    config = tmp_path / ("config.json" if bundle else "process.json")
    wanted = {"process": {"args": ["a,b", "[]"], "capabilities": {"bounding": asked, "effective": asked}}}
    config.write_text(json.dumps(wanted, separators=(",", ":")))
    script = tmp_path / "runc"
    script.write_text(runtime_script("echo", ["CAP_SYS_RESOURCE"]))
    arguments = ["--log", "x y", "create", option, str(tmp_path if bundle else config), "id"]
    done = subprocess.run(["bash", str(script), *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == " ".join(arguments) + "\n"
    left = [name for name in asked if name != "CAP_SYS_RESOURCE"]
    wanted["process"]["capabilities"] = {"bounding": left, "effective": left}
    assert json.loads(config.read_text()) == wanted
