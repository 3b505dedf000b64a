"""The load client: a small Go program (lab/bench/load) with little work per message, controlled over its standard input."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from devstack.cache import content_key
from devstack.clients.making import ensure_folder, program, run
from devstack.errors import DevstackError
from devstack.kube.layout import default_layout
from devstack.kube.programs import go_environment

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

from bench.paths import LOAD_SOURCE

READY_S: Final = 1800.0
"""Time until a client is ready: a stock owner needs minutes for 40,000 subscriptions."""

ANSWER_S: Final = 120.0
_GO_HINT: Final = "run `make system`, or install Go; an old one fetches the version that is needed"
_PREFIX: Final = "bench-load-"


def ensure_load() -> Path:
    """Build the program, once for each content of its folder, and return its path.

    Raises:
        DevstackError: Go is missing, or the program does not compile.
    """

    def make(folder: Path) -> None:
        environment = go_environment(default_layout())
        go = program("go", _GO_HINT, environment["PATH"])
        words = [go, "build", "-ldflags", "-s -w", "-o", str(folder / "load"), "."]
        run("building the load client", words, LOAD_SOURCE, environment)
        for old in folder.parent.glob(f"{_PREFIX}*"):
            shutil.rmtree(old, ignore_errors=True)  # a running program keeps its file

    return ensure_folder(f"{_PREFIX}{content_key(LOAD_SOURCE)}", make) / "load"


@dataclass(frozen=True, slots=True)
class Counted:
    """Counts of a load client since its start.

    Attributes:
        messages: messages received or sent.
        entries: entries; a batch is one.
        bytes: bytes of payloads; of consumers only.
        receipts: receipts; of producers only.
        ended: connections that the broker closed.
        done: whether a producer has sent all messages.
        cpu: CPU seconds of the client itself, in user and kernel mode.
        seconds: time of these counts on the client's clock.
        last: arrival of the last message on the client's clock.
        latency_ms: mean, p50, p90, p99, p999 and worst since the last counts, from the creation of a message to its arrival or
            receipt.
    """

    messages: int
    entries: int
    cpu: float
    seconds: float
    bytes: int = 0
    receipts: int = 0
    ended: int = 0
    done: bool = False
    last: float = 0.0
    latency_ms: dict[str, float] = field(default_factory=dict)


class LoadClient:
    """A running load client, ready after its creation.

    Args:
        role: `consume` or `produce`.
        options: options of the program (`load consume -help` lists them).
        name: name in errors.

    Raises:
        DevstackError: the client could not start.
    """

    def __init__(self, role: str, name: str = "", **options: str | float | bool) -> None:
        words = [str(ensure_load()), role]
        words += [
            f"-{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in options.items()
        ]
        self.name = name or role
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "GOGC": "400"},
        )
        self._rest = b""
        try:
            self.ready_s = float(self._line(READY_S).get("seconds", 0.0))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def counted(self) -> Counted:
        """Return the counts.

        Raises:
            DevstackError: the client has ended or lost a connection.
        """
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise DevstackError(f"the load client ({self.name}) has ended") from error
        answer = self._line(ANSWER_S)
        counted = Counted(
            messages=answer["messages"],
            entries=answer["entries"],
            cpu=answer["cpu"],
            seconds=answer["now_ns"] / 1e9,
            bytes=answer.get("bytes", 0),
            receipts=answer.get("receipts", 0),
            ended=answer["ended"],
            done=answer.get("done", False),
            last=answer.get("last_ns", 0) / 1e9,
            latency_ms=answer["latency_ms"],
        )
        if counted.ended:
            raise DevstackError(
                f"{counted.ended} connections of the load client ({self.name}) were closed by the broker"
            )
        return counted

    def until_messages(self, count: int, timeout_s: float) -> Counted:
        """Wait until the client has a number of messages.

        Raises:
            DevstackError: it has fewer at the deadline.
        """
        deadline = time.monotonic() + timeout_s
        while (counted := self.counted()).messages < count:
            if time.monotonic() > deadline:
                raise DevstackError(f"{self.name}: {counted.messages} of {count} messages after {timeout_s:g} s")
            time.sleep(0.05)
        return counted

    def until_done(self, timeout_s: float) -> Counted:
        """Wait until a producer has sent all messages and has every receipt.

        Raises:
            DevstackError: a receipt is missing at the deadline.
        """
        deadline = time.monotonic() + timeout_s
        while not (counted := self.counted()).done or counted.receipts < counted.entries:
            if time.monotonic() > deadline:
                raise DevstackError(f"{self.name}: {counted.receipts} receipts after {timeout_s:g} s")
            time.sleep(0.05)
        return counted

    def close(self) -> None:
        """End the program."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def _line(self, timeout_s: float) -> Any:
        assert self.process.stdout is not None
        deadline = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(deadline - time.monotonic(), 0)):
                    raise DevstackError(f"the load client ({self.name}) has not answered for {timeout_s:g} s")
                data = os.read(self.process.stdout.fileno(), 1 << 16)
                if not data:
                    raise DevstackError(f"the load client ({self.name}) ended unexpectedly; its error is above")
                self._rest += data
        line, self._rest = self._rest.split(b"\n", 1)
        return json.loads(line)
