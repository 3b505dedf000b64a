"""Relays in front of servers: one address for the brokers of a pool, and a record of the admin requests of a program.

The address of a pool connects to its live brokers in turn, as a Service of Kubernetes does.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

from aiohttp import ClientError, ClientSession, ClientTimeout, web

from longtests.frameworks.templates import template

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

_CHUNK: Final = 1 << 16
_TIMEOUT_S: Final = 30.0
_HOST: Final = "127.0.0.1"
_DROPPED_HEADERS: Final = {"host", "content-length", "transfer-encoding", "content-encoding", "connection"}


class AddressRelay:
    """A TCP port that connects to live addresses in turn.

    Args:
        targets: returns HOST:PORT of the live servers.
    """

    def __init__(self, targets: Callable[[], Sequence[str]]) -> None:
        self._targets = targets
        self._turn = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        """Listen on a free port; return it."""
        self._server = await asyncio.start_server(self._accept, _HOST, 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Close the port and all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            targets = self._targets()
            self._turn += 1
            host, _, port = targets[self._turn % len(targets)].rpartition(":") if targets else ("", "", "")
            if port:
                to_reader, to_writer = await asyncio.open_connection(host, int(port))
                await asyncio.gather(_copy(reader, to_writer), _copy(to_reader, writer))
        except OSError:
            pass
        finally:
            writer.close()
            self._tasks.discard(task)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        with suppress(OSError):
            writer.close()


class AdminRecorder:
    """A proxy of an admin API that records each request: method, template of the path, and status of the answer.

    Args:
        target: `http://HOST:PORT` of the server.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._session: ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self.requests: dict[str, int] = {}

    async def start(self) -> int:
        """Listen on a free port; return it."""
        self._session = ClientSession(timeout=ClientTimeout(_TIMEOUT_S), auto_decompress=True)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, _HOST, 0)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Close the port."""
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def _answer(self, request: web.Request) -> web.Response:
        assert self._session is not None
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _DROPPED_HEADERS}
        try:
            async with self._session.request(
                request.method, self._target + request.raw_path, headers=headers, data=await request.read()
            ) as answer:
                body, status = await answer.read(), answer.status
                kept = {name: value for name, value in answer.headers.items() if name.lower() not in _DROPPED_HEADERS}
        except (ClientError, TimeoutError) as error:
            body, status, kept = str(error).encode(), 502, {}
        line = f"{request.method} {template(request.path)} {status}"
        self.requests[line] = self.requests.get(line, 0) + 1
        return web.Response(status=status, body=body, headers=kept)


class RelayLoop:
    """The event loop of relays, in a thread of its own."""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the loop; return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_TIMEOUT_S)
