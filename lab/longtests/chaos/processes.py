"""Control of the client nodes' processes by the harness."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

from devstack.errors import DevstackError

if TYPE_CHECKING:
    import signal
    from collections.abc import Sequence
    from pathlib import Path

    from longtests.chaos.net import Network

START_S: Final = 90.0


class ClientProcess:
    """The process of one client node, which can be started again.

    Args:
        node: its name.
        network: its network.
        urls: URLs of the pool.
        folder: folder of its history and log.
        rate: messages per second of each producer.
    """

    def __init__(self, node: str, network: Network, urls: Sequence[str], folder: Path, rate: float) -> None:
        self.node = node
        self._launcher = network.site(node).launcher
        self._urls = ",".join(urls)
        self._folder = folder
        self._rate = rate
        self._runs = 0
        self._process: subprocess.Popen[str] | None = None
        self._answers: SimpleQueue[str] = SimpleQueue()
        self._lock = threading.Lock()

    @property
    def alive(self) -> bool:
        """Return whether the process exists, suspended or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def histories(self) -> list[Path]:
        """Return the histories of its processes, each ordered by time."""
        return [self._folder / f"{self.node}.{run}.jsonl" for run in range(self._runs)]

    def start(self) -> None:
        """Start the process, and wait until it has created its clients.

        Raises:
            DevstackError: the process ended.
        """
        words = [*self._launcher, sys.executable, "-m", "longtests.chaos.clients"]
        words += [self.node, self._urls, str(self._folder), str(self._runs), str(self._rate)]
        errors = (self._folder / f"{self.node}.{self._runs}.err").open("ab")
        with errors:
            process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
        self._runs += 1
        self._process = process
        self._answers = answers = SimpleQueue()

        def listen() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                answers.put(line.strip())
            answers.put("error ended")

        threading.Thread(target=listen, daemon=True).start()
        self._answer("ready", START_S)

    def signal(self, what: signal.Signals) -> None:
        """Send a signal to the process."""
        if self._process is not None:
            self._process.send_signal(what)

    def kill(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def tell(self, command: str, seconds: float) -> None:
        """Send one command, and wait until it is done; one at a time.

        Raises:
            DevstackError: the command failed, or took too long.
        """
        with self._lock:
            assert self._process is not None
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(command + "\n")
                self._process.stdin.flush()
            except OSError as error:
                raise DevstackError(f"{self.node}: {error}") from error
            self._answer(command.split(maxsplit=1)[0], seconds)

    def finish(self, seconds: float) -> None:
        """Close all clients, and end the process."""
        if not self.alive:
            return
        self.tell("finish", seconds)
        assert self._process is not None
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()

    def _answer(self, expected: str, seconds: float) -> None:
        """Wait for the answer to a command; skip answers to earlier commands whose time ran out."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                answer = self._answers.get(timeout=max(deadline - time.monotonic(), 0.0))
            except Empty:
                raise DevstackError(f"{self.node} does not answer {expected} in {seconds:g} s") from None
            verdict, word, *rest = [*answer.split(maxsplit=2), ""]
            if word not in {expected, "ended"}:
                continue
            if verdict != "ok":
                raise DevstackError(f"{self.node}: {word}: {rest[0]}")
            return
