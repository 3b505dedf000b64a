"""Processes of nodes, which outlive the command that starts them. Records of pid and start time identify them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from devstack.cache import content_key
from devstack.common.processes import start_ticks
from devstack.common.run import tail, wait_until
from devstack.errors import DevstackError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def only_child(pid: int) -> int | None:
    """Return the first child of a process, None without one. `unshare --fork` and `nsenter --pid` have only the program."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(children[0]) if children else None


def resume(pid: int) -> None:
    """Continue a stopped process and its wrapper: `nsenter` stops itself when its child is stopped.

    A stopped wrapper does not reap its child, so the child's namespaces would never end.
    """
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        wrapper = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        for one in (pid, wrapper):
            if one > 1:
                os.kill(one, signal.SIGCONT)


class NodeProcesses:
    """The processes of one cluster, by name.

    Args:
        folder: folder of the records.
        logs: folder of the output, as NAME.log.
    """

    def __init__(self, folder: Path, logs: Path) -> None:
        self._folder = folder
        self._logs = logs

    def names(self) -> list[str]:
        """Return every recorded process, alive or not."""
        return sorted(path.stem for path in self._folder.glob("*.json"))

    def pid(self, name: str) -> int | None:
        """Return the process id on the host; None if it does not run."""
        record = self._record(name)
        if record is None or start_ticks(int(record["pid"])) != int(record["started"]):
            return None
        return int(record["pid"])

    def log_tail(self, name: str) -> str:
        """Return the end of a process's output, for error messages."""
        path = self._logs / f"{name}.log"
        return tail(path.read_text(errors="replace")) if path.exists() else "(no output)"

    def ensure(self, name: str, argv: Sequence[str], *, wrapper: Sequence[str], env: Mapping[str, str]) -> bool:
        """Start a process unless it runs with the same arguments; restart it for other arguments.

        Args:
            name: name of the process.
            argv: program and arguments, in the node.
            wrapper: command that enters or creates the namespaces, with the process as its only child.
            env: the complete environment.

        Returns:
            Whether the process was started.

        Raises:
            DevstackError: the process ended at once.
        """
        key = content_key("\0".join(argv))
        record = self._record(name)
        if record is not None and self.pid(name) is not None:
            if record["key"] == key:
                return False
            self.stop(name)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        outer = os.posix_spawnp(
            wrapper[0],
            [*wrapper, *argv],
            dict(env),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (
                    os.POSIX_SPAWN_OPEN,
                    1,
                    str(self._logs / f"{name}.log"),
                    os.O_WRONLY | os.O_CREAT | os.O_APPEND,
                    0o644,
                ),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        wait_until(
            lambda: only_child(outer) is not None or start_ticks(outer) is None, 10, f"starting {name}", pause=0.01
        )
        pid = only_child(outer)
        started = None if pid is None else start_ticks(pid)
        if pid is None or started is None:
            raise DevstackError(f"{name} ended right after its start", self.log_tail(name))
        path = self._folder / f"{name}.json"
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps({"pid": pid, "started": started, "key": key}))
        draft.replace(path)
        return True

    def require(self, name: str) -> None:
        """Check that a process is alive.

        Raises:
            DevstackError: the process has ended; the hint is the end of its output.
        """
        if self.pid(name) is None:
            raise DevstackError(f"{name} has ended", self.log_tail(name))

    def stop(self, name: str, sig: signal.Signals = signal.SIGTERM, patience: float = 5.0) -> None:
        """Stop a process and remove its record; kill it if it is alive after `patience` seconds."""
        pid = self.pid(name)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sig)
                resume(pid)
                if not self._gone(name, patience):
                    os.kill(pid, signal.SIGKILL)
            if not self._gone(name, 20):
                raise DevstackError(f"process {pid} ({name}) does not end after SIGKILL")
        (self._folder / f"{name}.json").unlink(missing_ok=True)

    def _gone(self, name: str, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.pid(name) is not None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)
        return True

    def _record(self, name: str) -> dict[str, str] | None:
        try:
            record: dict[str, str] = json.loads((self._folder / f"{name}.json").read_text())
        except FileNotFoundError:
            return None
        return record
