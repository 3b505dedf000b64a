"""kazoo's sockets: waits in one system call, and TLS with contexts that verify host names and follow changes of their files."""

from __future__ import annotations

import math
import select
import socket
import ssl
from typing import TYPE_CHECKING, Any, Final

from kazoo.handlers.threading import SequentialThreadingHandler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_engine.net.tls import ClientTls


_MS_PER_S: Final = 1000


class PollHandler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo has no types
    """kazoo's threads, which wait by poll(2): kazoo's own select makes and closes an epoll for each of five waits per request."""

    def select(
        self, readable: Sequence[Any], writable: Sequence[Any], _failed: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Wait until a socket is ready.

        Args:
            readable: sockets that may become readable.
            writable: sockets that may become writable.
            _failed: as of select(2); kazoo gives none.
            timeout: limit in seconds; None for no limit.

        Returns:
            The ready ones of each. A broken socket is ready: its next call fails.

        Raises:
            ValueError: a socket is closed.
        """
        poll, events = select.poll(), dict[int, int]()
        for sockets, event in ((readable, select.POLLIN), (writable, select.POLLOUT)):
            for one in sockets:
                events[one.fileno()] = events.get(one.fileno(), 0) | event
        for descriptor, event in events.items():
            poll.register(descriptor, event)
        ready = dict(poll.poll(None if timeout is None else math.ceil(timeout * _MS_PER_S)))
        if any(event & select.POLLNVAL for event in ready.values()):
            raise ValueError("a socket was closed during the wait")
        return (
            [one for one in readable if ready.get(one.fileno(), 0) & ~select.POLLOUT],
            [one for one in writable if ready.get(one.fileno(), 0) & ~select.POLLIN],
            [],
        )


class TlsHandler(PollHandler):
    """kazoo's threads, with sockets of our own.

    kazoo's own TLS accepts TLS 1.0, trusts the system's authorities besides the given ones, and does not verify host names
    unless asked to (kazoo 2.11, create_tcp_connection).

    Args:
        tls: the files of TLS.
    """

    def __init__(self, tls: ClientTls) -> None:
        super().__init__()
        self._tls = tls

    def create_connection(
        self, address: tuple[str, int], hostname: str | None = None, timeout: float | None = None, **_options: object
    ) -> ssl.SSLSocket:
        """Connect, and complete the handshake.

        Args:
            address: address and port of the server.
            hostname: host of the URL, which the certificate must name.
            timeout: limit of each step, in seconds.
            _options: kazoo's own options of TLS, which have no effect here.

        Raises:
            OSError: nothing listens there, or the handshake failed.
        """
        plain = socket.create_connection(address, timeout)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self._tls.context().wrap_socket(plain, server_hostname=hostname or address[0])
        except BaseException:
            plain.close()
            raise

    def select(
        self, readable: Sequence[Any], writable: Sequence[Any], failed: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Wait until a socket is ready. One whose decrypted bytes were not read yet is, though its file descriptor is not."""
        pending = [one for one in readable if isinstance(one, ssl.SSLSocket) and one.pending()]
        rest = [one for one in readable if one not in pending]
        found = super().select(rest, writable, failed, 0 if pending else timeout)
        return [*pending, *found[0]], found[1], found[2]
