"""A standalone Spark on loopback: a master and workers with one core each, of the installed pyspark.

The package brings no scripts that start these servers; their classes are in its jars.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devstack.errors import DevstackError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

START_TIMEOUT_S: Final = 240.0
STOP_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.1
_DEPLOY: Final = "org.apache.spark.deploy"
_ADDRESS: Final = "127.0.0.1"
_LOG_END: Final = 2000
_EXECUTOR: Final = b"CoarseGrainedExecutorBackend"
_PYTHON: Final = b"pyspark.daemon"
_EMPTY_FOLDER: Final = 'mount -t tmpfs none "$0"; exec "$@"'


class StandaloneSpark:
    """The servers; they run while this is entered. Ports are free ones.

    Args:
        folder: for logs and the files of applications; it is no folder of this project, so that no code is found there by chance.
        workers: how many.
        memory: of each worker, for its executors.
        unshared: a folder of which the last worker sees an empty one of its own, as another machine would. Requires root.
    """

    def __init__(self, folder: Path, workers: int = 2, memory: str = "1g", unshared: Path | None = None) -> None:
        self._folder = folder
        self._workers = workers
        self._memory = memory
        self._unshared = unshared
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._starts = 0
        self.url = ""

    def __enter__(self) -> Self:
        try:
            log = self._start("master", "master.Master", "--host", _ADDRESS, "--port", "0", "--webui-port", "0")
            self.url = self._wait(log, rf"spark://{re.escape(_ADDRESS)}:\d+")
            for number in range(self._workers):
                self.start_worker(number)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all servers."""
        for process in reversed(self._running.values()):
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()

    def start_worker(self, number: int) -> None:
        """Start a worker and wait until the master knows it.

        Raises:
            DevstackError: it does not come up.
        """
        options = ("--host", _ADDRESS, "--cores", "1", "--memory", self._memory, "--webui-port", "0", self.url)
        self._wait(self._start(f"worker-{number}", "worker.Worker", *options), "Successfully registered with master")

    def kill_worker(self, number: int) -> None:
        """Kill -9 of a worker; its executors notice and end."""
        process = self._running.pop(f"worker-{number}")
        process.kill()
        process.wait()

    def executors(self) -> list[int]:
        """The processes in which tasks run."""
        return self._below(_EXECUTOR)

    def python_workers(self) -> list[int]:
        """The Python processes of tasks: those that executors have started, and those that these have forked."""
        return self._below(_PYTHON)

    def pids(self) -> list[int]:
        """The servers; executors are their children."""
        return [process.pid for process in self._running.values()]

    def _below(self, word: bytes) -> list[int]:
        found, left = [], self.pids()
        while left:
            parent = left.pop()
            for file in Path(f"/proc/{parent}/task").glob("*/children"):
                try:
                    children = [int(child) for child in file.read_text(encoding="ascii").split()]
                except OSError:
                    continue  # ended meanwhile
                left += children
                found += [child for child in children if word in _command(child)]
        return found

    def _start(self, name: str, program: str, *words: str) -> Path:
        spec = find_spec("pyspark")
        if spec is None or spec.origin is None:
            raise DevstackError("pyspark is missing", "run `make setup`")
        self._starts += 1
        log = self._folder / f"{name}-{self._starts}.log"
        alone = self._unshared is not None and name == f"worker-{self._workers - 1}"
        prefix = ["unshare", "--mount", "sh", "-ec", _EMPTY_FOLDER, str(self._unshared)] if alone else []
        environment = {
            **os.environ,
            "SPARK_LOCAL_IP": _ADDRESS,
            "SPARK_WORKER_DIR": str(self._folder / "work"),
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
        }
        environment.pop("PYTHONPATH", None)
        script = str(Path(spec.origin).parent / "bin" / "spark-class")
        with log.open("wb") as out:
            self._running[name] = subprocess.Popen(
                [*prefix, script, f"{_DEPLOY}.{program}", *words],
                cwd=self._folder, env=environment, stdout=out, stderr=out,
            )  # fmt: skip
        return log

    @staticmethod
    def _wait(log: Path, expression: str) -> str:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            text = log.read_text(encoding="utf-8", errors="replace")
            found = re.search(expression, text)
            if found:
                return found[0]
            if time.monotonic() > deadline:
                raise DevstackError(f"Spark's {log.stem} does not come up", text[-_LOG_END:])
            time.sleep(_POLL_S)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


__all__ = ["StandaloneSpark"]
