"""The stock clients: which there are, that all of each is pinned, and that nothing half made is taken for whole."""

import re
from collections import Counter
from pathlib import Path

import pytest

from devstack.cache import cache_root
from devstack.clients import CLIENTS, java
from devstack.clients.making import ensure_folder, run
from devstack.clients.versions import LOCKS, select
from devstack.errors import DevstackError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULSAR_READONLY_CACHE", str(tmp_path / "cache"))


def test_each_language_has_a_new_release_and_one_of_two_years_ago() -> None:
    assert Counter(client.language for client in CLIENTS) == {"python": 2, "java": 2, "go": 2}
    assert {client.released[:4] for client in CLIENTS} == {"2024", "2026"}


def test_clients_are_chosen_by_language_or_name() -> None:
    assert select([]) == CLIENTS
    assert [str(client) for client in select(["go-0.14.0", "java"])] == ["java-4.2.4", "java-4.0.0", "go-0.14.0"]
    with pytest.raises(DevstackError, match="no client called rust"):
        select(["java", "rust"])


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_all_that_is_fetched_is_pinned(client: object) -> None:
    """Each release's lock file names that release, with checksums."""
    language, version = str(client).split("-")
    match language:
        case "python":
            lock = (LOCKS / f"python-{version}.txt").read_text()
            assert f"pulsar-client=={version} \\\n    --hash=sha256:" in lock
        case "java":
            lock = (LOCKS / f"java-{version}.sha512").read_text()
            assert re.search(rf"^[0-9a-f]{{128}}  pulsar-client-{re.escape(version)}\.jar$", lock, re.MULTILINE)
        case _:
            assert (
                f"\nrequire github.com/apache/pulsar-client-go v{version}\n"
                in (LOCKS / f"go-{version}.mod").read_text()
            )
            assert f"github.com/apache/pulsar-client-go v{version} h1:" in (LOCKS / f"go-{version}.sum").read_text()


def test_a_folder_is_made_once() -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "file").write_text("whole")

    first, second = ensure_folder("a-1", make), ensure_folder("a-1", make)
    assert first == second
    assert (first / "file").read_text() == "whole"
    assert len(made) == 1


def test_a_folder_that_failed_is_not_there() -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise DevstackError("no network")

    with pytest.raises(DevstackError, match="no network"):
        ensure_folder("a-1", fail)
    assert list((cache_root() / "clients").iterdir()) == []


def test_of_two_that_make_the_same_the_first_one_counts() -> None:
    def make(folder: Path) -> None:
        (folder / "file").write_text("second")
        other = folder.parent / "a-1"
        other.mkdir()
        (other / "file").write_text("first")

    assert (ensure_folder("a-1", make) / "file").read_text() == "first"


def test_a_jar_that_is_not_the_pinned_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def copy(_: str, folder: Path) -> None:
        (folder / "pulsar-client-4.2.4.jar").write_bytes(b"not it")

    monkeypatch.setattr(java, "_copy", copy)
    with pytest.raises(DevstackError, match=r"4\.2\.4 are not the pinned ones: .*pulsar-client-4\.2\.4\.jar"):
        java.ensure_java("4.2.4", LOCKS, "Driver")


def test_what_a_tool_says_is_in_the_error() -> None:
    with pytest.raises(DevstackError, match="listing failed with status 3") as error:
        run("listing", ["bash", "-c", "echo go: downloading x; echo why >&2; exit 3"])
    assert error.value.hint == "why"
