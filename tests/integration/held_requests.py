"""A relay of HTTP requests that holds one of them back, until it is told to let it go."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK_BYTES: Final = 1 << 16
_METHODS: Final = (b"GET ", b"PUT ", b"HEAD ", b"POST ", b"DELETE ")


class HeldRequests:
    """Relays 127.0.0.1:`port` to another port. The first request that is to be held, and all later ones, wait for `release`.

    Args:
        target: the other port.
        holds: whether a request is to be held, by its first line; it sees each line once, in order.
    """

    def __init__(self, target: int, holds: Callable[[str], bool]) -> None:
        self._target = target
        self._holds = holds
        self._lock = threading.Lock()
        self._released = threading.Event()
        self.held = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        self._listener.close()

    def release(self) -> None:
        """Let what is held go on, and hold nothing more."""
        self._released.set()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                for one, other, asks in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._relay, args=(one, other, asks), daemon=True).start()

    def _relay(self, one: socket.socket, other: socket.socket, asks: bool) -> None:
        with suppress(OSError):
            while data := one.recv(CHUNK_BYTES):
                if asks and data.startswith(_METHODS):
                    self._wait(data.partition(b"\r\n")[0].decode(errors="replace"))
                other.sendall(data)
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _wait(self, line: str) -> None:
        if self._released.is_set():
            return
        with self._lock:
            if not self.held.is_set() and self._holds(line):
                self.held.set()
        if self.held.is_set():
            self._released.wait()
