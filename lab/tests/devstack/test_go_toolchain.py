"""An old Go of the machine fetches the pinned one, and only that."""

import json
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from devstack.common import go_toolchain
from devstack.errors import DevstackError
from devstack.images.targets import PROJECT

PINNED = ".".join(map(str, go_toolchain.VERSION))
MODULE = f"golang.org/toolchain@v0.0.1-go{PINNED}.linux-amd64"
SUM = go_toolchain._SUMS["amd64"]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder for the programs of a machine, which is its PATH."""
    go_toolchain.program_path.cache_clear()
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    return programs


def install_go(programs: Path, version: str, checksum: str) -> None:
    archive = programs / "toolchain.zip"
    with zipfile.ZipFile(archive, "w") as made:
        for name, text in {
            "bin/go": "#!/bin/sh\necho new\n",
            "pkg/tool/asm": "",
            "src/_go.mod": "module std\n",
        }.items():
            made.writestr(f"{MODULE}/{name}", text)
    fetched = json.dumps({"Sum": checksum, "Zip": str(archive)})
    go = programs / "go"
    go.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        f"'env GOVERSION GOARCH') echo '{version}'; echo amd64 ;;\n"
        f"'mod download -json {MODULE}') echo '{fetched}' ;;\n"
        "*) exit 1\nesac\n"
    )
    go.chmod(0o755)


@pytest.mark.parametrize("version", ["go1.19.8", "go1.24.4", "go1.26.7 X:nocoverageredesign", "go1.26rc2"])
def test_an_older_go_fetches_the_pinned_one_once(machine: Path, tmp_path: Path, version: str) -> None:
    install_go(machine, version, SUM)
    first, _, rest = go_toolchain.program_path(tmp_path / "cache").partition(":")
    assert rest == str(machine)
    home = tmp_path / "cache" / f"go-{PINNED}"
    assert first == str(home / "bin")
    assert subprocess.check_output([f"{first}/go"], text=True) == "new\n"
    assert os.access(home / "pkg" / "tool" / "asm", os.X_OK)
    assert (home / "src" / "go.mod").read_text() == "module std\n"
    (machine / "toolchain.zip").unlink()
    go_toolchain.program_path.cache_clear()
    assert go_toolchain.program_path(tmp_path / "cache").startswith(first)


def test_another_content_is_refused(machine: Path, tmp_path: Path) -> None:
    install_go(machine, "go1.19.8", "h1:other")
    with pytest.raises(DevstackError, match=f"has the checksum h1:other, and {SUM[:20]}.* is pinned"):
        go_toolchain.program_path(tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("version", [f"go{PINNED}", "go1.30", "devel go1.31-d2a0fe7"])
def test_a_newer_go_is_used_as_it_is(machine: Path, tmp_path: Path, version: str) -> None:
    install_go(machine, version, "")
    assert go_toolchain.program_path(tmp_path / "cache") == str(machine)


def test_without_go_nothing_changes(machine: Path, tmp_path: Path) -> None:
    assert go_toolchain.program_path(tmp_path / "cache") == str(machine)


def test_the_pinned_go_is_new_enough_for_each_module() -> None:
    files = [path for path in PROJECT.rglob("go.mod") if ".venv" not in path.parts]
    assert len(files) > 5
    wanted = [
        line for path in files for line in path.read_text().splitlines() if line.startswith(("go ", "toolchain "))
    ]
    assert max(map(go_toolchain.version_of, wanted)) <= go_toolchain.VERSION
