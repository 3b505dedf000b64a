"""TLS listener that reloads renewed certificates."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import TYPE_CHECKING

from readonly_engine.background import run_forever, sleep_to_tick
from readonly_engine.net.interfaces import local_hosts
from readonly_engine.net.tls import HANDSHAKE_TIMEOUT_S

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from readonly_engine.net.tls import Reloaded

log = logging.getLogger(__name__)

POLL_S = 1.0
"""Interval between checks of the files, in seconds. For a few files, polling is cheaper than watches."""


class TlsListener:
    """Accepts connections of clients. An asyncio server keeps its TLS context, so new files need a new server.

    Args:
        make: makes the protocol of a connection.
        context: TLS context from the files.
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
            host: local address, or ALL_INTERFACES.
            port: port; the system chooses it for 0.
            shared: whether other processes listen on the same port (SO_REUSEPORT).

        Raises:
            OSError: the address is not available.
        """
        server = await asyncio.get_running_loop().create_server(
            self._make,
            local_hosts(host),
            port,
            ssl=self._current,
            ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
            reuse_port=shared or None,
        )
        self._servers = [server]
        self._watcher = run_forever(self._watch, "the check for renewed certificates")

    @property
    def listening(self) -> bool:
        """Whether clients can connect."""
        return bool(self._servers) and all(server.is_serving() for server in self._servers)

    @property
    def port(self) -> int:
        """The port of the first socket."""
        return int(self._servers[0].sockets[0].getsockname()[1])

    def close(self) -> None:
        """Stop accepting clients."""
        if self._watcher is not None:
            self._watcher.cancel()
        for server in self._servers:
            server.close()

    async def _watch(self) -> None:
        while True:
            await sleep_to_tick(POLL_S)
            context = self._context.get()
            if context is not self._current:
                try:
                    await self._listen_with(context)
                except OSError as error:
                    log.warning("listening with the new certificate failed, trying again: error=%s", error)

    async def _listen_with(self, context: ssl.SSLContext) -> None:
        """Replace the servers on duplicates of their sockets, so that no connection is refused meanwhile."""
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
