"""Python clients: a virtual environment for each release, from a list of packages with hashes."""

from __future__ import annotations

import sys
import venv
from typing import TYPE_CHECKING

from devstack.cache import content_key
from devstack.clients.making import ensure_folder, program, run
from devstack.clients.versions import LOCKS
from devstack.console import step

if TYPE_CHECKING:
    from pathlib import Path


def ensure_python(version: str) -> Path:
    """The interpreter that has this release of pulsar-client, and avro's package, and nothing else.

    Raises:
        DevstackError: the packages cannot be had.
    """
    requirements = LOCKS / f"python-{version}.txt"

    def make(folder: Path) -> None:
        with step(f"installing the Python client {version}"):
            venv.create(folder, with_pip=False, symlinks=True)
            install = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
            options = ["--disable-pip-version-check", "--no-compile", "--require-hashes", "-r", str(requirements)]
            run(f"installing the Python client {version}", [*install, *options])

    key = content_key(requirements, sys.version, sys.base_prefix)
    return ensure_folder(f"python-{version}-{key}", make) / "bin" / "python"


def lock(version: str) -> None:
    """Resolve the release's packages again, and write down their hashes.

    Raises:
        DevstackError: uv is missing, or finds no solution.
    """
    uv = program("uv", "pip install uv")
    options = ["--python-version", "3.11", "--generate-hashes", "--no-header", "--no-emit-index-url", "--no-annotate"]
    asked = LOCKS / f"python-{version}.in"
    asked.write_text(f"pulsar-client[avro]=={version}\n")
    try:
        output = run(f"locking the Python client {version}", [uv, "pip", "compile", "-q", *options, str(asked)])
    finally:
        asked.unlink()
    (LOCKS / f"python-{version}.txt").write_text(output)
