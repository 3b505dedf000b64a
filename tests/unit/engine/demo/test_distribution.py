"""The stock Pulsar: its download and errors of Maven, archives of its classes, and its properties files."""

import asyncio
import gc
from pathlib import Path

import pytest
from readonly_engine.demo import distribution
from readonly_engine.demo.children import Children
from readonly_engine.demo.class_archive import ROLES, ClassArchives
from readonly_engine.demo.errors import DemoError
from readonly_engine.demo.properties import edit_properties

from tests.support.waiting import until

PLUGIN = (
    "Plugin org.apache.maven.plugins:maven-dependency-plugin:3.8.1 or one of its dependencies could not be resolved: "
)
REASON = f"{PLUGIN}{'a descriptor; ' * 30}Could not transfer it from central: name resolution failed: Unknown host"
ADVICE = [
    *("", "To see the full stack trace of the errors, re-run Maven with the -e switch.", "Re-run with -X."),
    *("", "For more information, please read the following articles:", "[Help 1] http://cwiki.apache.org/", "", "", ""),
]


@pytest.mark.parametrize(
    ("output", "reported"),
    [
        (
            ["[INFO] Scanning for projects...", *(f"[ERROR] {line}" for line in (f"{REASON} -> [Help 1]", *ADVICE))],
            f"Maven cannot fetch Pulsar {distribution.VERSION}: {REASON}",
        ),
        (
            ["The JAVA_HOME variable is not defined"],
            "Maven ended with status 1:\n    The JAVA_HOME variable is not defined",
        ),
    ],
    ids=["Maven fails", "Maven does not start"],
)
def test_the_reason_of_a_failed_download_is_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, output: list[str], reported: str
) -> None:
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    maven.write_text("#!/bin/sh\ncat <<'END'\n{}\nEND\nexit 1\n".format("\n".join(output)))
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{maven.parent}:/usr/bin:/bin")
    monkeypatch.setenv("PULSAR_READONLY_CACHE", str(tmp_path / "cache"))
    with pytest.raises(DemoError) as raised:
        asyncio.run(distribution.ensure_distribution(Children(tmp_path)))
    assert str(raised.value) == reported
    assert not list((tmp_path / "cache" / "downloads").iterdir())


async def test_an_interrupted_download_prints_no_traceback(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    maven.write_text("#!/bin/sh\necho runs\nsleep 600\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{maven.parent}:/usr/bin:/bin")
    monkeypatch.setenv("PULSAR_READONLY_CACHE", str(tmp_path / "cache"))
    children = Children(tmp_path)
    fetching = asyncio.ensure_future(distribution.ensure_distribution(children))
    log = tmp_path / "Maven.log"
    await until(lambda: log.exists() and log.read_text())
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    await children.close()
    gc.collect()
    assert "never retrieved" not in caplog.text


@pytest.mark.parametrize(
    ("fetched", "text"),
    [
        (0, "Maven fetches its plug-in"),
        (1_999_999, "1 of 245 MB"),
        (245_494_718, "245 of 245 MB"),
        (266_000_000, "245 of 245 MB"),
    ],
)
def test_the_progress_counts_the_archive_alone(fetched: int, text: str) -> None:
    assert distribution.progress(fetched) == text


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


@pytest.mark.parametrize(
    ("text", "changes", "edited"),
    [
        pytest.param("a=1\nb=2\nc=3\n", {"b": "9"}, "a=1\nb=9\nc=3\n", id="in its line"),
        pytest.param("a=1\nlast=2", {"new": "3"}, "a=1\nlast=2\nnew=3\n", id="a new key after a line without an end"),
        pytest.param("a=1\nlast=2", {"last": "3"}, "a=1\nlast=3\n", id="the last line without an end"),
        pytest.param("k=1\na=2\nk=3\n", {"k": "9"}, "k=9\na=2\n", id="a key given twice is left once"),
        pytest.param("k=1\nk=2\n\n# k=3\n!k=4\nfree text\n", {}, "k=1\nk=2\n\n# k=3\n!k=4\nfree text\n", id="nothing"),
        pytest.param("# k=1\n#k=2\n", {"k": "3"}, "# k=1\n#k=2\nk=3\n", id="comments are no keys"),
        pytest.param("k = 1\n", {"k": "a=b"}, "k=a=b\n", id="spaces around the sign, signs in values"),
        pytest.param("key=1\nkeyTwo=2\n", {"key": "3"}, "key=3\nkeyTwo=2\n", id="a key that begins like another"),
        pytest.param("zkServers=localhost:2181\n", {"zkServers": ""}, "zkServers=\n", id="a value can be emptied"),
    ],
)
def test_keys_are_set_where_they_stand(text: str, changes: dict[str, str], edited: str) -> None:
    assert edit_properties(text, changes) == edited
