"""The waker as a server: listeners for clients, and the address that shows whether it is armed."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from readonly_engine.background import must_not_fail
from readonly_engine.net.interfaces import local_hosts
from readonly_engine.net.tls import Reloaded
from readonly_engine.net.tls_listener import TlsListener
from readonly_engine.wake.arming import Arming
from readonly_engine.wake.connections import WakeConnections
from readonly_engine.wake.session import WakeSession
from readonly_engine.wire.errors import WireError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from readonly_engine.config.kinds import Address
    from readonly_engine.wake.settings import WakeConfig

log = logging.getLogger(__name__)

MAX_BUFFERED_BYTES: Final = 64 << 10
"""Bytes that a client may leave unread. More end its connection: it gets PONGs only."""
CLOSE_S: Final = 1.0
"""Time for connections to close at the end."""


class StartError(Exception):
    """The waker cannot start; the text names the option and the reason."""


class WakeServer:
    """Holds clients until the pool is awake.

    Attributes:
        arming: whether a client needs a broker.
        connections: the open connections.
    """

    def __init__(self) -> None:
        self.arming = Arming()
        self.connections: WakeConnections[WakeConnection] = WakeConnections()
        self._ready: asyncio.Server | None = None
        self._ready_address: Address | None = None
        self._servers: list[asyncio.Server] = []
        self._tls_listeners: list[TlsListener] = []
        self._timer: asyncio.TimerHandle | None = None
        self._opening: asyncio.Task[None] | None = None

    async def start(self, config: WakeConfig) -> None:
        """Listen.

        Raises:
            StartError: an address or a file cannot be used.
        """
        for address in config.listen:
            await _listen("listen", address, self._listen)
        if config.tls_listen:
            try:
                context = Reloaded(config.tls.files, config.tls.server_context)
            except (OSError, ValueError) as error:
                raise StartError(f"--{error}") from error
            for address in config.tls_listen:
                await _listen("tls-listen", address, partial(self._listen_tls, context))
        self._ready_address = config.ready
        await _listen("ready", config.ready, self._open_ready)

    @property
    def ports(self) -> list[int]:
        """The ports for clients, those without TLS first."""
        plain = [int(server.sockets[0].getsockname()[1]) for server in self._servers]
        return plain + [listener.port for listener in self._tls_listeners]

    @property
    def ready_port(self) -> int:
        """The port that accepts connections while the waker is armed; 0 while it is not."""
        return 0 if self._ready is None else int(self._ready.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening, and close all connections: their clients connect to brokers next."""
        if self._timer is not None:
            self._timer.cancel()
        if self._opening is not None:
            self._opening.cancel()
        for server in [*self._servers, *([self._ready] if self._ready else [])]:
            server.close()
        for listener in self._tls_listeners:
            listener.close()
        waiting = self.connections.all()
        for connection in waiting:
            connection.close()
        if waiting:
            log.info("closing the connections of waiting clients: connections=%d", len(waiting))
            await asyncio.wait([connection.lost for connection in waiting], timeout=CLOSE_S)

    def on_request(self, connection: WakeConnection) -> None:
        """Handle a client's request that needs a broker."""
        if self.arming.on_request(asyncio.get_running_loop().time()):
            log.info("a client needs a broker, the pool must wake: client=%s", connection.peer)
            if self._opening is not None:
                self._opening.cancel()
                self._opening = None
            if self._ready is not None:
                self._ready.close()
                self._ready = None
        self.schedule()

    def schedule(self) -> None:
        """Set the timer to the next time at which something ends."""
        times = [one for one in (self.arming.next_timer(), self.connections.next_timer()) if one is not None]
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if times:
            self._timer = asyncio.get_running_loop().call_at(min(times), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for connection in self.connections.on_timer(now):
            connection.abort()
        was_armed = self.arming.armed
        self.arming.on_timer(now)
        if self.arming.armed and not was_armed:
            self._opening = asyncio.get_running_loop().create_task(self._arm_again())
            must_not_fail(self._opening)
        self.schedule()

    async def _arm_again(self) -> None:
        address = self._ready_address
        if address is None:
            return
        try:
            await self._open_ready(address.host, address.port)
        except OSError as error:
            # not ready any more: the operator then wakes the pool, because nobody else would
            log.warning("the address of the readiness probe cannot be listened on: address=%s error=%s", address, error)

    async def _open_ready(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        self._ready = await loop.create_server(_Probe, local_hosts(host), port)

    async def _listen(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_server(lambda: WakeConnection(self), local_hosts(host), port))

    async def _listen_tls(self, context: Reloaded[ssl.SSLContext], host: str, port: int) -> None:
        listener = TlsListener(lambda: WakeConnection(self), context)
        await listener.start(host, port)
        self._tls_listeners.append(listener)


class WakeConnection(asyncio.Protocol):
    """One client.

    Args:
        server: the waker.

    Attributes:
        peer: `HOST:PORT` of the client.
        lost: done when the connection has ended.
    """

    def __init__(self, server: WakeServer) -> None:
        self.peer = "?"
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._server = server
        self._session = WakeSession()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle a new connection (asyncio.Protocol)."""
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "?"
        oldest = self._server.connections.add(self, asyncio.get_running_loop().time())
        if oldest is not None:
            oldest.abort()
        self._server.schedule()

    def data_received(self, data: bytes) -> None:
        """Process received bytes (asyncio.Protocol)."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        try:
            reply = self._session.receive_data(data)
        except WireError as error:
            log.info("protocol error, closing the connection: client=%s error=%s", self.peer, error)
            self.close()
            return
        if reply.connected:
            self._server.connections.on_connected(self)
        if reply.data:
            transport.write(reply.data)
            if transport.get_write_buffer_size() > MAX_BUFFERED_BYTES:
                log.info("client does not read, closing the connection: client=%s", self.peer)
                self.abort()
                return
        if reply.wakes:
            self._server.on_request(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection (asyncio.Protocol)."""
        log.debug("connection lost: client=%s reason=%s", self.peer, exc or "end of stream")
        self._server.connections.remove(self)
        if not self.lost.done():
            self.lost.set_result(None)

    def close(self) -> None:
        """Close the connection after its buffer is sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()


class _Probe(asyncio.Protocol):
    """A connection of the readiness probe, which ends at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


async def _listen(option: str, address: Address, start: Callable[[str, int], Awaitable[None]]) -> None:
    """Start to listen on an address.

    Raises:
        StartError: the address cannot be listened on.
    """
    try:
        await start(address.host, address.port)
    except OSError as error:
        raise StartError(
            f"--{option} {address}: {error.strerror or error}; choose a free address of this machine"
        ) from error
