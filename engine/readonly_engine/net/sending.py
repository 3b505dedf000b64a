"""Direct writes to sockets, without the buffers of the event loop: in C if the module is built, otherwise in Python."""

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

MAX_PIECES: Final = 1024
"""Largest number of pieces that the kernel takes at once (IOV_MAX)."""

_NO_LINGER: Final = struct.pack("ii", 1, 0)


def send_one(descriptor: int, data: bytes) -> int:
    """Write to a non-blocking socket.

    Args:
        descriptor: file descriptor of the socket.
        data: the bytes.

    Returns:
        The number of bytes written; 0 if the socket's buffer is full or the connection is broken.
    """
    try:
        return os.write(descriptor, data)
    except OSError:
        return 0  # the caller gives the rest to the transport, which reports the error


def send_pieces(descriptor: int, pieces: list[bytes | memoryview]) -> int:
    """Write pieces to a non-blocking socket, one after another, without joining them.

    Args:
        descriptor: file descriptor of the socket.
        pieces: the bytes; none of those after MAX_PIECES is written.

    Returns:
        As `send_one`.
    """
    try:
        return os.writev(descriptor, pieces[:MAX_PIECES])
    except OSError:
        return 0


def join_rest(pieces: list[bytes | memoryview], written: int) -> bytes:
    """Return the bytes of pieces after the first `written` ones."""
    for index, piece in enumerate(pieces):
        if written < len(piece):
            return b"".join([memoryview(piece)[written:], *pieces[index + 1 :]])
        written -= len(piece)
    return b""


def discard_on_close(sock: socket.socket) -> None:
    """Make the kernel drop unsent bytes when the socket is closed: the peer may never read them (SO_LINGER 0)."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)


def unsent_bytes(sock: socket.socket) -> int:
    """Return the number of bytes in the send buffer of the kernel, sent but not acknowledged bytes included (TIOCOUTQ)."""
    count = bytearray(4)
    fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, count)
    return int.from_bytes(count, sys.byteorder)


def send_many_in_python(descriptors: list[int], data: bytes) -> list[tuple[int, int]]:
    """Write the same bytes to many non-blocking sockets.

    Args:
        descriptors: file descriptors of the sockets.
        data: the bytes.

    Returns:
        An index in `descriptors` and a number of written bytes for each socket that did not accept all bytes.
    """
    size = len(data)
    taken = [send_one(descriptor, data) for descriptor in descriptors]
    return [(index, count) for index, count in enumerate(taken) if count < size]


_c = native.load("readonly_engine.net._send")

send_many: Final[Callable[[list[int], bytes], list[tuple[int, int]]]] = (
    send_many_in_python if _c is None else _c.send_many
)
"""As `send_many_in_python`. The C version releases the GIL, and adds little to the cost of the system calls."""
