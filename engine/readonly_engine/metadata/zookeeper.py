"""ZooKeeper as the metadata store: kazoo's threads on one side, the event loop on the other."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState

from readonly_engine.metadata.errors import MetadataUnavailableError
from readonly_engine.metadata.store import SessionEvent, Versioned, check_own, is_own
from readonly_engine.metadata.watches import NodeWatch, Seen

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_S = 10.0
SESSION_TIMEOUT_S = 10.0
"""How long a dead broker's nodes stay.

Shorter than Pulsar's 30 s, because a Shared subscription waits for the end of its dead broker's claim; longer than an election of
ZooKeeper's leader takes (a few seconds) and than a busy machine may keep heartbeats waiting.
"""
REGISTER_RETRY_S = 1.0
_PRUNE_WATCHES = 100


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
        self._session_listeners: list[Callable[[SessionEvent], None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._watches: set[NodeWatch[Any]] = set()
        self._prune_at = _PRUNE_WATCHES

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

    async def children(self, path: str) -> frozenset[str] | None:
        """The names of a node's children, None where there is no such node."""
        try:
            return frozenset(await self._call(self._client.get_children_async, path))
        except NoNodeError:
            return None

    def watch(self, path: str, changed: Callable[[Versioned | None], None]) -> NodeWatch[Versioned | None]:
        """Follow a node's value."""

        async def look(fired: Callable[[object], None]) -> Seen[Versioned | None]:
            while True:
                try:
                    value, stat = await self._call(self._client.get_async, path, fired)
                    return Seen(Versioned(value or b"", stat.version), stat.mzxid)
                except NoNodeError:
                    if await self._call(self._client.exists_async, path, fired) is None:
                        return Seen(None, None)

        async def probe() -> int | None:
            stat = await self._call(self._client.exists_async, path)
            return None if stat is None else stat.mzxid

        return self._follow(NodeWatch(path, look, probe, changed))

    def watch_children(self, path: str, changed: Callable[[frozenset[str]], None]) -> NodeWatch[frozenset[str]]:
        """Follow the names of a node's children."""

        async def look(fired: Callable[[object], None]) -> Seen[frozenset[str]]:
            while True:
                try:
                    names, stat = await self._call(self._client.get_children_async, path, fired, True)
                    return Seen(frozenset(names), stat.pzxid)
                except NoNodeError:
                    if is_own(path):
                        await self._call(self._client.ensure_path_async, path)
                    elif await self._call(self._client.exists_async, path, fired) is None:
                        return Seen(frozenset(), None)

        async def probe() -> int | None:
            stat = await self._call(self._client.exists_async, path)
            return None if stat is None else stat.pzxid

        return self._follow(NodeWatch(path, look, probe, changed))

    def _follow(self, watch: NodeWatch[Any]) -> NodeWatch[Any]:
        if len(self._watches) >= self._prune_at:
            self._watches = {one for one in self._watches if not one.stopped}
            self._prune_at = max(_PRUNE_WATCHES, 2 * len(self._watches))
        self._watches.add(watch)
        return watch

    async def register(self, path: str, value: bytes) -> None:
        """Keep an ephemeral node with this value."""
        check_own(path)
        self._registered[path] = value
        await self._create(path, value)

    async def unregister(self, path: str) -> None:
        """Remove a node made by `register`."""
        self._registered.pop(path, None)
        try:
            await self._call(self._client.delete_async, path)
        except NoNodeError:
            log.debug("%s was gone already", path)

    async def update(self, path: str, value: bytes) -> None:
        """Give a node made by `register` another value."""
        self._registered[path] = value
        try:
            await self._call(self._client.set_async, path, value)
        except NoNodeError:
            await self._create(path, value)

    async def claim(self, path: str, value: bytes) -> bytes | None:
        """Make an ephemeral node unless somebody else has it."""
        check_own(path)
        while True:
            try:
                await self._call(self._client.create_async, path, value, None, True, False, True)
            except NodeExistsError:
                try:
                    found, stat = await self._call(self._client.get_async, path)
                except NoNodeError:
                    continue  # gone meanwhile
                if stat.ephemeralOwner == self._session_id:
                    return None
                if found != value:
                    return bytes(found or b"")
                # Of an earlier session of this broker, which has not run out yet.
                await self._delete(path, stat.version)
            else:
                return None

    async def release(self, path: str) -> None:
        """Remove a node made by `claim`."""
        try:
            _, stat = await self._call(self._client.get_async, path)
        except NoNodeError:
            return
        if stat.ephemeralOwner == self._session_id:
            await self._delete(path, stat.version)

    async def put(self, path: str, value: bytes) -> None:
        """Make a node that outlives this session, or give it another value."""
        check_own(path)
        while True:
            try:
                await self._call(self._client.set_async, path, value)
            except NoNodeError:
                try:
                    await self._call(self._client.create_async, path, value, None, False, False, True)
                except NodeExistsError:
                    continue  # made meanwhile
            return

    async def remove(self, path: str) -> None:
        """Remove a node made by `put`."""
        check_own(path)
        try:
            await self._call(self._client.delete_async, path)
        except NoNodeError:
            log.debug("%s was gone already", path)

    def on_session(self, happened: Callable[[SessionEvent], None]) -> None:
        """Hear of what happens to the session."""
        self._session_listeners.append(happened)

    @property
    def _session_id(self) -> int:
        identity = self._client.client_id
        return 0 if identity is None else int(identity[0])

    async def _delete(self, path: str, version: int) -> None:
        try:
            await self._call(self._client.delete_async, path, version)
        except (NoNodeError, BadVersionError):
            log.debug("%s went away by itself", path)

    async def close(self) -> None:
        """End the session."""
        self._registered.clear()
        for watch in self._watches:
            watch.stop()
        for task in self._tasks:
            task.cancel()
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
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                return await future
        except (NoNodeError, NodeExistsError, BadVersionError):
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

    def _state_changed(self, state: str) -> None:
        """Called in kazoo's threads. Watches end with a connection, ephemeral nodes with a session."""
        if state != KazooState.CONNECTED:
            self._lost |= state == KazooState.LOST
            loop = self._running_loop()
            if not loop.is_closed():
                ended = state == KazooState.LOST
                loop.call_soon_threadsafe(self._tell, SessionEvent.ENDED if ended else SessionEvent.IN_DOUBT)
        else:
            lost, self._lost = self._lost, False
            loop = self._running_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._connected_again, lost)

    def _tell(self, event: SessionEvent) -> None:
        for happened in self._session_listeners:
            happened(event)

    def _connected_again(self, lost: bool) -> None:
        self._tell(SessionEvent.REPLACED if lost else SessionEvent.KEPT)
        for watch in list(self._watches):
            watch.refresh()
        if lost and self._registered:
            task = self._running_loop().create_task(self._register_again())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _register_again(self) -> None:
        for path, value in list(self._registered.items()):
            while path in self._registered and not self._lost:
                try:
                    await self._create(path, value)
                    log.info("registered %s again after the loss of the ZooKeeper session", path)
                    break
                except MetadataUnavailableError as error:
                    log.warning("could not register %s again, trying again: %s", path, error)
                    await asyncio.sleep(REGISTER_RETRY_S)
