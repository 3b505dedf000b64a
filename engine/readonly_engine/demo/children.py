"""Child processes that end with the demo, also if it is killed."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from readonly_engine.demo.errors import DemoError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
POLL_S: Final = 0.05
TAIL_LINES: Final = 8
LINE_CHARACTERS: Final = 300
_STACK_FRAME: Final = re.compile(r"\s+(at |\.{3} \d+ )")


def cpu_seconds(stat: str) -> float:
    """Return the CPU time, of user and system, in the text of /proc/PID/stat."""
    fields = stat[stat.rindex(")") + 2 :].split()  # the name in parentheses may contain anything
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


class Child:
    """One child process.

    Args:
        name: its name in errors.
        process: the process.
        log: file with its standard error, and with its standard output unless that is read.
    """

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.log = log
        self._process = process
        self._cpu_s = 0.0

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.returncode is None

    def cpu_s(self) -> float:
        """Return the CPU time in seconds; of an ended process, as of the last call."""
        with suppress(OSError, ValueError, IndexError):
            self._cpu_s = max(
                self._cpu_s, cpu_seconds(Path(f"/proc/{self._process.pid}/stat").read_text(encoding="utf-8"))
            )
        return self._cpu_s

    def kill(self) -> None:
        """Send SIGKILL to the process and to all in its session."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM to the process."""
        with suppress(ProcessLookupError):
            self._process.terminate()

    async def output(self) -> str:
        """Wait for its end, and return its standard output.

        Raises:
            DemoError: its exit status is not 0.
        """
        output, _ = await self._process.communicate()
        if self._process.returncode:
            raise self.failed(f"ended with status {self._process.returncode}")
        return output.decode() if output else ""

    async def wait(self) -> None:
        """Wait for its end."""
        await self._process.wait()

    async def ready(self, check: Callable[[], Awaitable[bool]], timeout_s: float) -> None:
        """Wait until a check succeeds.

        Raises:
            DemoError: the process has ended, or the time is over.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while not await check():
                    if not self.alive:
                        raise self.failed(f"ended with status {self._process.returncode} while it started")
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise self.failed(f"is not ready after {timeout_s:g} s") from None

    def failed(self, reason: str) -> DemoError:
        """Return an error with the last lines of the log, without Java's stacks, which would hide the reason."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        lines = [line for line in lines if not _STACK_FRAME.match(line)][-TAIL_LINES:]
        return DemoError("\n    ".join([f"{self.name} {reason}:", *(line[:LINE_CHARACTERS] for line in lines)]))


class Children:
    """All child processes of the demo, each in a session of its own: Ctrl-C reaches the demo only, and it ends them.

    Args:
        folder: folder of their logs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[Child] = []
        # The kernel then ends a child with the demo; util-linux has the program.
        guard = shutil.which("setpriv")
        self._guard = [guard, "--pdeathsig", "KILL", "--"] if guard else []

    async def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None, *, read: bool = False
    ) -> Child:
        """Start a process.

        Args:
            name: its name in errors, and that of its log.
            command: program and arguments.
            environment: variables besides the demo's own.
            read: whether `Child.output` returns its standard output.
        """
        log = self._folder / f"{name.replace(' ', '-')}.log"
        with log.open("ab") as file:
            process = await asyncio.create_subprocess_exec(
                *self._guard,
                *command,
                env={**os.environ, **(environment or {})},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if read else file,
                stderr=file,
                start_new_session=True,
            )
        child = Child(name, process, log)
        self._started.append(child)
        return child

    async def close(self) -> None:
        """End all, the last one first, and wait for their ends."""
        for child in reversed(self._started):
            child.kill()
        for child in self._started:
            await child.wait()
