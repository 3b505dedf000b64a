"""Bytes into sockets at once, past the event loop's buffers: in C where that was built, else in Python."""

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
    """Send into one socket that does not block; returns how many bytes it has taken, 0 where it is broken too.

    Args:
        descriptor: of the socket.
        data: the bytes.
    """
    try:
        return os.write(descriptor, data)
    except OSError:
        return 0  # the transport, which gets what is left, finds out what is wrong


def discard_on_close(sock: socket.socket) -> None:
    """Have the kernel drop what a socket still has to send when it is closed: its peer may never read it."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)


def unsent_bytes(sock: socket.socket) -> int:
    """How much the kernel holds that a socket's peer has not got."""
    count = bytearray(4)
    fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, count)
    return int.from_bytes(count, sys.byteorder)


def send_many_in_python(descriptors: list[int], data: bytes) -> list[tuple[int, int]]:
    """Send the same bytes into many sockets that do not block.

    Args:
        descriptors: of the sockets.
        data: the bytes.

    Returns:
        The sockets that have not taken all of it: their places in the list, and how many bytes each has taken.
    """
    size = len(data)
    taken = [send_one(descriptor, data) for descriptor in descriptors]
    return [(index, count) for index, count in enumerate(taken) if count < size]


_c = native.load("readonly_engine.net._send")

send_many: Final[Callable[[list[int], bytes], list[tuple[int, int]]]] = (
    send_many_in_python if _c is None else _c.send_many
)
"""See `send_many_in_python`. The one in C needs no GIL meanwhile, and little more than the kernel does."""
