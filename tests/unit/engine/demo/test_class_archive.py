"""Archives of Java's classes: named by distribution and Java, kept only if complete."""

from pathlib import Path

import pytest
from readonly_engine.demo.class_archive import ROLES, ClassArchives


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("PULSAR_READONLY_CACHE", str(tmp_path / "cache"))
    return program


def test_another_java_or_distribution_has_other_archives(java: Path, tmp_path: Path) -> None:
    folders = [ClassArchives.of(tmp_path / "apache-pulsar-4.0.8").folder, ClassArchives.of(tmp_path / "other").folder]
    java.unlink()
    java.write_text("#!/bin/sh\n# newer\n")
    java.chmod(0o755)
    folders.append(ClassArchives.of(tmp_path / "apache-pulsar-4.0.8").folder)
    assert len(set(folders)) == 3


def test_archives_are_kept_only_if_complete(java: Path, tmp_path: Path) -> None:
    del java
    archives, folder = ClassArchives.of(tmp_path / "pulsar"), tmp_path / "recorded"
    folder.mkdir()
    for role in ROLES[:-1]:
        (folder / f"{role}.jsa").write_text(role)
    assert not archives.store(folder)
    assert not archives.recorded
    (folder / f"{ROLES[-1]}.jsa").write_text("first")
    assert archives.store(folder)
    (folder / f"{ROLES[-1]}.jsa").write_text("second")
    assert archives.store(folder), "another process was first"
    assert (archives.folder / f"{ROLES[-1]}.jsa").read_text() == "first"
    assert [path.name for path in archives.folder.parent.iterdir()] == [archives.folder.name]


def test_a_server_writes_its_archive_or_uses_it(java: Path, tmp_path: Path) -> None:
    del java
    archives = ClassArchives.of(tmp_path / "pulsar")
    recording = archives.environment("broker", tmp_path / "empty", tmp_path / "new")
    using = archives.environment("broker", tmp_path / "empty")
    assert f"-XX:ArchiveClassesAtExit={tmp_path}/new/broker.jsa" in recording["PULSAR_GC_LOG"]
    assert f"-XX:SharedArchiveFile={archives.folder}/broker.jsa" in using["BOOKIE_GC_LOG"]
    # Java refuses a class path with a folder that has files, and the scripts put this file's folder there.
    assert recording["PULSAR_LOG_CONF"] == using["PULSAR_LOG_CONF"] == str(tmp_path / "empty" / "log4j2.yaml")
