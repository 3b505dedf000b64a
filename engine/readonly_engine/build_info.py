"""Version, commit, Python and C modules of this installation, for `pulsar-readonly --version`.

The release build writes `build-info.json` into the package. A checkout has none: git names its commit. Other images may name it
in the environment.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Final

from readonly_engine import __version__, native

FILE: Final = "build-info.json"
"""Beside this module; an object with the text `commit`."""
VARIABLE: Final = "PULSAR_READONLY_COMMIT"
"""Variable with the commit in images that were built with --build-arg COMMIT."""
UNKNOWN: Final = "unknown"
_PACKAGE: Final = Path(__file__).resolve().parent
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_GIVEN: Final = re.compile("[0-9a-f]{7,64}")
_GIT_TIMEOUT_S: Final = 10


def content(commit: str) -> str:
    """Return the text of the generated file.

    Args:
        commit: the full hash of the commit that the package is built from.

    Raises:
        ValueError: it is no full hash.
    """
    if not _COMMIT.fullmatch(commit):
        raise ValueError(f"commit must be a full hash of git, 40 or 64 hexadecimal digits, not {commit!r}")
    return json.dumps({"commit": commit}) + "\n"


def commit(package: Path = _PACKAGE) -> str:
    """Return the commit that the package was built from, or that its checkout is at; `unknown` without either.

    A checkout with changed files has the suffix `-dirty`.

    Args:
        package: the folder of the package readonly_engine.
    """
    if not (package / FILE).exists():
        given = os.environ.get(VARIABLE, "")
        return _of_checkout(package.parents[1]) or (given if _GIVEN.fullmatch(given) else UNKNOWN)
    return built_commit(package) or UNKNOWN


def built_commit(package: Path = _PACKAGE) -> str:
    """Return the commit that the package was built from, by its generated file; empty without a valid one.

    Args:
        package: the folder of the package readonly_engine.
    """
    try:
        found = json.loads((package / FILE).read_text(encoding="utf-8"))["commit"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return found if isinstance(found, str) and _COMMIT.fullmatch(found) else ""


def labels() -> dict[str, str]:
    """Return the facts of `report` as labels of a metric. It may start git, so call it once, and outside of an event loop."""
    loaded = [] if os.environ.get(native.PURE_VARIABLE) == "1" else _loaded()
    return {
        "version": __version__,
        "commit": commit(),
        "python": platform.python_version(),
        "native_modules": ",".join(name.rpartition(".")[2].lstrip("_") for name in loaded) or "none",
    }


def report() -> str:
    """Return the lines of `pulsar-readonly --version`."""
    lines = [f"pulsar-readonly {__version__}", f"commit: {commit()}", f"Python: {platform.python_version()}"]
    return "\n".join([*lines, f"native modules: {_native_modules()}"])


def _of_checkout(root: Path) -> str | None:
    """Return the commit of a checkout; None where this folder is not the top of one."""
    # An installed package can be inside of another project's checkout: only the top of this project counts.
    if not ((root / ".git").exists() and (root / "pyproject.toml").exists()):
        return None
    head = _git(root, "rev-parse", "HEAD")
    if head is None or not _COMMIT.fullmatch(head):
        return None
    changes = _git(root, "status", "--porcelain", "--untracked-files=no")
    return f"{head}-dirty" if changes else head


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603 - constant arguments
            ["git", "-C", str(root), *arguments],  # noqa: S607 - the user's git
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},  # the status writes nothing
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _native_modules() -> str:
    if os.environ.get(native.PURE_VARIABLE) == "1":
        return f"none ({native.PURE_VARIABLE}=1)"
    loaded = _loaded()
    missing = [name for name in native.MODULES if name not in loaded]
    return (", ".join(loaded) or "none") + (f"; not loaded: {', '.join(missing)}" if missing else "")


def _loaded() -> list[str]:
    return [name for name in native.MODULES if native.load(name) is not None]
