"""The wait for an address that another process still has."""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable

import pytest
from readonly_engine.config.kinds import Address
from readonly_engine.listening import listen
from readonly_engine.start_files import StartError


def _listener(servers: list[asyncio.Server]) -> Callable[[str, int], Awaitable[None]]:
    async def start(host: str, port: int) -> None:
        servers.append(await asyncio.start_server(lambda _reader, _writer: None, host, port))

    return start


async def test_an_address_is_taken_as_soon_as_it_is_free(caplog: pytest.LogCaptureFixture) -> None:
    holder = socket.create_server(("127.0.0.1", 0))
    address = Address("127.0.0.1", holder.getsockname()[1])
    servers: list[asyncio.Server] = []
    waiting = asyncio.ensure_future(listen("listen", address, _listener(servers), 60))
    async with asyncio.timeout(30):
        while not caplog.records:
            await asyncio.sleep(0)
        assert not waiting.done()
        holder.close()
        await waiting
    servers[0].close()
    assert "address in use, waiting" in caplog.text
    assert "holder=pid " in caplog.text


async def test_a_signal_ends_the_wait() -> None:
    stop = asyncio.Event()
    with socket.create_server(("127.0.0.1", 0)) as holder:
        address = Address("127.0.0.1", holder.getsockname()[1])
        waiting = asyncio.ensure_future(listen("listen", address, _listener([]), 3600, stop))
        stop.set()
        async with asyncio.timeout(30):
            assert not await waiting


def test_without_time_it_fails_at_once_and_names_the_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        address = Address("127.0.0.1", holder.getsockname()[1])
        with pytest.raises(
            StartError, match=rf"^--listen {address}: .* in use by pid \d+ \(.+\); choose a free address"
        ):
            asyncio.run(listen("listen", address, _listener([])))


def test_no_other_error_is_waited_for() -> None:
    async def refuse(_host: str, _port: int) -> None:
        raise OSError(errno.EADDRNOTAVAIL, "not available")

    with pytest.raises(StartError, match="not available; choose"):
        asyncio.run(listen("http", Address("192.0.2.1", 1), refuse, 600))
