"""A driver as a process: requests may overlap, each has a deadline."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

DEADLINE_S: Final = 60.0
"""Longer than any operation of a client takes that ends in a timeout of its own (30 s)."""


class OperationError(Exception):
    """The client said no.

    Attributes:
        kind: what it means, in the protocol's words.
        raw: the client's own name for it.
    """

    def __init__(self, kind: str, raw: str, message: str) -> None:
        super().__init__(f"{kind} ({raw}): {message}")
        self.kind = kind
        self.raw = raw


class UnsupportedError(OperationError):
    """This client's API offers no such thing."""


class DriverError(Exception):
    """The driver itself failed: it ended, said nonsense, or did not answer in time."""


class Driver:
    """One driver process.

    Args:
        command: the words that start it.
        log: where its standard error and its client's log go.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._lock = threading.Lock()
        self._ended: str | None = None
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env={**os.environ, "COMPAT_CLIENT_LOG": str(log)},
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        hello = self.call("hello")
        self.client, self.version = str(hello["client"]), str(hello["version"])

    def call(self, op: str, deadline_s: float = DEADLINE_S, **fields: Any) -> dict[str, Any]:
        """Ask, and wait for the answer.

        Raises:
            UnsupportedError: the client offers no such thing.
            OperationError: the client refused or failed.
            DriverError: the driver itself failed.
        """
        # A client that waits for a message has its own deadline for that.
        return self.result(op, self.begin(op, **fields), deadline_s + int(fields.get("timeout_ms") or 0) / 1000)

    def begin(self, op: str, **fields: Any) -> Future[dict[str, Any]]:
        """Ask; the answer comes later."""
        number = next(self._numbers)
        future: Future[dict[str, Any]] = Future()
        line = json.dumps(
            {"request": number, "op": op, **{name: value for name, value in fields.items() if value is not None}}
        )
        with self._lock:
            if self._ended is not None:
                raise DriverError(self._ended)
            self._waiting[number] = future
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(line.encode() + b"\n")
                self._process.stdin.flush()
            except OSError as error:
                raise DriverError(f"the driver takes no requests any more: {error}") from error
        return future

    @staticmethod
    def result(op: str, future: Future[dict[str, Any]], deadline_s: float = DEADLINE_S) -> dict[str, Any]:
        """The answer of something begun; raises as `call` does."""
        try:
            answer = future.result(deadline_s)
        except FutureTimeoutError:
            raise DriverError(f"{op}: no answer after {deadline_s:g} s") from None
        if "ok" in answer:
            return dict(answer["ok"] or {})
        error = answer["error"]
        raised = UnsupportedError if error["kind"] == "Unsupported" else OperationError
        raise raised(error["kind"], error.get("raw", ""), f"{op}: {error.get('message', '')}")

    @property
    def ended(self) -> bool:
        """Whether it is of no use any more: a client can end its whole process."""
        return self._ended is not None

    def close(self) -> None:
        """End it."""
        if self._process.stdin is not None:
            with suppress(OSError):  # it ended by itself
                self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        why = "the driver ended"
        for line in self._process.stdout:
            try:
                answer = json.loads(line)
                future = self._waiting.pop(answer["request"])
            except (ValueError, KeyError, TypeError):
                why = f"the driver said: {line[:200]!r}"
                break
            future.set_result(answer)
        with self._lock:
            self._ended = why
            waiting, self._waiting = list(self._waiting.values()), {}
        for future in waiting:
            future.set_exception(DriverError(why))
