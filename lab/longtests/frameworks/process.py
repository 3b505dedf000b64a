"""A program as a process: its events so far, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from longtests.frameworks.build import build_environment
from longtests.frameworks.events import Events

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_POLL_INTERVAL_S: Final = 0.02


class ProgramProcess:
    """One run of a program, in a process group of its own.

    Args:
        words: its command line.
        folder: the folder of its build.
        settings: its environment, in addition to this process's.
        log: file of its standard error; standard output is added with a mark.
    """

    def __init__(self, words: Sequence[str], folder: Path, settings: Mapping[str, str], log: Path) -> None:
        self.events = Events()
        self._log = log.open("ab", buffering=0)
        self._process = subprocess.Popen(
            list(words),
            cwd=folder,
            env={**build_environment(), **settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, condition: Callable[[Events], bool], deadline: float) -> bool:
        """Wait until the events fulfil a condition; return whether they do before the deadline or the program's end."""
        while not condition(self.events):
            if time.monotonic() > deadline or not self._reader.is_alive():
                return condition(self.events)
            self._reader.join(_POLL_INTERVAL_S)
        return True

    def wait_end(self, deadline: float) -> int | None:
        """Wait for its end; return its exit status, or None after the deadline, when it is killed."""
        try:
            status: int | None = self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            status = None
        self.close()
        return status

    def close(self) -> None:
        """Kill what is left of its process group."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._log.write(b"> " + line)
            self.events.add_line(line.decode(errors="replace"))
