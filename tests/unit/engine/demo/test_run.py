"""A failed run of the demo: one clear error, and logs that stay."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from readonly_engine.demo import run
from readonly_engine.demo.children import Children
from readonly_engine.demo.errors import DemoError
from readonly_engine.demo.run import DemoOptions, run_demo, run_folder
from readonly_engine.demo.source_cluster import SourceCluster


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_server_that_cannot_start_is_one_error_with_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    async def start_pulsar(children: Children, *_: object) -> SourceCluster:
        bookie = await children.start("bookie", ["sh", "-c", "echo the disk is full >&2; exit 3"])
        return SourceCluster("zk:127.0.0.1:1", "pulsar://127.0.0.1:1", "http://127.0.0.1:1", 1, bookie)

    monkeypatch.setattr(run, "start_pulsar", start_pulsar)
    with pytest.raises(
        DemoError, match=r"^bookie ended with status 3 while it started:\n    the disk is full\n  logs: "
    ) as raised:
        asyncio.run(run_demo(DemoOptions(pulsar_home=Path("/nowhere"))))
    folder = Path(str(raised.value).rpartition("logs: ")[2])
    assert (folder / "bookie.log").read_text() == "the disk is full\n"


def _run_that_ends(end: BaseException) -> None:
    with run_folder() as folder:
        (folder / "ledgers").mkdir()
        for name in ("broker.log", "broker.conf", "library.so", "ledgers/0.log"):
            (folder / name).touch()
        raise end


@pytest.mark.parametrize(
    ("end", "left"),
    [
        (asyncio.CancelledError(), []),
        (DemoError("lost"), ["broker.conf", "broker.log"]),
        (KeyError("a defect"), ["broker.conf", "broker.log"]),
    ],
)
def test_only_a_failure_leaves_its_logs(temporary: Path, end: BaseException, left: list[str]) -> None:
    with pytest.raises(type(end)) as raised:
        _run_that_ends(end)
    named = [str(raised.value), *getattr(raised.value, "__notes__", [])]
    assert any(f"logs: {temporary}/" in text for text in named) is bool(left)
    assert sorted(path.name for path in temporary.rglob("*") if path.parent != temporary) == left


async def _fails(error: Exception) -> None:
    raise error


def test_a_defect_beside_a_failure_is_not_hidden() -> None:
    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(run.all_or_first_error(_fails(DemoError("ended")), _fails(KeyError("a defect"))))
    assert len(raised.value.exceptions) == 2


def test_a_success_leaves_nothing(temporary: Path) -> None:
    with run_folder() as folder:
        (folder / "broker.log").touch()
    assert not list(temporary.iterdir())
