"""Connect to bookies, in clear or with TLS, and log in."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar, cast

from readonly_engine.bookkeeper.errors import BookieRefusedError, BookieUnavailableError, failed_connection
from readonly_engine.bookkeeper.login import SaslLogin, StartTls
from readonly_engine.net.digest_md5 import Credentials, LoginError
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.framing import HANDSHAKE_FRAME_BYTES, FrameSplitter

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from pathlib import Path

    from readonly_engine.bookkeeper.connection import BookieConnection
    from readonly_engine.bookkeeper.connection_v2 import BatchConnection
    from readonly_engine.bookkeeper.login import Exchange
    from readonly_engine.net.tls import ClientTls

CONNECT_TIMEOUT_S: Final = 5.0
"""Limit for the connection, START_TLS, the TLS handshake and the login together."""

LOGIN_TIMEOUT_S: Final = 3.0
"""Limit for the login."""

Connection = TypeVar("Connection", bound="BookieConnection | BatchConnection")


@dataclass(frozen=True, slots=True)
class BookieSecurity:
    """Security of the connections to bookies.

    Attributes:
        tls: encrypts them; None for clear ones.
        login_file: a file with USER:PASSWORD, which is read at each connection; None for no login.
        login_option: name of its option, for errors.
    """

    tls: ClientTls | None = None
    login_file: Path | None = None
    login_option: str = "bookie-login-file"

    def context(self) -> ssl.SSLContext | None:
        """Return the current context of TLS; None without TLS."""
        return None if self.tls is None else self.tls.context()

    def check(self) -> None:
        """Check the file of the login.

        Raises:
            LoginError: it cannot be used; the text names its option.
        """
        if self.login_file is not None:
            try:
                Credentials.read(self.login_file)
            except LoginError as error:
                raise LoginError(f"{self.login_option}: {error}") from error

    def login(self) -> SaslLogin | None:
        """Return a new login; None without one.

        Raises:
            BookieRefusedError: the file cannot be used.
        """
        if self.login_file is None:
            return None
        try:
            return SaslLogin(Credentials.read(self.login_file), self.login_option)
        except LoginError as error:
            raise BookieRefusedError(f"{self.login_option}: {error}") from error


OPEN_BOOKIES: Final = BookieSecurity()
"""No TLS and no login."""


class _Steps(asyncio.Protocol):
    """Does the steps of an exchange. `done` fails if the bookie refuses or closes the connection."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._splitter = FrameSplitter(HANDSHAKE_FRAME_BYTES)
        self._transport: asyncio.Transport | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._exchange.begin())

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        try:
            for frame in self._splitter.receive_data(data):
                following = self._exchange.received(frame)
                if following is None:
                    self._end(None)
                else:
                    self._transport.write(following)
        except BookieUnavailableError as error:
            self._end(error)
        except WireError as error:
            self._end(BookieUnavailableError(str(error)))

    def connection_lost(self, exc: Exception | None) -> None:
        step = "START_TLS" if isinstance(self._exchange, StartTls) else "the login"
        self._end(failed_connection(f"it closed the connection at {step}: {exc or 'end of stream'}", exc))

    async def wait(self) -> None:
        """Wait for the end of the exchange.

        Raises:
            BookieUnavailableError: the bookie refuses, closes the connection, or does not answer a login.
        """
        if not isinstance(self._exchange, SaslLogin):
            await self.done
            return
        try:
            async with asyncio.timeout(LOGIN_TIMEOUT_S):
                await self.done
        except TimeoutError as error:
            raise self._exchange.unanswered() from error

    def _end(self, why: BookieUnavailableError | None) -> None:
        if self.done.done():
            return
        if why is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(why)
            self.done.exception()  # nobody waits if the attempt was cancelled: asyncio would log that


async def open_connection(
    make: Callable[[str], Connection], name: str, host: str, port: int, security: BookieSecurity = OPEN_BOOKIES
) -> Connection:
    """Connect to a bookie.

    Args:
        make: BookieConnection or BatchConnection.
        name: the bookie's id, for messages.
        host: the bookie's host name or address.
        port: the bookie's port.
        security: TLS, whose handshake follows START_TLS on the same socket, and a login.

    Raises:
        BookieRefusedError: the bookie refuses TLS or the login, or its certificate is not trusted.
        BookieUnavailableError: nothing listens at this address, or the connection took too long.
    """
    loop = asyncio.get_running_loop()
    try:
        tls, login = security.context(), security.login()
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            if tls is None and login is None:
                _, connection = await loop.create_connection(lambda: make(name), host, port)
                return connection
            return await _open_secured(make, name, host, port, tls, login)
    except (OSError, TimeoutError, BookieUnavailableError) as error:
        message = f"bookie {name} at {host}:{port} cannot be reached: {str(error) or 'no answer'}"
        raise failed_connection(message, error) from error


async def _open_secured(
    make: Callable[[str], Connection],
    name: str,
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    login: SaslLogin | None,
) -> Connection:
    loop = asyncio.get_running_loop()
    steps: _Steps | Connection = _Steps(StartTls() if login is None or tls is not None else login)
    transport, first = await loop.create_connection(lambda: cast("_Steps", steps), host, port)
    try:
        await first.wait()
        if tls is not None:
            steps = make(name) if login is None else _Steps(login)
            transport = _existing(await loop.start_tls(transport, steps, tls, server_hostname=host))
            steps.connection_made(transport)
            if isinstance(steps, _Steps):
                await steps.wait()
        if not isinstance(steps, _Steps):
            return steps
        connection = make(name)
        transport.set_protocol(connection)
        connection.connection_made(transport)
    except BaseException:
        transport.abort()
        raise
    return connection


def _existing(transport: asyncio.Transport | None) -> asyncio.Transport:
    if transport is None:
        raise BookieUnavailableError("the connection was lost during the handshake")
    return transport
