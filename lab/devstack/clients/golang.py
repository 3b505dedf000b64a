"""Go clients: a module file with checksums for each release, and a driver built with it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from devstack.cache import content_key
from devstack.clients.making import ensure_folder, program, run
from devstack.clients.versions import LOCKS
from devstack.console import step
from devstack.kube.layout import default_layout
from devstack.kube.programs import go_environment

if TYPE_CHECKING:
    from pathlib import Path

_HINT = "run `make system`, or install Go; an old one fetches the version that is needed"


def ensure_go(version: str, source: Path) -> Path:
    """A program built with this release.

    Args:
        version: the release.
        source: a folder with a main package and a go.mod that only marks the folder: the module file in use is the
            locked one. Files for one release have the build tag `client_` and the version with `_` for each dot.

    Raises:
        DevstackError: Go is missing, or the program does not compile.
    """
    modfile, modsum = (LOCKS / f"go-{version}{suffix}" for suffix in (".mod", ".sum"))
    prefix = f"go-driver-{version}-"

    def make(folder: Path) -> None:
        go = program("go", _HINT, _environment()["PATH"])
        tags = f"client_{version.replace('.', '_')}"
        # Go may rewrite a module file that is not tidy: it gets a copy.
        alternate = shutil.copy(modfile, folder / "driver.mod")
        shutil.copy(modsum, folder / "driver.sum")
        words = [go, "build", f"-modfile={alternate}", "-tags", tags, "-ldflags", "-s -w", "-o", str(folder / "driver")]
        with step(f"building the driver of the Go client {version} (minutes the first time)"):
            run(f"building the driver of the Go client {version}", [*words, "."], source, _environment())
        for old in folder.parent.glob(f"{prefix}*"):
            shutil.rmtree(old, ignore_errors=True)  # a program that runs keeps its file

    return ensure_folder(f"{prefix}{content_key(modfile, modsum, source)}", make) / "driver"


def lock(version: str, source: Path) -> None:
    """Resolve the modules of a driver built with this release again, and write down their checksums.

    Raises:
        DevstackError: Go is missing, or cannot resolve them.
    """
    modfile = LOCKS / f"go-{version}.mod"
    required = f"require github.com/apache/pulsar-client-go v{version}"
    marker = [line for line in (source / "go.mod").read_text().splitlines() if not line.startswith("//")]
    modfile.write_text("\n".join([*marker, required, ""]))
    words = [program("go", _HINT, _environment()["PATH"]), "mod", "tidy", f"-modfile={modfile}"]
    run(f"locking the Go client {version}", words, source, {**_environment(), "GOFLAGS": ""})


def _environment() -> dict[str, str]:
    return go_environment(default_layout())
