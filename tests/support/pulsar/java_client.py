"""The stock Java client at the end of a pipe: the Python client knows no transactions."""

import subprocess
import threading
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final, Self

from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.distribution import ensure_distribution

SOURCE: Final = Path(__file__).parent / "TransactionClient.java"
ANSWER_TIMEOUT_S: Final = 120.0


class JavaClientError(Exception):
    """What the client said went wrong."""


class JavaClient:
    """One process of TransactionClient.java; use it as a context manager.

    Args:
        stack: whose distribution has the client.
        url: where it connects.
        rack: its lookup property of this name; it has no transactions then.
    """

    def __init__(self, stack: PulsarCluster, url: str, rack: str = "") -> None:
        home = ensure_distribution(stack.spec.version)
        self._process = subprocess.Popen(
            [
                "java",
                "-Xmx256m",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                f"{home}/lib/*",
                str(SOURCE),
                url,
                *([rack] if rack else []),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._answers: SimpleQueue[str] = SimpleQueue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def do(self, *words: object) -> str:
        """Run one command; returns what follows "ok".

        Raises:
            JavaClientError: it failed, or there was no answer in time.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def values(self, consumer: str, count: int, wait_ms: int = 20_000) -> list[str]:
        """The values of the next messages of a consumer; fewer where no more come in time."""
        found = []
        for _ in range(count):
            got = self.do("receive", consumer, wait_ms)
            if got == "none":
                break
            found.append(got.split(" ")[1])
        return found

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(("ok", "error")):  # all else is the client's log
                self._answers.put(line.rstrip("\n"))

    def _answer(self) -> str:
        try:
            answer = self._answers.get(timeout=ANSWER_TIMEOUT_S)
        except Empty:
            raise JavaClientError(f"no answer in {ANSWER_TIMEOUT_S:g} s") from None
        said, _, rest = answer.partition(" ")
        if said != "ok":
            raise JavaClientError(rest)
        return rest
