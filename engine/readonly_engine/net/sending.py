"""Direct writes into sockets, past the event loop's buffers: in C where that was built, else in Python."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys
import termios
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from readonly_engine import native

if TYPE_CHECKING:
    from collections.abc import Callable

_NO_LINGER: Final = struct.pack("ii", 1, 0)


def send_one(descriptor: int, data: bytes) -> int:
    """Write into a non-blocking socket; return the number of bytes that it took, 0 if it is broken.

    Args:
        descriptor: of the socket.
        data: the bytes.
    """
    try:
        return os.write(descriptor, data)
    except OSError:
        return 0  # the transport gets the rest, and finds the error


def discard_on_close(sock: socket.socket) -> None:
    """Have the kernel drop unsent bytes when the socket is closed: its peer may never read them."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)


def unsent_bytes(sock: socket.socket) -> int:
    """Return the number of bytes that the kernel holds and the peer has not acknowledged."""
    count = bytearray(4)
    fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, count)
    return int.from_bytes(count, sys.byteorder)


def send_many_in_python(descriptors: list[int], data: bytes) -> list[tuple[int, int]]:
    """Write the same bytes into many non-blocking sockets.

    Args:
        descriptors: of the sockets.
        data: the bytes.

    Returns:
        The sockets that did not take all bytes: their index in `descriptors`, and the number of bytes taken.
    """
    size = len(data)
    taken = [send_one(descriptor, data) for descriptor in descriptors]
    return [(index, count) for index, count in enumerate(taken) if count < size]


_c = native.load("readonly_engine.net._send")

send_many: Final[Callable[[list[int], bytes], list[tuple[int, int]]]] = (
    send_many_in_python if _c is None else _c.send_many
)
"""As `send_many_in_python`. The C version releases the GIL, and costs little more than the system calls."""
