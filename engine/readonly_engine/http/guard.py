"""Bound the HTTP port: how many connections there are, how long each request takes, and how many bytes wait.

The port shares its process with the Pulsar port, and may need no credentials. A new connection always gets its chance: it
replaces the one without a request for the longest time. A stranger who holds every place therefore fails no probe of a kubelet.
aiohttp bounds the length of a line and a header, the requests read ahead (32), the time for a body (`lingering_time`), and
the time between two requests (`keepalive_timeout`). This module has the other bounds.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestPayloadError

from readonly_engine.http.access import OPEN
from readonly_engine.net.interfaces import local_hosts

if TYPE_CHECKING:
    import ssl

    from aiohttp.typedefs import Handler, Middleware

    from readonly_engine.http.access import HttpAccess

BACKLOG: Final = 1024
"""Connections that the kernel completes while the event loop is busy. In a flood, a full queue would drop the kubelet's SYN."""

PIECE_BYTES: Final = 64 << 10
"""Bytes of a body that TLS gets at once."""

CLOSE_S: Final = 1.0
"""Seconds for responses under way when the port closes. aiohttp's 60 s would let one client delay the end of the process."""


@dataclass(frozen=True, slots=True)
class HttpBounds:
    """Bounds of one HTTP port.

    Attributes:
        connections: open connections. One more closes the connection whose last request is the longest ago.
        first_request_s: seconds from the connection to its first complete request, with the TLS handshake.
        keep_alive_s: seconds from a response to the next complete request.
        answer_s: seconds from a complete request until its client has read the response.
        request_bytes: bytes of a client's requests, and of their bodies, that wait for the response before them.
        unread_bytes: bytes of responses that clients have not read, of all connections together.
    """

    connections: int = 256
    first_request_s: float = 10.0
    keep_alive_s: float = 90.0
    answer_s: float = 60.0
    request_bytes: int = 64 << 10
    unread_bytes: int = 64 << 20


BOUNDS: Final = HttpBounds()


class _WithoutInvalidRequests(logging.Filter):
    """Drops records about requests that are no valid HTTP.

    aiohttp logs each with a traceback and a part of the request. Anybody could fill the log that way, and a part may be a token.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | RequestPayloadError)


_log = logging.getLogger("readonly_engine.http.requests")
_log.addFilter(_WithoutInvalidRequests())


class HttpPort:
    """Serve an application within the bounds. A connection that exceeds one is aborted.

    Args:
        app: the application, not started yet.
        bounds: the bounds.
        access: TLS and token of the port.
    """

    def __init__(self, app: web.Application, bounds: HttpBounds = BOUNDS, access: HttpAccess = OPEN) -> None:
        app.middlewares.append(self._middleware())
        self.bounds = bounds
        self.access = access
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=_log,
            keepalive_timeout=bounds.keep_alive_s,
            handler_cancellation=True,
            shutdown_timeout=CLOSE_S,
        )
        self._listener: asyncio.Server | None = None
        self._connections: dict[object, _Connection] = {}

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return 0 if self._listener is None else int(self._listener.sockets[0].getsockname()[1])

    def __len__(self) -> int:
        """Return the number of open connections."""
        return len(self._connections)

    async def start(self, host: str, port: int) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be listened on.
        """
        await self._runner.setup()
        server = self._runner.server
        if server is None:
            raise OSError("the HTTP server has ended")
        try:
            self._listener = await asyncio.get_running_loop().create_server(
                lambda: _accepted(_Connection(self, server())), local_hosts(host), port, backlog=BACKLOG
            )
        except OSError:
            await self._runner.cleanup()
            raise

    async def close(self) -> None:
        """Stop listening, and close all connections."""
        if self._listener is not None:
            self._listener.close()
        await self._runner.cleanup()
        for connection in list(self._connections.values()):
            connection.abort()

    def opened(self, connection: _Connection) -> None:
        """Admit a connection; abort the one without a request for the longest time if there are too many."""
        self._connections[connection.inner] = connection
        if len(self._connections) > self.bounds.connections:
            next(iter(self._connections.values())).abort()

    def closed(self, connection: _Connection) -> None:
        """Forget a connection."""
        self._connections.pop(connection.inner, None)

    def _middleware(self) -> Middleware:
        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            connection = self._connections.get(request.protocol)
            if connection is None:
                return web.Response(
                    status=web.HTTPServiceUnavailable.status_code
                )  # the connection was aborted: no client reads this
            del self._connections[connection.inner]
            self._connections[connection.inner] = connection  # now the youngest
            connection.begin()
            try:
                made = self.access.refusal(request.path, request.headers) or await handler(request)
            finally:
                connection.end()
                self._make_room()
            return await self._send(request, made, connection) if self.access.tls else made

        return guard

    async def _send(
        self, request: web.Request, made: web.StreamResponse, connection: _Connection
    ) -> web.StreamResponse:
        """Send a long body in pieces: TLS would take it at once, into a buffer whose size nothing shows."""
        body = made.body if isinstance(made, web.Response) and request.method == "GET" else None
        if not isinstance(body, bytes) or len(body) <= PIECE_BYTES:
            return made
        sent = web.StreamResponse(status=made.status, headers=made.headers)
        sent.content_length = len(body)
        await sent.prepare(request)
        connection.unsent = len(body)
        self._make_room()
        for at in range(0, len(body), PIECE_BYTES):
            await sent.write(body[at : at + PIECE_BYTES])
            connection.unsent -= PIECE_BYTES
        connection.unsent = 0
        await sent.write_eof()
        return sent

    def _make_room(self) -> None:
        """Abort connections whose clients read too little, those with the oldest requests first."""
        unread = {connection: connection.unread_bytes for connection in self._connections.values()}
        total = sum(unread.values())
        for connection, waiting in unread.items():
            if total <= self.bounds.unread_bytes:
                return
            if waiting:
                connection.abort()
                total -= waiting


class _Connection(asyncio.Protocol):
    """One connection: aiohttp's protocol, with deadlines and a count of bytes around it.

    Attributes:
        inner: aiohttp's protocol.
        access: TLS and token of the port.
        unsent: bytes of a body that TLS has not got yet.
    """

    def __init__(self, port: HttpPort, inner: asyncio.Protocol) -> None:
        self.inner = inner
        self.access = port.access
        self.unsent = 0
        self._port = port
        self._bounds = port.bounds
        self._transport: asyncio.Transport | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._running = False
        self._begun = False
        self._received = 0
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def unread_bytes(self) -> int:
        """Bytes of responses that wait for the client."""
        return self.unsent + (0 if self._transport is None else self._transport.get_write_buffer_size())

    def open(self) -> None:
        """Count as a connection from now on."""
        self._set_deadline(self._bounds.first_request_s)
        self._port.opened(self)

    def secure(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        """Begin the TLS handshake. The connection counts already, and its first deadline runs."""
        self._handshake = asyncio.get_running_loop().create_task(self._secure(sock, context))
        self.open()

    async def _secure(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self, sock, ssl=context, ssl_handshake_timeout=self._bounds.first_request_s
            )
        except (OSError, asyncio.CancelledError):
            sock.close()
            self._cancel_deadline()
            self._port.closed(self)

    def abort(self) -> None:
        """End it now. Nothing that waits is sent."""
        self._port.closed(self)
        if self._transport is not None:
            self._transport.abort()
        elif self._handshake is not None:
            self._handshake.cancel()

    def begin(self) -> None:
        """A complete request has come."""
        self._running = self._begun = True
        self._set_deadline(self._bounds.answer_s)

    def end(self) -> None:
        """Its response is made, and is about to be sent."""
        self._running = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.inner.connection_made(transport)
        if self._handshake is None:
            self.open()

    def data_received(self, data: bytes) -> None:
        if not self._running and not self.unread_bytes:
            self._received = 0  # an honest client sends the next request after the response
        self._received += len(data)
        if self._received > self._bounds.request_bytes:
            self.abort()
        else:
            self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self.inner.eof_received()

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        self._port.closed(self)
        self.inner.connection_lost(exc)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()

    def _set_deadline(self, seconds: float) -> None:
        self._cancel_deadline()
        self._deadline = asyncio.get_running_loop().call_later(seconds, self._on_deadline)

    def _on_deadline(self) -> None:
        closing = self._transport is not None and self._transport.is_closing()
        idle = self._begun and not self._running and not self.unread_bytes and not closing
        if not idle:  # aiohttp closes an idle one
            self.abort()


class _Accepted(asyncio.Protocol):
    """A connection of a port with TLS, before its handshake.

    It gives a duplicate of its socket to the handshake. A server that did the handshake itself would not show the connection
    before the end: strangers could then open more of them than the bound.

    Args:
        connection: the connection that begins.
        context: TLS context of the server.
    """

    def __init__(self, connection: _Connection, context: ssl.SSLContext) -> None:
        self._connection = connection
        self._context = context

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        sock = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        sock.setblocking(False)
        cast("asyncio.Transport", transport).abort()
        self._connection.secure(sock, self._context)


def _accepted(connection: _Connection) -> asyncio.Protocol:
    """Return the protocol of a new connection: itself without TLS."""
    context = connection.access.context()
    return connection if context is None else _Accepted(connection, context)
