"""Connect to bookies, in clear or with TLS."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from readonly_engine.bookkeeper.errors import BookieUnavailableError
from readonly_engine.wire.bookie import decode_reply, encode_start_tls
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.framing import HANDSHAKE_FRAME_BYTES, FrameSplitter

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from readonly_engine.bookkeeper.connection import BookieConnection
    from readonly_engine.bookkeeper.connection_v2 import BatchConnection

CONNECT_TIMEOUT_S: Final = 5.0
"""Limit for the connection, START_TLS and the TLS handshake together."""

_START_TLS_ID: Final = 1

Connection = TypeVar("Connection", bound="BookieConnection | BatchConnection")


class _StartTls(asyncio.Protocol):
    """Awaits the reply to START_TLS, in clear. `agreed` fails if the bookie refuses or closes the connection."""

    def __init__(self) -> None:
        self._splitter = FrameSplitter(HANDSHAKE_FRAME_BYTES)
        self.agreed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._splitter.receive_data(data):
                _, reply = decode_reply(frame)
                if reply.ok:
                    self._end(None)
                else:
                    self._end(f"it answered {reply.status} to START_TLS: TLS is not set up there")
        except WireError as error:
            self._end(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(f"it closed the connection at START_TLS: {exc or 'end of stream'}")

    def _end(self, why: str | None) -> None:
        if self.agreed.done():
            return
        if why is None:
            self.agreed.set_result(None)
        else:
            self.agreed.set_exception(BookieUnavailableError(why))


async def open_connection(
    make: Callable[[str], Connection], name: str, host: str, port: int, tls: ssl.SSLContext | None = None
) -> Connection:
    """Connect to a bookie.

    Args:
        make: BookieConnection or BatchConnection.
        name: the bookie's id, for messages.
        host: the bookie's host name or address.
        port: the bookie's port.
        tls: encrypt the connection; the handshake follows START_TLS on the same socket.

    Raises:
        BookieUnavailableError: nothing listens at this address, the connection took too long, or the bookie refuses TLS.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            if tls is None:
                _, connection = await loop.create_connection(lambda: make(name), host, port)
                return connection
            return await _open_tls(make, name, host, port, tls)
    except (OSError, TimeoutError, BookieUnavailableError) as error:
        raise BookieUnavailableError(
            f"bookie {name} at {host}:{port} cannot be reached: {error or 'no answer'}"
        ) from error


async def _open_tls(
    make: Callable[[str], Connection], name: str, host: str, port: int, tls: ssl.SSLContext
) -> Connection:
    loop = asyncio.get_running_loop()
    transport, asking = await loop.create_connection(_StartTls, host, port)
    try:
        transport.write(encode_start_tls(_START_TLS_ID))
        await asking.agreed
        connection = make(name)
        encrypted = await loop.start_tls(transport, connection, tls, server_hostname=host)
    except BaseException:
        transport.abort()
        raise
    if encrypted is None:
        raise BookieUnavailableError("the connection was lost during the handshake")
    connection.connection_made(encrypted)
    return connection
