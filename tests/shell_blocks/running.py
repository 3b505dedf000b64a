"""Runs blocks of pages as they are, with programs and names of a test in place of those of the page."""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.shell_blocks.blocks import ROOT, Block, of_page

LINKS: Final = ("charts", "crds", "examples", "manifests")
"""Folders of the repository that commands name."""

LIMIT_S: Final = 420


def find(page: str, begin: str) -> Block:
    """Return the one block of a page whose first line begins so.

    Raises:
        LookupError: there is none, or more than one.
    """
    found = [block for block in of_page(page) if block.first.startswith(begin)]
    if len(found) != 1:
        raise LookupError(f"{page}: {len(found)} blocks begin with {begin!r}")
    return found[0]


class Shell:
    """A folder in which blocks run, with programs of its own before those of the machine.

    Args:
        folder: an empty one.
        programs: command by the name of a program; the words of the block follow it.
        replaced: texts of blocks, and what takes their place.
        variables: more variables of the environment.
        repository: whether the folder has links to folders of the repository, and its commands come from there. Without it, a
            block has the files of the folder alone.
    """

    def __init__(
        self,
        folder: Path,
        programs: Mapping[str, Sequence[str]],
        replaced: Mapping[str, str],
        variables: Mapping[str, str] | None = None,
        *,
        repository: bool = True,
    ) -> None:
        self.folder = folder
        self._replaced = {**({".venv/bin/": ""} if repository else {}), **replaced}
        tools = folder / ".programs"
        tools.mkdir()
        own = {"pulsar-readonly": (sys.executable, "-m", "readonly_engine.command"), "python": (sys.executable,)}
        own = own if repository else {}
        for name, command in {**own, **programs}.items():
            script = tools / name
            script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', encoding="utf-8")
            script.chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
        if repository:
            for name in LINKS:
                (folder / name).symlink_to(ROOT / name)
            paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
            self.environment["PYTHONPATH"] = ":".join(path for path in paths if path)
        else:
            self.environment = {
                name: value for name, value in self.environment.items() if not name.startswith("PYTHON")
            }
        self.environment |= variables or {}

    def text(self, block: Block, *skipped: str) -> str:
        """Return the lines of a block with the replacements, without those that begin with one of `skipped`.

        Raises:
            LookupError: no line begins so.
        """
        lines = block.text.splitlines()
        for begin in skipped:
            if not any(line.startswith(begin) for line in lines):
                raise LookupError(f"{block.page}: no line begins with {begin!r}")
        text = "\n".join(line for line in lines if not line.startswith(tuple(skipped))) if skipped else block.text
        for old, new in self._replaced.items():
            text = text.replace(old, new)
        return text

    def run(self, block: Block, *skipped: str) -> str:
        """Run a block by bash, which ends at the first error; return its standard output.

        Raises:
            AssertionError: a command failed; its message has both outputs.
        """
        text = self.text(block, *skipped)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, f"{block.page}: {text}\nstatus {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, block: Block, log: Path) -> subprocess.Popen[bytes]:
        """Start the one command of a block that does not end by itself, its output in a file."""
        with log.open("ab") as output:
            return subprocess.Popen(
                ["bash", "-c", f"exec {self.text(block).strip()}"],
                cwd=self.folder,
                env=self.environment,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
            )
