"""Edits of a Go module's files for one build, in a copy of the module: what was fetched stays as it is."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from devstack.errors import DevstackError

if TYPE_CHECKING:
    from collections.abc import Mapping


def mended(source: Path, folder: Path, environment: Mapping[str, str]) -> Path:
    """Make edited copies of the modules that `mends.json` names, and return a go.mod that builds with them (-modfile).

    Args:
        source: folder with go.mod, go.sum and mends.json, a list of {"module", "file", "edits": [{"after", "insert"}]}.
        folder: folder for the copies.
        environment: environment of the build.

    Raises:
        DevstackError: a module cannot be fetched, or a text to insert after is not in its file exactly once.
    """
    lines = [(source / "go.mod").read_text()]
    for number, mend in enumerate(json.loads((source / "mends.json").read_text())):
        copy = folder / f"module-{number}"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(_fetched(source, mend["module"], environment), copy, copy_function=shutil.copyfile)
        for path in (copy, *copy.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        _edit(copy / mend["file"], mend["edits"])
        lines.append(f"replace {mend['module']} => {copy}\n")
    made = folder / "go.mod"
    made.write_text("\n".join(lines))
    shutil.copyfile(source / "go.sum", folder / "go.sum")
    return made


def _fetched(source: Path, module: str, environment: Mapping[str, str]) -> Path:
    found = subprocess.run(
        ["go", "mod", "download", "-json", module],
        cwd=source,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if found.returncode != 0:
        raise DevstackError(f"{module} cannot be fetched", found.stdout[-500:])
    return Path(json.loads(found.stdout)["Dir"])


def _edit(path: Path, edits: list[dict[str, str]]) -> None:
    text = path.read_text()
    for edit in edits:
        if text.count(edit["after"]) != 1:
            raise DevstackError(
                f"mends.json: {path.name} does not have {edit['after']!r} exactly once",
                "look whether the module's release still needs the edit",
            )
        text = text.replace(edit["after"], edit["after"] + edit["insert"])
    path.write_text(text)
