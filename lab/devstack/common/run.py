"""Run programs with a deadline and one clear error."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from devstack.errors import DevstackError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_TAIL_LINES = 15
_END_S = 10.0
"""Time for a program to end after a signal; then it is killed."""


def tail(text: str, lines: int = _TAIL_LINES) -> str:
    """Return the last lines of a program's output for an error message."""
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
    """Run a program and return its standard output.

    Args:
        argv: program and arguments.
        what: the task, for the error, such as "building the pause image".
        timeout: seconds after which it is killed.
        stdin: text for its standard input; none means an empty one.
        env: its whole environment; the caller's by default.
        cwd: the folder that it starts in.

    Raises:
        DevstackError: it is missing, failed or took too long; the hint holds the end of its error output.
    """
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env, cwd=cwd)
    except FileNotFoundError as error:
        raise DevstackError(f"{what}: the program {argv[0]} is missing") from error
    with process:
        try:
            output, errors = process.communicate(stdin or "", timeout=timeout)
        except subprocess.TimeoutExpired as error:
            raise DevstackError(f"{what}: {argv[0]} did not end within {timeout:.0f} s") from error
        except KeyboardInterrupt:
            _wait(process)  # Ctrl-C has reached the program, too
            raise
        finally:
            if process.poll() is None:
                process.terminate()
                _wait(process)
            process.kill()
    if process.returncode != 0:
        raise DevstackError(f"{what}: {argv[0]} failed with status {process.returncode}", tail(errors or output))
    return output


def _wait(process: subprocess.Popen[str]) -> None:
    """Let a program remove its mounts and files after a signal."""
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=_END_S)


def succeeds(argv: Sequence[str], *, timeout: float = 30, env: Mapping[str, str] | None = None) -> bool:
    """Return whether a program exists and succeeds in time; its output is dropped."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, env=env, check=False
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def wait_until(check: Callable[[], bool], seconds: float, what: str, hint: str = "", pause: float = 0.1) -> None:
    """Wait until a check holds.

    Raises:
        DevstackError: it did not hold in time.
    """
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() >= deadline:
            raise DevstackError(f"{what}: not within {seconds:.0f} s", hint)
        time.sleep(pause)
