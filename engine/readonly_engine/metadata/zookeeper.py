"""ZooKeeper as the metadata store: kazoo's threads on one side, the event loop on the other."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState
from kazoo.recipe.watchers import ChildrenWatch, DataWatch

from readonly_engine.metadata.errors import MetadataUnavailableError
from readonly_engine.metadata.store import Versioned

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_S = 10.0
SESSION_TIMEOUT_S = 10.0


class _Watch:
    """Passes changes on to the event loop until it is stopped; kazoo ends a watch whose function returns False."""

    def __init__(self, loop: asyncio.AbstractEventLoop, changed: Callable[[Any], None]) -> None:
        self._loop = loop
        self._changed = changed
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True

    def post(self, value: object) -> bool:
        """Called in kazoo's threads."""
        if self._stopped or self._loop.is_closed():
            return False
        self._loop.call_soon_threadsafe(self._deliver, value)
        return True

    def _deliver(self, value: object) -> None:
        if not self._stopped:
            self._changed(value)


class ZooKeeperStore:
    """A MetadataStore on ZooKeeper.

    Args:
        hosts: `HOST:PORT[,HOST:PORT...][/chroot]`.
    """

    def __init__(self, hosts: str) -> None:
        self.hosts = hosts
        self._client = KazooClient(
            hosts=hosts, timeout=SESSION_TIMEOUT_S, connection_retry={"max_tries": -1, "max_delay": 5}
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._registered: dict[str, bytes] = {}
        self._lost = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Connect.

        Raises:
            MetadataUnavailableError: nobody answers at these hosts.
        """
        self._loop = asyncio.get_running_loop()
        self._client.add_listener(self._state_changed)
        try:
            await asyncio.to_thread(self._client.start, CONNECT_TIMEOUT_S)
        except (KazooTimeoutError, OSError, ValueError) as error:
            await self.close()
            raise MetadataUnavailableError(
                f"no ZooKeeper answers at {self.hosts} within {CONNECT_TIMEOUT_S:g} s"
            ) from error

    @property
    def connected(self) -> bool:
        """Whether the session is alive and connected."""
        return bool(self._client.connected)

    async def get(self, path: str) -> Versioned | None:
        """A node's value, None where there is no such node."""
        try:
            value, stat = await self._call(self._client.get_async, path)
        except NoNodeError:
            return None
        return Versioned(value, stat.version)

    def watch(self, path: str, changed: Callable[[Versioned | None], None]) -> _Watch:
        """Follow a node's value."""
        watch = _Watch(self._running_loop(), changed)

        def on_change(value: bytes | None, stat: Any) -> bool:
            return watch.post(None if stat is None else Versioned(value or b"", stat.version))

        self._in_thread(lambda: DataWatch(self._client, path, on_change))
        return watch

    def watch_children(self, path: str, changed: Callable[[frozenset[str]], None]) -> _Watch:
        """Follow the names of a node's children."""
        watch = _Watch(self._running_loop(), changed)

        def start() -> None:
            self._client.ensure_path(path)
            ChildrenWatch(self._client, path, lambda names: watch.post(frozenset(names)))

        self._in_thread(start)
        return watch

    async def register(self, path: str, value: bytes) -> None:
        """Keep an ephemeral node with this value."""
        self._registered[path] = value
        await self._create(path, value)

    async def unregister(self, path: str) -> None:
        """Remove a node made by `register`."""
        self._registered.pop(path, None)
        try:
            await self._call(self._client.delete_async, path)
        except NoNodeError:
            log.debug("%s was gone already", path)

    async def close(self) -> None:
        """End the session."""
        self._registered.clear()
        await asyncio.to_thread(self._client.stop)
        await asyncio.to_thread(self._client.close)

    async def _create(self, path: str, value: bytes) -> None:
        try:
            await self._call(self._client.create_async, path, value, None, True, False, True)
        except NodeExistsError:
            # Ours from a session that has just ended, or a namesake's: replace it, so that it belongs to this session.
            try:
                await self._call(self._client.delete_async, path)
            except NoNodeError:
                log.debug("%s went away by itself", path)
            await self._call(self._client.create_async, path, value, None, True, False, True)

    async def _call(self, function: Callable[..., Any], *args: object) -> Any:
        loop = self._running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def finish(result: Any) -> None:
            if future.done():
                return
            if result.exception is not None:
                future.set_exception(result.exception)
            else:
                future.set_result(result.value)

        try:
            function(*args).rawlink(lambda result: loop.call_soon_threadsafe(finish, result))
            return await asyncio.wait_for(future, REQUEST_TIMEOUT_S)
        except (NoNodeError, NodeExistsError):
            raise
        except TimeoutError as error:
            raise MetadataUnavailableError(
                f"ZooKeeper at {self.hosts} did not answer in {REQUEST_TIMEOUT_S:g} s"
            ) from error
        except KazooException as error:
            raise MetadataUnavailableError(f"ZooKeeper at {self.hosts}: {type(error).__name__}") from error

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None, "start() first"
        return self._loop

    def _in_thread(self, start: Callable[[], object]) -> None:
        """Starting a kazoo watch asks the server and waits: not on the event loop."""

        async def run() -> None:
            try:
                await asyncio.to_thread(start)
            except KazooException:
                log.exception("a watch could not be started")

        task = self._running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _state_changed(self, state: str) -> None:
        """Called in kazoo's threads: a new session has none of the old one's ephemeral nodes."""
        if state == KazooState.LOST:
            self._lost = True
        elif state == KazooState.CONNECTED and self._lost:
            self._lost = False
            loop = self._running_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(lambda: self._spawn(self._register_again()))

    def _spawn(self, coroutine: Any) -> None:
        task = self._running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _register_again(self) -> None:
        for path, value in list(self._registered.items()):
            try:
                await self._create(path, value)
                log.info("registered %s again after the loss of the ZooKeeper session", path)
            except MetadataUnavailableError as error:
                log.warning("could not register %s again: %s", path, error)
