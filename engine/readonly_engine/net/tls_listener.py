"""TLS listener that follows renewed certificate files."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import TYPE_CHECKING

from readonly_engine.background import run_forever
from readonly_engine.net.tls import HANDSHAKE_TIMEOUT_S

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from readonly_engine.net.tls import Reloaded

log = logging.getLogger(__name__)

POLL_S = 1.0
"""Interval between checks of the files; cheaper than watches for a few files."""


class TlsListener:
    """Accepts clients. An asyncio server keeps its TLS context, so new files need a new server.

    Args:
        make: makes the protocol of a connection.
        context: from the files.
    """

    def __init__(self, make: Callable[[], asyncio.Protocol], context: Reloaded[ssl.SSLContext]) -> None:
        self._make = make
        self._context = context
        self._current = context.get()
        self._servers: list[asyncio.Server] = []
        self._watcher: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int, *, shared: bool = False) -> None:
        """Listen.

        Args:
            host: of this machine.
            port: the port.
            shared: whether other processes listen there too.

        Raises:
            OSError: the address cannot be listened on.
        """
        server = await asyncio.get_running_loop().create_server(
            self._make,
            host,
            port,
            ssl=self._current,
            ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
            reuse_port=shared or None,
        )
        self._servers = [server]
        self._watcher = run_forever(self._watch, "the watch of the certificate")

    @property
    def listening(self) -> bool:
        """Return whether clients can connect."""
        return bool(self._servers) and all(server.is_serving() for server in self._servers)

    @property
    def port(self) -> int:
        """Return the port; the system chooses it for port 0."""
        return int(self._servers[0].sockets[0].getsockname()[1])

    def close(self) -> None:
        """Stop accepting clients."""
        if self._watcher is not None:
            self._watcher.cancel()
        for server in self._servers:
            server.close()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            context = self._context.get()
            if context is not self._current:
                try:
                    await self._listen_with(context)
                except OSError as error:
                    log.warning("clients are not shown the new certificate yet: %s", error)

    async def _listen_with(self, context: ssl.SSLContext) -> None:
        """Replace the servers on the same sockets, so that no client is refused meanwhile."""
        loop = asyncio.get_running_loop()
        made = []
        for listening in [one for server in self._servers for one in server.sockets]:
            again = socket.socket(fileno=os.dup(listening.fileno()))
            made.append(
                await loop.create_server(self._make, sock=again, ssl=context, ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S)
            )
        previous, self._servers, self._current = self._servers, made, context
        for server in previous:
            server.close()
