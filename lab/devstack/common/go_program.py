"""A program that is built from a Go module, once for each content of its go.mod and go.sum."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

from devstack.cache import content_key
from devstack.console import step
from devstack.errors import DevstackError
from devstack.kube.layout import default_layout
from devstack.kube.programs import go_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_DEADLINE_S: Final = 1800.0


def built_program(
    source: Path,
    package: str,
    name: str,
    folder: Path,
    mended: Callable[[Path, Path, Mapping[str, str]], Path] | None = None,
) -> Path:
    """Return the program; it is fetched and built when it is not in the folder.

    Args:
        source: folder with go.mod and go.sum.
        package: the Go package of the program.
        name: name of the program, for the file and for messages.
        folder: folder of the cache for its builds.
        mended: makes another go.mod from the source, a folder for its files, and the environment; None for the source's.

    Raises:
        DevstackError: Go is missing, or the build failed.
    """
    program = folder / content_key(source) / name.lower()
    if program.exists():
        return program
    if shutil.which("go") is None:
        raise DevstackError(
            f"the program go is missing: {name} is built with it",
            "make system, or install Go and put it on the PATH; an old one fetches the version that is needed",
        )
    program.parent.mkdir(parents=True, exist_ok=True)
    draft = program.with_name(f".{program.name}.{os.getpid()}")
    environment = go_environment(default_layout())
    try:
        with step(f"building {name} from its Go module (some minutes the first time)"):
            edited = () if mended is None else ("-modfile", str(mended(source, program.parent, environment)))
            built = subprocess.run(
                ["go", "build", *edited, "-ldflags", "-s -w", "-o", str(draft), package],
                cwd=source,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_DEADLINE_S,
                check=False,
            )
        if built.returncode != 0:
            lines = [line for line in built.stderr.splitlines() if not line.startswith("go: downloading")]
            raise DevstackError(f"building {name} failed with status {built.returncode}", "\n    ".join(lines[-8:]))
        draft.replace(program)
    except subprocess.TimeoutExpired:
        raise DevstackError(
            f"building {name} took more than {_DEADLINE_S / 60:.0f} minutes", "see the network"
        ) from None
    finally:
        draft.unlink(missing_ok=True)
    return program
