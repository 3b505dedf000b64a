"""The command line of `python -m devstack pulsar`: what it refuses, and that it touches nothing then."""

import argparse
import json
from pathlib import Path

import pytest

from devstack.errors import DevstackError
from devstack.pulsar import command
from devstack.pulsar.distribution import checksums, ensure_tarball
from devstack.pulsar.spec import PulsarSpec
from devstack.pulsar.state import StateFolder


def run(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_commands(parser)
    args = parser.parse_args(argv)
    return int(args.run(args))


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PULSAR_READONLY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (("up", "--set", "nonsense"), "--set nonsense"),
        (("up", "--brokers", "0"), "--brokers 0"),
        (("up", "--version", "4.0.7"), "--version 4.0.7: no checksum is pinned"),
        (("up", "--name", "a/b"), "--name a/b"),
        (("down", "--name", "a/b"), "--name a/b"),
        (("status", "--name", "a/b"), "--name a/b"),
        (("status", "--name", "none"), "there is no stack in"),
        (("fetch", "--version", "1.0.0"), "--version 1.0.0: no checksum is pinned"),
    ],
)
def test_one_clear_error(argv: tuple[str, ...], named: str) -> None:
    with pytest.raises(DevstackError) as refused:
        run(*argv)
    assert str(refused.value).startswith(named)
    assert refused.value.hint


def test_status_of_a_stopped_stack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = StateFolder(tmp_path / "old")
    state.make()
    state.store(PulsarSpec(name="old", version="3.3.6", brokers=1))
    assert run("status", "--state", str(state.root), "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["name"], told["version"], told["healthy"]) == ("old", "3.3.6", False)
    assert told["endpoints"]["brokers"] == ["pulsar://127.0.0.1:16650"]
    assert run("status", "--state", str(state.root)) == 1
    assert "broker-0" in capsys.readouterr().out


def test_down_works_even_with_a_damaged_spec(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "old")
    state.make()
    (state.root / "spec.json").write_text("{")
    assert run("down", "--state", str(state.root), "--purge") == 0
    assert not state.root.exists()


def test_pinned_checksums_are_sha512() -> None:
    pinned = checksums()
    assert {"4.0.8", "3.3.6"} <= set(pinned)
    assert all(len(bytes.fromhex(digest)) == 64 for digest in pinned.values())


def test_without_maven_the_archive_cannot_be_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DevstackError, match="mvn is missing"):
        ensure_tarball("4.0.8")
