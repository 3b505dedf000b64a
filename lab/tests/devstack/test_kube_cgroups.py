"""Cgroups of nodes: folders and files as the kernel has them in v1, hybrid and v2, on a machine and in a container."""

import re
from pathlib import Path

import pytest

from devstack.errors import DevstackError
from devstack.kube.cgroups import Cgroup, check_cgroups

MACHINE = {
    "cgroup.controllers": "cpuset cpu io memory pids\n",
    "cgroup.procs": "1\n2\n",
    "all/cgroup.controllers": "cpu memory\n",
}
CONTAINER = {**MACHINE, "cgroup.type": "domain\n", "cgroup.procs": "1\n0\n7\n"}
V1 = {f"{name}/tasks": "" for name in ("cpu", "cpuset", "memory", "pids")}
V1 |= {"cpuset/cpuset.cpus": "0-1\n", "cpuset/cpuset.mems": "0\n"}
HYBRID = {**V1, "unified/cgroup.controllers": "\n"}


def make(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(("files", "moved"), [(MACHINE, set()), (CONTAINER, {"1", "7"})])
def test_v2_delegates_controllers_from_a_root_without_processes(tmp_path: Path, files, moved: set[str]) -> None:
    check_cgroups(make(tmp_path, files))
    Cgroup("all", tmp_path).make("node1")
    assert (tmp_path / "all" / "node1").is_dir()
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpuset +cpu +io +memory +pids"
    assert (tmp_path / "all" / "cgroup.subtree_control").read_text() == "+cpu +memory"
    leaf = tmp_path / "init" / "cgroup.procs"
    assert (set(leaf.read_text().split()) if leaf.exists() else set()) == moved


@pytest.mark.parametrize("files", [V1, HYBRID])
def test_v1_has_a_cgroup_in_each_hierarchy_and_all_cpus_in_a_cpuset(tmp_path: Path, files) -> None:
    check_cgroups(make(tmp_path, files))
    cgroup = Cgroup("all", tmp_path)
    assert cgroup.folders() == []
    cgroup.make("node1")
    assert cgroup.folders() == [tmp_path / name / "all" for name in ("cpu", "cpuset", "memory", "pids")]
    assert all((folder / "node1").is_dir() for folder in cgroup.folders())
    assert (tmp_path / "cpuset" / "all" / "cpuset.cpus").read_text() == "0-1\n"
    assert (tmp_path / "cpuset" / "all" / "node1" / "cpuset.mems").read_text() == "0\n"


@pytest.mark.parametrize(
    ("files", "name", "weight"), [(V1, "cpu/all/{}cpu.shares", "10240"), (MACHINE, "all/{}cpu.weight", "1000")]
)
def test_pods_have_the_weight_of_several_processes(tmp_path: Path, files, name: str, weight: str) -> None:
    given = {name.format(node): "1" for node in ("", "node1/")}
    Cgroup("all", make(tmp_path, {**files, **given, "all/node1/cgroup.controllers": ""})).make("node1")
    assert [(tmp_path / one).read_text() for one in given] == [weight] * 2


@pytest.mark.parametrize(("files", "top"), [(MACHINE, "all"), (V1, "memory/all")])
def test_pids_are_those_of_all_descendants_and_of_this_pid_namespace(tmp_path: Path, files, top: str) -> None:
    procs = {"cgroup.procs": "", "node1/cgroup.procs": "0\n12\n", "node1/a/b/cgroup.procs": "7\n0\n"}
    make(tmp_path, {**files, **{f"{top}/{name}": text for name, text in procs.items()}})
    assert Cgroup("all", tmp_path).pids() == [7, 12]


@pytest.mark.parametrize(("files", "top"), [({"cgroup.controllers": ""}, "top"), (V1, "memory/top")])
def test_remove_removes_the_whole_tree_and_no_other(tmp_path: Path, files, top: str) -> None:
    (make(tmp_path, files) / top / "node1" / "kubepods").mkdir(parents=True)
    (tmp_path / f"{top}-2").mkdir()
    Cgroup("top", tmp_path).remove()
    assert not (tmp_path / top).exists()
    assert (tmp_path / f"{top}-2").exists()


@pytest.mark.parametrize(
    ("files", "missing"),
    [
        ({}, "cpu, cpuset, memory, pids"),
        ({"cgroup.controllers": "cpuset cpu io pids\n"}, "memory"),
        ({"unified/cgroup.controllers": "cpu\n", "cpu/tasks": "", "pids/tasks": ""}, "cpuset, memory"),
    ],
)
def test_missing_controllers_are_named(tmp_path: Path, files, missing: str) -> None:
    with pytest.raises(DevstackError, match=f"{re.escape(str(tmp_path))} has no cgroup controller {missing}\n"):
        check_cgroups(make(tmp_path, files))
