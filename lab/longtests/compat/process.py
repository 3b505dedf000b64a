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
"""Longer than any operation of a client with its own timeout (30 s)."""


class OperationError(Exception):
    """The client refused an operation, or failed.

    Attributes:
        kind: kind of the error in the protocol.
        raw: the client's own name for it.
    """

    def __init__(self, kind: str, raw: str, message: str) -> None:
        super().__init__(f"{kind} ({raw}): {message}")
        self.kind = kind
        self.raw = raw


class UnsupportedError(OperationError):
    """This client's API does not offer the operation or option."""


class DriverError(Exception):
    """The driver itself failed: it ended, sent an invalid answer, or did not answer in time."""


class Driver:
    """One driver process.

    Args:
        command: its command line.
        log: file of its standard error, with its client's log.
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
        """Send a request, and wait for its answer.

        Raises:
            UnsupportedError: the client does not offer it.
            OperationError: the client refused or failed.
            DriverError: the driver itself failed.
        """
        # A client that waits for a message has its own deadline.
        return self.result(op, self.begin(op, **fields), deadline_s + int(fields.get("timeout_ms") or 0) / 1000)

    def begin(self, op: str, **fields: Any) -> Future[dict[str, Any]]:
        """Send a request; return the future of its answer."""
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
                raise DriverError(f"the driver accepts no more requests: {error}") from error
        return future

    @staticmethod
    def result(op: str, future: Future[dict[str, Any]], deadline_s: float = DEADLINE_S) -> dict[str, Any]:
        """Return the answer of a request that `begin` sent; raises the errors of `call`."""
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
        """Return whether the process ended: a client can end its whole process."""
        return self._ended is not None

    def close(self) -> None:
        """End it."""
        if self._process.stdin is not None:
            with suppress(OSError):  # the process ended by itself
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
                why = f"the driver answered {line[:200]!r}"
                break
            future.set_result(answer)
        with self._lock:
            self._ended = why
            waiting, self._waiting = list(self._waiting.values()), {}
        for future in waiting:
            future.set_exception(DriverError(why))
