"""A relay of HTTP requests that holds one of them back, until it is told to let it go."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Self

CHUNK_BYTES: Final = 1 << 16
END_S: Final = 10.0
_METHODS: Final = (b"GET ", b"PUT ", b"HEAD ", b"POST ", b"DELETE ")


class HeldRequests:
    """Relays 127.0.0.1:`port` to another port. It holds the first request that is to be held, and all later ones.

    Args:
        target: the other port.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._holds: Callable[[str], bool] | None = None
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._released.set()
        self._dropped = False
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self.held: str | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release(drop=True)
        for each in (self._listener, *self._open):
            _shut(each)
        for thread in self._threads:
            thread.join(END_S)
        self._listener.close()

    def hold(self, holds: Callable[[str], bool]) -> None:
        """Hold a request. `holds` sees the first line of each one, once and in order, until it returns True."""
        with self._lock:
            self._holds, self.held, self._dropped = holds, None, False
            self._released.clear()

    def release(self, *, drop: bool = False) -> None:
        """Let what is held go on, or drop it as at the end, and hold nothing more."""
        with self._lock:
            self._holds, self._dropped = None, drop
            self._released.set()

    def _start(self, run: Callable[..., None], *given: object) -> None:
        self._threads.append(threading.Thread(target=run, args=given, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._open += [client, server]
                for one, other, asks in ((client, server, True), (server, client, False)):
                    self._start(self._relay, one, other, asks)

    def _relay(self, one: socket.socket, other: socket.socket, asks: bool) -> None:
        with suppress(OSError):
            while data := one.recv(CHUNK_BYTES):
                if asks and data.startswith(_METHODS):
                    self._wait(data.partition(b"\r\n")[0].decode(errors="replace"))
                if self._dropped:
                    break
                other.sendall(data)
        _shut(one)
        _shut(other)
        one.close()

    def _wait(self, line: str) -> None:
        with self._lock:
            if self._holds is None:
                return
            if self.held is None and self._holds(line):
                self.held = line
            if self.held is None:
                return
        self._released.wait()


def _shut(one: socket.socket) -> None:
    """End what waits for it, in whatever state it is."""
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
