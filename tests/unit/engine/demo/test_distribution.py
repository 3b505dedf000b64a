"""The download of the stock Pulsar: its progress, and Maven's errors."""

import asyncio
import gc
from pathlib import Path

import pytest
from readonly_engine.demo import distribution
from readonly_engine.demo.children import Children
from readonly_engine.demo.errors import DemoError

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
