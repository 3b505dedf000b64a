"""The state folder remembers a stack, refuses what its data cannot serve, and forgets without trace."""

import dataclasses
import threading
from pathlib import Path
from typing import Any

import pytest

from devstack.common import processes
from devstack.errors import DevstackError
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import METADATA_STORES, STOCK_VERSION, ZOOKEEPER, PulsarSpec, Setting, default_state
from devstack.pulsar.state import StateFolder

SPEC = PulsarSpec(name="dev", bookies=3, base_port=20000, settings=(Setting("broker", "k", "v"),))


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    state = StateFolder(tmp_path / "dev")
    state.make()
    state.store(SPEC)
    return state


def test_the_spec_is_remembered(folder: StateFolder) -> None:
    assert folder.stored() == SPEC


def test_no_stack(tmp_path: Path) -> None:
    state = StateFolder(tmp_path)
    assert state.stored() is None
    state.check(SPEC)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": "dev"}', '{"settings": [], "unknown": 1}'])
def test_a_damaged_spec_is_one_error(folder: StateFolder, text: str) -> None:
    (folder.root / "spec.json").write_text(text)
    with pytest.raises(DevstackError, match=r"spec\.json is damaged"):
        folder.stored()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"name": "other"}, "--name other"),
        ({"version": "3.3.6"}, "--version 3.3.6"),
        ({"base_port": 21000}, "--base-port 21000"),
        ({"bookies": 2}, "--bookies 2"),
    ],
)
def test_what_the_data_cannot_serve_is_refused(folder: StateFolder, change: dict[str, Any], named: str) -> None:
    with pytest.raises(DevstackError) as refused:
        folder.check(dataclasses.replace(SPEC, **change))
    assert str(refused.value).startswith(f"{named}: the stack in {folder.root}")
    assert f"down --state {folder.root} --purge" in refused.value.hint


@pytest.mark.parametrize(
    "change",
    [{"bookies": 4}, {"brokers": 1}, {"explicit_lac_ms": 0}, {"settings": ()}, {"transactions": True}, {"quick": True}],
)
def test_what_only_needs_restarts_is_accepted(folder: StateFolder, change: dict[str, Any]) -> None:
    folder.check(dataclasses.replace(SPEC, **change))


@pytest.mark.parametrize("version", ["4.2.4", "5.0.0-M1"])
@pytest.mark.parametrize("metadata", METADATA_STORES)
def test_each_release_and_store_has_its_own_folder(version: str, metadata: str) -> None:
    spec = dataclasses.replace(SPEC, version=STOCK_VERSION, metadata=ZOOKEEPER)
    assert PulsarCluster(spec).state.root == default_state("dev")
    other = PulsarCluster(dataclasses.replace(spec, version=version, metadata=metadata)).state.root
    assert other.parent == default_state("dev").parent
    assert other.name == f"dev-{version}{'' if metadata == ZOOKEEPER else f'-{metadata}'}"


def test_a_running_stack_of_another_release_is_named(folder: StateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    other = StateFolder(folder.root.parent / "dev-4.2.4")
    assert other.running_sibling(SPEC) is None, "it has no servers"
    folder.record("broker-0").touch()
    monkeypatch.setattr(processes, "running", lambda record: record.exists())
    assert other.running_sibling(SPEC) == folder.root
    assert folder.running_sibling(SPEC) is None, "the stack itself is none of them"
    assert other.running_sibling(dataclasses.replace(SPEC, base_port=21000)) is None
    assert other.running_sibling(dataclasses.replace(SPEC, name="de")) is None
    (folder.root / "spec.json").write_text("{")
    assert other.running_sibling(SPEC) is None


def test_purge_leaves_nothing(folder: StateFolder) -> None:
    (folder.data("bookie-0") / "ledgers").mkdir(parents=True)
    with folder.locked():
        folder.purge()
    assert not folder.root.exists()


def test_purge_leaves_what_is_not_ours(folder: StateFolder) -> None:
    (folder.root / "precious").touch()
    folder.purge()
    assert [path.name for path in folder.root.iterdir()] == ["precious"]


def test_one_command_at_a_time(folder: StateFolder) -> None:
    entered = threading.Event()

    def second() -> None:
        with folder.locked():
            entered.set()

    with folder.locked():
        thread = threading.Thread(target=second)
        thread.start()
        assert not entered.wait(0.3)
    assert entered.wait(10)
    thread.join(10)


def test_down_of_what_never_was_makes_nothing(tmp_path: Path) -> None:
    PulsarCluster(SPEC, tmp_path / "none").down(purge=True)
    assert not (tmp_path / "none").exists()


def test_status_of_what_does_not_run(folder: StateFolder) -> None:
    status = PulsarCluster(SPEC, folder.root).status()
    assert not status.healthy
    assert [server.name for server in status.servers] == [
        "zookeeper",
        *(f"bookie-{i}" for i in range(3)),
        "broker-0",
        "broker-1",
    ]
    assert all(server.pid is None and not server.answers and server.resident_mib == 0 for server in status.servers)
