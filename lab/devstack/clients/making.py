"""Folders of the cache that are made once, by running a tool."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

from devstack.cache import cache_root
from devstack.errors import DevstackError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_DEADLINE_S: Final = 1800.0
_ERROR_LINES: Final = 12


def ensure_folder(name: str, make: Callable[[Path], None]) -> Path:
    """A folder of the cache, filled when it is not there; it appears whole or not at all.

    Args:
        name: with a key of all that the content depends on.
        make: fills the folder that it is given, which is empty.

    Raises:
        DevstackError: what `make` raises.
    """
    folder = cache_root() / "clients" / name
    if folder.is_dir():
        return folder
    draft = folder.with_name(f".{name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        make(draft)
        try:
            draft.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was quicker
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def program(name: str, hint: str, path: str | None = None) -> str:
    """Return the path of a tool.

    Args:
        name: its name.
        hint: the remedy if it is missing.
        path: a PATH to look in; None for the caller's.

    Raises:
        DevstackError: it is not in PATH.
    """
    found = shutil.which(name, path=path)
    if found is None:
        raise DevstackError(f"the program {name} is missing: it makes the clients of `make -C lab compat` ready", hint)
    return found


def run(what: str, words: Sequence[str], cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
    """Run a tool to its end; its standard output.

    Raises:
        DevstackError: it failed, or took more than half an hour.
    """
    try:
        ran = subprocess.run(
            words,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DevstackError(f"{what} took more than {_DEADLINE_S / 60:.0f} minutes", "see the network") from None
    if ran.returncode:
        lines = [line for line in (ran.stdout + ran.stderr).splitlines() if not line.startswith("go: downloading")]
        raise DevstackError(f"{what} failed with status {ran.returncode}", "\n  ".join(lines[-_ERROR_LINES:]))
    return ran.stdout
