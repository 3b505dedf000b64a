"""Builds of programs, in folders of the cache that are named by their content."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Final

from devstack.cache import cache_root, content_key
from devstack.common.locks import file_lock
from devstack.common.run import run
from devstack.console import step
from longtests.frameworks.program import DESCRIPTION

if TYPE_CHECKING:
    from pathlib import Path

    from longtests.frameworks.program import Program

_TIMEOUT_S: Final = 1800.0
_MARK: Final = ".built"
_KEPT: Final = 2
"""Builds of a program that stay in the cache: this one and the one before."""


def ensure_built(program: Program) -> Path:
    """Return the folder of a program that is built; build it if its files have changed.

    The folder has its final name from the beginning, as virtual environments and build tools write paths into their files.

    Raises:
        DevstackError: a command of the build fails, is missing, or takes more than half an hour.
    """
    root = cache_root() / "frameworks"
    folder = root / f"{program.name}-{_key(program)}"
    with file_lock(root / f"{program.name}.lock", f"building {program.name}"):
        if not (folder / _MARK).exists():
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(program.folder, folder)
            for shared in program.shared:
                shutil.copytree(shared, folder / "shared" / shared.name)
            with step(f"building {program.name} {program.version}"):
                for words in program.build:
                    run(words, what=f"building {program.name}", timeout=_TIMEOUT_S, env=build_environment(), cwd=folder)
            (folder / _MARK).touch()
        (folder / _MARK).touch()
        _forget_older(root, program.name)
    return folder


def _key(program: Program) -> str:
    """Return a key of the commands and of all files but the description, whose texts change no build."""
    files = sorted(path for path in program.folder.rglob("*") if path.is_file() and path.name != DESCRIPTION)
    parts = [part for path in files for part in (str(path.relative_to(program.folder)), path)]
    return content_key(json.dumps(program.build), *parts, *program.shared)


def build_environment() -> dict[str, str]:
    """Return the environment of builds: the caller's, without its Python."""
    return {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "PYTHONPATH"}}


def _forget_older(root: Path, name: str) -> None:
    built = [mark.parent for mark in root.glob(f"{name}-*/{_MARK}") if len(mark.parent.name) == len(name) + 17]
    for folder in sorted(built, key=lambda each: (each / _MARK).stat().st_mtime)[:-_KEPT]:
        shutil.rmtree(folder, ignore_errors=True)
