"""The lease of a table outside of local file systems: numbered files in the table's folder.

The highest number holds the lease. Each number is created once, by a conditional write that fails if the file exists. The holder
renews its file. If a waiting export sees no renewal for LEASE_S by its own clock, it creates the next number. So no clocks are
compared, and only one of several waiting exports gets the next number.
"""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from readonly_spark.export.errors import ExportError

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_spark.export.files import Files

FOLDER: Final = "_pulsar-readonly/lease"
LEASE_S: Final = 60.0
RENEW_S: Final = 10.0
POLL_S: Final = 1.0
_FREE: Final = b"free\n"
"""The content of a released lease."""


class Lease:
    """A held lease.

    Args:
        files: the table's folder.
        wait: waits this many seconds.
        clock: returns seconds of a monotonic clock.

    Raises:
        ExportError: another export holds the lease, or it cannot be written.
    """

    def __init__(
        self,
        files: Files,
        wait: Callable[[float], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files = files
        self._closed = threading.Event()
        self._wait = wait or self._closed.wait
        self._clock = clock
        self._who = f"process {os.getpid()} on {os.uname().nodename}"
        self._nonce = uuid4().hex
        self._count = 0
        self._lock = threading.Lock()
        self._number = self._take()
        self._renewed = clock()
        self._thread = threading.Thread(target=self._renew_loop, name="table-lease", daemon=True)

    def start(self) -> None:
        """Start to renew the lease periodically."""
        self._thread.start()

    def _take(self) -> int:
        first: tuple[int, bytes] | None = None
        since = self._clock()
        while True:
            number = max(self._numbers(), default=0)
            content = (self._files.read(self._name(number)) or b"") if number else _FREE
            if content == _FREE or (first == (number, content) and self._clock() - since >= LEASE_S):
                if not self._files.create(self._name(number + 1), self._content()):
                    raise self._in_use(self._files.read(self._name(number + 1)) or b"")
                for old in self._numbers():
                    if old <= number:
                        self._files.remove(self._name(old))
                return number + 1
            if first is None:
                first, since = (number, content), self._clock()
            elif first != (number, content):
                raise self._in_use(content)
            self._wait(POLL_S)

    def _in_use(self, content: bytes) -> ExportError:
        return ExportError(
            f"--to {self._files.where} is in use by another export ({_holder(content)}); wait for its end"
        )

    def _numbers(self) -> list[int]:
        return [int(name) for name in self._files.names(FOLDER) if name.isdecimal()]

    @staticmethod
    def _name(number: int) -> str:
        return f"{FOLDER}/{number}"

    def _content(self) -> bytes:
        self._count += 1
        return json.dumps({"holder": self._who, "nonce": self._nonce, "renewed": self._count}).encode()

    def _renew_loop(self) -> None:
        while not self._closed.wait(RENEW_S):
            try:
                self.renew()
            except ExportError:
                continue  # `check` fails after LEASE_S / 2

    def renew(self) -> None:
        """Renew the lease unless another export has taken it over."""
        with self._lock:
            if self._closed.is_set() or not self._is_newest():
                return
            began = self._clock()
            self._files.write(self._name(self._number), self._content())
            self._renewed = began

    def _is_newest(self) -> bool:
        return max(self._numbers(), default=0) == self._number

    def check(self) -> None:
        """Check before a commit that the lease is still held.

        Raises:
            ExportError: another export has taken over, or may have.
        """
        if self._clock() - self._renewed > LEASE_S / 2:
            self.renew()
        if not self._is_newest() or self._clock() - self._renewed > LEASE_S / 2:
            raise ExportError(
                f"--to {self._files.where}: the lease was not renewed in time, and another export may have taken over; "
                "run the export again"
            )

    def close(self) -> None:
        """Release the lease."""
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
            with suppress(ExportError):  # the lease expires without renewal
                if self._is_newest():
                    self._files.write(self._name(self._number), _FREE)


def _holder(content: bytes) -> str:
    try:
        return str(json.loads(content)["holder"])
    except (ValueError, LookupError, TypeError):
        return "unknown"
