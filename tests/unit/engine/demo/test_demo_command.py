"""Options of `pulsar-readonly demo`, and its checks before anything is started."""

import asyncio
import os
import tarfile
from pathlib import Path

import pytest
from readonly_engine.demo import distribution
from readonly_engine.demo.command import check_machine, main, options_of, parser
from readonly_engine.demo.console import ask_to_go_on
from readonly_engine.demo.errors import DemoError
from readonly_engine.demo.run import DemoOptions
from readonly_engine.demo.source_cluster import SourceCluster, write_configuration

from devstack.pulsar.distribution import checksums

STORE = ["--metadata-store-url", "zk:a:2181"]
WRITER = ["--service-url", "pulsar://a:6650"]
ADMIN = ["--admin-url", "http://a:8080/"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--messages", "0"], "--messages: '0' is no number of messages; give 1 to 1000000"),
        (["--messages", "1000001"], "give 1 to 1000000"),
        (["--namespace", "default"], "--namespace: 'default' is no namespace; give TENANT/NAMESPACE"),
        (["--metadata-store-url", "a:2181"], "--metadata-store-url: 'a:2181' is no metadata store; give zk:HOST:PORT"),
        (["--service-url", "http://a"], "--service-url: 'http://a' is no service URL; give pulsar://HOST:PORT"),
        (["--admin-url", "a:8080"], "--admin-url: 'a:8080' is no admin API; give http://HOST:PORT"),
        ([*STORE, *ADMIN], "a running cluster needs all of --metadata-store-url, --service-url and --admin-url"),
        ([*STORE, *WRITER, *ADMIN], "there is no terminal to ask in before a topic is created"),
        (["--token-file", "x"], "--token-file goes with --metadata-store-url"),
        (["--pulsar-home", "x", *STORE, *WRITER, *ADMIN], "--pulsar-home starts a Pulsar: leave it out"),
    ],
)
def test_options_that_do_not_fit_are_named(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(words)
    assert raised.value.code == 2
    assert text in capsys.readouterr().err


def test_a_running_cluster_needs_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    made = parser()
    options = options_of(made, made.parse_args([*STORE, *WRITER, *ADMIN, "--yes"]))
    assert check_machine(options).cluster == SourceCluster("zk:a:2181", "pulsar://a:6650", "http://a:8080")


def test_all_missing_programs_are_named_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PULSAR_READONLY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("PULSAR_HOME", raising=False)
    with pytest.raises(DemoError, match=r"missing: java 17 or newer \(default-jre-headless\), mvn \(maven\)"):
        check_machine(DemoOptions())
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("printed", "missing"), [("1.8.0_402", True), ("11.0.2", True), ("17.0.15", False), ("21", False)]
)
def test_the_version_of_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, printed: str, missing: bool) -> None:
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{printed}\" 2025-04-15' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert any("java" in one for one in distribution.missing_programs(tmp_path)) is missing


def test_an_installed_pulsar_is_found_and_a_wrong_folder_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PULSAR_HOME", raising=False)
    assert distribution.installed(None) is None
    with pytest.raises(DemoError, match=r"--pulsar-home .*: there is no bin/pulsar"):
        distribution.installed(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pulsar").touch(mode=0o755)
    assert distribution.installed(tmp_path) == tmp_path
    monkeypatch.setenv("PULSAR_HOME", str(tmp_path))
    assert distribution.installed(None) == tmp_path


def test_the_archive_is_that_of_the_tests() -> None:
    assert checksums()[distribution.VERSION] == distribution.SHA512


def test_no_server_listens_on_other_addresses(tmp_path: Path) -> None:
    conf, folder = tmp_path / "conf", tmp_path / "data"
    conf.mkdir()
    folder.mkdir()
    for name in ("zookeeper.conf", "bookkeeper.conf", "broker.conf"):
        (conf / name).write_text("bindAddress=0.0.0.0\n")
    write_configuration(tmp_path, folder, 1, 2, 3, 4)
    assert "clientPortAddress=127.0.0.1\n" in (folder / "zookeeper.conf").read_text()
    assert "listeningInterface=lo\n" in (folder / "bookkeeper.conf").read_text()
    assert "bindAddress=127.0.0.1\n" in (folder / "broker.conf").read_text()


@pytest.mark.parametrize("filters", [True, False])
def test_an_archive_is_unpacked_also_by_a_python_without_filters(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, filters: bool
) -> None:
    """Debian 12 has Python 3.11.2; `extractall(filter=...)` came with 3.11.4."""
    (tmp_path / "a").write_text("text")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as made:
        made.add(tmp_path / "a", "home/a")
    if not filters:
        plain = tarfile.TarFile.extractall
        monkeypatch.delattr(tarfile, "data_filter")
        monkeypatch.setattr(tarfile.TarFile, "extractall", lambda self, path: plain(self, path, filter="data"))
    distribution.unpack(tmp_path / "a.tar.gz", tmp_path / "out")
    assert (tmp_path / "out" / "home" / "a").read_text() == "text"


def _answer(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.write(writing, text)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        asyncio.run(asyncio.wait_for(ask_to_go_on(), 10))


@pytest.mark.parametrize("text", [b"y\n", b"Yes\n"])
def test_the_demo_goes_on_after(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    _answer(text, monkeypatch)


@pytest.mark.parametrize("text", [b"", b"\n", b"n\n", b"y", b"stop\n"])
def test_the_demo_creates_nothing_after(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DemoError, match="nothing was created"):
        _answer(text, monkeypatch)
