"""TCP connections and HTTP answers with one deadline for everything: all addresses of a name, all bytes of an answer.

A timeout of a socket counts for one call only. A server that sends a byte now and then, or a name with many addresses, would hold
a thread of the operator for as long as it likes.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import time
from typing import TYPE_CHECKING, Any, cast

from readonly_operator.api.values import qualified

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer


def remaining(deadline: float) -> float:
    """Return the seconds until a time of the monotonic clock.

    Raises:
        TimeoutError: it is over.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def open_connection(
    host: str, port: int, deadline: float, admits: Callable[[str], None] | None = None, namespace: str = ""
) -> socket.socket:
    """Connect to the first address of a host that answers.

    Args:
        host: name or address.
        port: the port.
        deadline: time of the monotonic clock.
        admits: raises an OSError for an IP address that must not be used; None for any.
        namespace: where a short name is looked for first: brokers resolve it in the namespace of their pool.

    Raises:
        OSError: no address answers in time or may be used, or the name does not resolve.
        UnicodeError: the name is not valid.
    """
    failure: OSError = TimeoutError()
    for *form, _, address in _resolved(host, port, namespace):
        opened = socket.socket(*form)
        try:
            if admits is not None:
                admits(str(address[0]))
            opened.settimeout(remaining(deadline))
            opened.connect(address)
        except OSError as error:
            opened.close()
            failure = error
            if time.monotonic() >= deadline:
                break
        else:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return opened
    raise failure


def _resolved(host: str, port: int, namespace: str) -> list[Any]:
    if namespace and (full_name := qualified(host, namespace)) != host:
        with contextlib.suppress(socket.gaierror):
            return socket.getaddrinfo(full_name, port, type=socket.SOCK_STREAM)
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def answer_until(deadline: float, sock: socket.socket, *args: Any, **options: Any) -> http.client.HTTPResponse:
    """Return an answer whose status line, headers and body are read until the deadline; a `response_class` of http.client."""
    return http.client.HTTPResponse(cast("socket.socket", _Readable(sock, deadline)), *args, **options)


class _Readable:
    """A socket as http.client wants it: something that makes a file."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._deadline = deadline

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_DeadlineReader(self._sock, self._deadline))


class _DeadlineReader(io.RawIOBase):
    """Bytes of a socket; a read after the deadline raises TimeoutError."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        super().__init__()
        self._sock = sock
        self._deadline = deadline
        self._file = sock.makefile("rb", buffering=0)  # keeps the socket open after http.client has closed it

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int | None:
        self._sock.settimeout(remaining(self._deadline))
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()
