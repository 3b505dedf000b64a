"""Running other programs: each with a deadline, and with one clear error when it fails."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

from devstack.errors import DevstackError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_TAIL_LINES = 15


def tail(text: str, lines: int = _TAIL_LINES) -> str:
    """The last lines of a program's output, as much as an error message should show."""
    return "\n  ".join(text.strip().splitlines()[-lines:])


def run(
    argv: Sequence[str],
    *,
    what: str,
    timeout: float = 60,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Run a program to its end and return what it wrote to standard output.

    Args:
        argv: program and arguments.
        what: what is being done, for the error: "building the pause image".
        timeout: seconds after which it is killed.
        stdin: text for its standard input; none means an empty one.
        env: its whole environment; the caller's by default.
        cwd: the folder that it starts in.

    Raises:
        DevstackError: it is missing, failed or took too long; the hint holds the end of its error output.
    """
    try:
        done = subprocess.run(
            argv, input=stdin or "", capture_output=True, text=True, timeout=timeout, env=env, cwd=cwd, check=False
        )
    except FileNotFoundError as error:
        raise DevstackError(f"{what}: the program {argv[0]} is missing") from error
    except subprocess.TimeoutExpired as error:
        raise DevstackError(f"{what}: {argv[0]} did not end within {timeout:.0f} s") from error
    if done.returncode != 0:
        raise DevstackError(f"{what}: {argv[0]} failed with status {done.returncode}", tail(done.stderr or done.stdout))
    return done.stdout


def succeeds(argv: Sequence[str], *, timeout: float = 30, env: Mapping[str, str] | None = None) -> bool:
    """Whether a program exists and ends well within the time; its output is dropped."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, env=env, check=False
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def wait_until(check: Callable[[], bool], seconds: float, what: str, hint: str = "", pause: float = 0.1) -> None:
    """Ask until the answer is yes.

    Raises:
        DevstackError: the deadline passed; names `what` was awaited.
    """
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() >= deadline:
            raise DevstackError(f"{what}: not so after {seconds:.0f} s", hint)
        time.sleep(pause)
