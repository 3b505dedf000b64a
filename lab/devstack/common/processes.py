"""Server processes that outlive the command that started them, identified by pid and start time."""

from __future__ import annotations

import hashlib
import json
import os
import select
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devstack.console import say
from devstack.errors import DevstackError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_LOOPBACK: Final = "127.0.0.1"

_LAUNCH: Final = 'log=$1; shift; "$@" >"$log" 2>&1 </dev/null & echo $!'
_KILL_SECONDS: Final = 10.0
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_READY_POLL_S: Final = 0.1
_TAIL_LINES: Final = 12


@dataclass(frozen=True, slots=True)
class Running:
    """A live process.

    Attributes:
        pid: its process id.
        start_ticks: when it started, in clock ticks since boot; with the boot id this makes a reused pid recognisable.
        fingerprint: what it was started with.
    """

    pid: int
    start_ticks: int
    fingerprint: str

    def resident_bytes(self) -> int:
        """Resident memory; 0 when the process is gone."""
        return resident_bytes(self.pid)


@dataclass(frozen=True, slots=True)
class Server:
    """A server program with its pid file and log.

    Attributes:
        name: `zookeeper`, `bookie-0`, `broker-1`.
        port: the port that answers once the server is up.
        argv: the command line; it must end up as the process itself (exec), not as its parent.
        env: variables set besides the caller's own.
        record: the pid file.
        log: standard output and error of the latest start; the one before is kept beside it as `.1`.
        config: the text of its configuration file, part of the fingerprint.
        host: where that port is.
    """

    name: str
    port: int
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(hash=False)
    record: Path
    log: Path
    config: str
    host: str = _LOOPBACK

    @property
    def fingerprint(self) -> str:
        """Changes when a restart would run something else."""
        text = json.dumps([self.argv, sorted(self.env.items()), self.config])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def running(self) -> Running | None:
        """Return the recorded process if it is alive and still the same one."""
        return running(self.record)

    def start(self) -> Running:
        """Start it in a session of its own and record it.

        Raises:
            DevstackError: the process cannot be started or ended at once.
        """
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.record.parent.mkdir(parents=True, exist_ok=True)
        if self.log.exists():
            self.log.replace(self.log.with_name(f"{self.log.name}.1"))
        # A shell in between makes the server a child of init, which reaps it.
        launched = subprocess.run(
            ["sh", "-c", _LAUNCH, "sh", str(self.log), *self.argv],
            env={**os.environ, **self.env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
            start_new_session=True,
        )
        pid = int(launched.stdout)
        ticks = start_ticks(pid)
        if ticks is None:
            raise self.died()
        process = Running(pid, ticks, self.fingerprint)
        record = {"pid": pid, "start_ticks": ticks, "boot": _boot_id(), "fingerprint": process.fingerprint}
        partial = self.record.with_suffix(".new")
        partial.write_text(json.dumps(record))
        partial.replace(self.record)
        return process

    def answers(self, timeout: float = 1.0) -> bool:
        """Return whether its port accepts a connection."""
        return port_answers(self.port, timeout, self.host)

    def await_ready(self, ready: Callable[[], bool], seconds: float) -> None:
        """Wait until it is ready.

        Args:
            ready: returns whether it is.
            seconds: the deadline.

        Raises:
            DevstackError: it has ended, or is not ready in time.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            if self.running() is None:
                raise self.died()
            if time.monotonic() > deadline:
                raise DevstackError(f"{self.name} is not ready after {seconds:.0f} s", f"log: {self.log}")
            time.sleep(_READY_POLL_S)

    def died(self) -> DevstackError:
        """Return an error with the last lines of the server's log."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        tail = "\n    ".join(line[:300] for line in lines[-_TAIL_LINES:])
        return DevstackError(
            f"{self.name} ended while it started; the last lines of its log:\n    {tail}", f"log: {self.log}"
        )


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def port_answers(port: int, timeout: float = 1.0, host: str = _LOOPBACK) -> bool:
    """Return whether a port accepts connections."""
    try:
        with socket.create_connection((host, port), timeout=timeout):
            return True
    except OSError:
        return False


def running(record: Path) -> Running | None:
    """Return the process of a pid file if it is alive: same boot, pid and start time, and not a zombie."""
    try:
        stored = json.loads(record.read_text())
        process = Running(int(stored["pid"]), int(stored["start_ticks"]), str(stored["fingerprint"]))
        boot = stored["boot"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if boot != _boot_id() or start_ticks(process.pid) != process.start_ticks:
        return None
    return process


def stop(records: Sequence[Path], seconds: float, sent: signal.Signals = signal.SIGTERM) -> None:
    """Stop processes together: send a signal to each, and SIGKILL to those that are alive after `seconds`.

    Args:
        records: their pid files; a file without a live process is removed.
        seconds: time to end after the first signal.
        sent: the first signal.

    Raises:
        DevstackError: a process survives SIGKILL.
    """
    handles: dict[Path, int] = {}
    try:
        for record in records:
            handle = _open(record)
            if handle is None:
                record.unlink(missing_ok=True)
                continue
            handles[record] = handle
            _signal(handle, sent)
        _wait(handles, seconds)
        for record, handle in handles.items():
            if not _ended(handle):
                say(f"{record.stem} did not stop in {seconds:.0f} s: killing it")
                _signal(handle, signal.SIGKILL)
        _wait(handles, _KILL_SECONDS)
        for record, handle in handles.items():
            if not _ended(handle):
                raise DevstackError(f"{record.stem} does not end, not even by SIGKILL", f"its pid is in {record}")
            record.unlink(missing_ok=True)
    finally:
        for handle in handles.values():
            os.close(handle)


def _open(record: Path) -> int | None:
    """Return a pidfd of the recorded process, so that a reused pid cannot be signalled."""
    process = running(record)
    if process is None:
        return None
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    if start_ticks(process.pid) != process.start_ticks:
        os.close(handle)
        return None
    return handle


def _signal(handle: int, sent: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(handle, sent)
    except ProcessLookupError:
        return


def _ended(handle: int) -> bool:
    return bool(select.select([handle], [], [], 0)[0])


def _wait(handles: Mapping[Path, int], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    left = [handle for handle in handles.values() if not _ended(handle)]
    while left and (rest := deadline - time.monotonic()) > 0:
        select.select(left, [], [], rest)
        left = [handle for handle in left if not _ended(handle)]


def start_ticks(pid: int) -> int | None:
    """Return field 22 of /proc/PID/stat; None for no process or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the program's name, in parentheses, may hold anything
    return None if fields[0] in "ZX" else int(fields[19])


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
