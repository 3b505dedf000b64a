"""A TCP relay that can go silent: its connections stay open, and carry nothing in one direction, or in both."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any

CHUNK_BYTES = 1 << 16


class SilentProxy:
    """Relays 127.0.0.1:`port` to an address, in a thread of its own.

    Args:
        target: HOST:PORT.
        rewriting: makes, for each connection, what rewrites the bytes that come back from the target.
    """

    def __init__(self, target: str, rewriting: Callable[[], Callable[[bytes], bytes]] | None = None) -> None:
        self._rewriting = rewriting or (lambda: lambda data: data)
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._loop = asyncio.new_event_loop()
        self._there = asyncio.Event()  # towards the target
        self._back = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port: int = self._do(self._start())

    def silence(self, *, there: bool = True, back: bool = True) -> None:
        """Carry nothing more towards the target, or back from it; new connections are taken, and carry nothing either.

        Args:
            there: whether it concerns what clients send.
            back: whether it concerns what the target sends.
        """
        self._do(self._set(not there, not back))

    def heal(self) -> None:
        """Carry everything again, and what has come meanwhile first."""
        self._do(self._set(True, True))

    def die(self) -> None:
        """End every connection, and refuse new ones: nobody listens any more."""
        self._do(self._stop())

    def revive(self) -> None:
        """Listen again, at the same port."""
        self._do(self._start(self.port))

    def close(self) -> None:
        """End every connection."""
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def _start(self, port: int = 0) -> int:
        await self._set(True, True)
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", port)
        return int(self._server.sockets[0].getsockname()[1])

    async def _set(self, there: bool, back: bool) -> None:
        for way, open_ in ((self._there, there), (self._back, back)):
            way.set() if open_ else way.clear()

    async def _stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await self._there.wait()
            await self._relay(reader, writer)
        except OSError:
            pass  # the target refuses, or either side is gone
        finally:
            writer.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target_reader, target_writer = await asyncio.open_connection(*self._target)
        ways = [
            asyncio.ensure_future(_carry(reader, target_writer, self._there, lambda data: data)),
            asyncio.ensure_future(_carry(target_reader, writer, self._back, self._rewriting())),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            target_writer.close()


async def _carry(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: asyncio.Event, rewrite: Callable[[bytes], bytes]
) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(CHUNK_BYTES):
            await way.wait()
            sink.write(rewrite(data))
            await sink.drain()
    await way.wait()  # the end of a connection is not carried either
