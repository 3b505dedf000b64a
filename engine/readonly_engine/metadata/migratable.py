"""ZooKeeper as a MetadataStore that follows a migration of the cluster's metadata to Oxia (PIP-454)."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.background import run_forever
from readonly_engine.clock import lease_time
from readonly_engine.metadata.errors import MetadataError, MetadataUnavailableError, NotAdmittedError
from readonly_engine.metadata.lease import SESSION_TIMEOUT_S
from readonly_engine.metadata.migration import FLAG_PATH, NO_MIGRATION, Migration, Phase, decode_migration
from readonly_engine.metadata.store import ClaimResult, check_own
from readonly_engine.metadata.watches import NodeRead, NodeWatch, PollRounds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.metadata.lease import SessionLease
    from readonly_engine.metadata.store import Fence, MetadataStore, Versioned, WatchedStore
    from readonly_engine.metadata.url import MetadataUrl
    from readonly_engine.metadata.watches import NodeSource
    from readonly_engine.net.durations import Durations

log = logging.getLogger(__name__)

BOTH_S: Final = SESSION_TIMEOUT_S
"""Time after the first sight of a migration in which a claim needs both stores.

A broker that has not seen the migration loses its lease before: each extension of a lease goes through ZooKeeper's leader, and so
brings it the news.
"""

RECENT_S: Final = SESSION_TIMEOUT_S
"""Writes of so long before the first sight of a migration are repeated in the target: they may have come after the copy."""

MAX_RECENT: Final = 10_000
"""Writes that are remembered for the target."""

_RETRY_S: Final = 0.5
_AT_A_TIME: Final = 64


class CopiedValues:
    """Values of the nodes of a target (NodeSource), which have another origin than those of the source.

    Args:
        values: the target's values.
    """

    of_names = False

    def __init__(self, values: NodeSource[Versioned | None]) -> None:
        self._values = values
        self.probe, self.started, self.stopped = values.probe, values.started, values.stopped

    @property
    def rounds(self) -> PollRounds:
        """As NodeSource."""
        return self._values.rounds

    async def read(self, path: str) -> NodeRead[Versioned | None]:
        """As NodeSource."""
        found = await self._values.read(path)
        return found if found.value is None else found._replace(value=found.value._replace(origin=1))


class MigratableStore:
    """A MetadataStore that begins in one store and continues in another when the cluster's metadata move there.

    Args:
        source: the store that the metadata may leave.
        open_target: returns the store of a URL.
    """

    def __init__(self, source: WatchedStore, open_target: Callable[[MetadataUrl], WatchedStore]) -> None:
        self._source = source
        self._open_target = open_target
        self._active = source
        self._target: WatchedStore | None = None
        self._prepared = False
        self._migration = NO_MIGRATION
        self._changed = asyncio.Event()
        self._both_until = 0.0
        self._registered: dict[str, tuple[bytes, Callable[[], Awaitable[Fence]] | None]] = {}
        self._claimed: dict[str, bytes] = {}
        self._recent: OrderedDict[str, tuple[float, bytes | None]] = OrderedDict()
        self._flag: NodeWatch[Versioned | None] | None = None
        self._copied: CopiedValues | None = None  # since the switch
        self._listeners: list[Callable[[SessionLease], None]] = []
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect, to the target if the metadata have moved already.

        Raises:
            MetadataUnavailableError: a store does not answer.
            MetadataError: the record of the migration is damaged.
        """
        await self._source.start()
        try:
            found = await self._source.get(FLAG_PATH)
            migration = decode_migration(None if found is None else found.value)
            if migration.phase is Phase.COMPLETED and migration.target is not None:
                self._migration = migration
                self._both_until = lease_time() + BOTH_S
                self._target = self._open_target(migration.target)
                await self._target.start()
                self._active, self._prepared = self._target, True
                self._copied = CopiedValues(self._target.watched_values)
                log.warning(
                    "the cluster's metadata have moved: set --metadata-store-url to the new store: target=%s",
                    migration.target,
                )
        except BaseException:
            await self.close()
            raise
        self._flag = NodeWatch(FLAG_PATH, self._source.watched_values, self._flag_changed)
        if self._active is self._target:
            self._changed.set()
        self._following = run_forever(self._follow, "following the migration of the metadata")

    @property
    def connected(self) -> bool:
        """Return whether the store in use answers now."""
        return self._active.connected

    @property
    def denied(self) -> int:
        """Return the number of requests and connections that a store refused."""
        return self._source.denied + (0 if self._target is None else self._target.denied)

    @property
    def durations(self) -> Durations:
        """Return how many requests the stores have answered, and how long that took."""
        return self._source.durations if self._target is None else self._source.durations + self._target.durations

    async def get(self, path: str) -> Versioned | None:
        """Return a node's value, None if there is no such node."""
        found = await self._active.get(path)
        return found if found is None or self._active is self._source else found._replace(origin=1)

    async def children(self, path: str) -> frozenset[str] | None:
        """Return the names of a node's children, None if there is no such node."""
        return await self._active.children(path)

    def watch(self, path: str, changed: Callable[[Versioned | None], None]) -> NodeWatch[Versioned | None]:
        """Watch a node's value. After the switch the callback gets it once more."""
        return NodeWatch(path, self.watched_values, changed)

    def watch_children(self, path: str, changed: Callable[[frozenset[str]], None]) -> NodeWatch[frozenset[str]]:
        """Watch the names of a node's children. After the switch the callback gets them once more."""
        return NodeWatch(path, self.watched_names, changed)

    @property
    def watched_values(self) -> NodeSource[Versioned | None]:
        """Return the watched values of the store in use."""
        return self._copied or self._source.watched_values

    @property
    def watched_names(self) -> NodeSource[frozenset[str]]:
        """Return the watched names of the store in use."""
        return self._active.watched_names

    @property
    def watches(self) -> list[NodeWatch[Any]]:
        """Return all watches but that of the migration."""
        return [watch for watch in self._active.watches if watch is not self._flag]

    async def register(self, path: str, value: bytes, admit: Callable[[], Awaitable[Fence]] | None = None) -> None:
        """Keep an ephemeral node with this value."""
        check_own(path)
        self._registered[path] = (value, admit)
        try:
            await self._active.register(path, value, admit)
            if self._target is not None and self._active is self._source and self._prepared:
                await self._target.register(path, value)
        except NotAdmittedError:
            self._registered.pop(path, None)
            if self._target is not None and self._active is self._source:
                await self._target.unregister(path)  # a migration may have begun meanwhile
            raise

    async def update(self, path: str, value: bytes) -> None:
        """Change the value of a node made by `register`."""
        self._registered[path] = (value, self._registered.get(path, (b"", None))[1])
        await self._active.update(path, value)
        if self._target is not None and self._active is self._source and self._prepared:
            await self._target.update(path, value)

    async def unregister(self, path: str) -> None:
        """Remove a node made by `register`."""
        self._registered.pop(path, None)
        await asyncio.gather(*(store.unregister(path) for store in self._writable))

    async def claim(self, path: str, value: bytes) -> ClaimResult:
        """Create an ephemeral node unless another process holds it. During a migration this takes both stores."""
        check_own(path)
        found = ClaimResult(0)
        if self._active is self._source or lease_time() < self._both_until:
            found = await self._source.claim(path, value)
            if not found.session:
                return found
        self._claimed[path] = value
        if self._target is not None and self._prepared:
            copied = await self._target.claim(path, value)
            if not copied.session or self._active is self._target:
                found = copied
        if not found.session:
            self._claimed.pop(path, None)
        return found

    async def release(self, path: str) -> None:
        """Remove a node made by `claim`."""
        self._claimed.pop(path, None)
        await asyncio.gather(*(store.release(path) for store in self._writable))

    async def put(self, path: str, value: bytes) -> None:
        """Create a persistent node, or change its value."""
        check_own(path)
        self._remember(path, value)
        await self._active.put(path, value)

    async def put_if(self, path: str, value: bytes, version: int | None) -> int | None:
        """Create a persistent node, or change its value, unless another process has done so meanwhile."""
        check_own(path)
        written = await self._active.put_if(path, value, version)
        if written is not None:
            self._remember(path, value)
        return written

    async def remove(self, path: str) -> None:
        """Remove a node made by `put`."""
        check_own(path)
        self._remember(path, None)
        await self._active.remove(path)

    async def check_writable(self, path: str) -> None:
        """Check that an ephemeral node may be created in the store in use. It writes nothing."""
        await self._active.check_writable(path)

    def on_session(self, changed: Callable[[SessionLease], None]) -> None:
        """Call back with the lease of the session in the store in use."""
        self._listeners.append(changed)
        self._listen(self._active)

    async def close(self) -> None:
        """End the sessions."""
        if self._following is not None:
            self._following.cancel()
        await self._source.close()
        if self._target is not None:
            await self._target.close()

    # Inside

    @property
    def _writable(self) -> list[WatchedStore]:
        stores = [self._active]
        if self._target is not None and self._active is self._source and self._prepared:
            stores.append(self._target)
        elif self._active is self._target and lease_time() < self._both_until:
            stores.append(self._source)
        return stores

    def _listen(self, store: MetadataStore) -> None:
        """Pass on the lease of a store's session, as long as the store is in use."""

        def changed(lease: SessionLease) -> None:
            if self._active is store:
                for listener in self._listeners:
                    listener(lease)

        store.on_session(changed)

    def _remember(self, path: str, value: bytes | None) -> None:
        if self._active is not self._source:
            return
        now = lease_time()
        self._recent.pop(path, None)
        self._recent[path] = (now, value)
        if self._migration.phase in {Phase.NOT_STARTED, Phase.FAILED}:
            while self._recent and next(iter(self._recent.values()))[0] < now - RECENT_S:
                self._recent.popitem(last=False)
        if len(self._recent) > MAX_RECENT:
            self._recent.popitem(last=False)

    def _flag_changed(self, found: Versioned | None) -> None:
        try:
            migration = decode_migration(None if found is None else found.value)
        except MetadataError as error:
            log.error("cannot follow the migration of the metadata: error=%s", error)  # noqa: TRY400 - the text is enough
            return
        if self._migration.phase is not Phase.COMPLETED and migration != self._migration:
            log.warning("migration of the metadata: phase=%s target=%s", migration.phase, migration.target)
            if migration.running and not self._migration.running:
                self._both_until = lease_time() + BOTH_S
            self._migration = migration
            self._changed.set()

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._apply(self._migration)
            except MetadataError as error:
                log.warning("migration of the metadata: the target cannot be used, retrying: error=%s", error)
                await asyncio.sleep(_RETRY_S)
                self._changed.set()
            if self._target is not None and self._active is self._target:
                await self._admit_again(self._target)
                await asyncio.sleep(max(0.0, self._both_until - lease_time()))
                await self._source.close()
                return

    async def _apply(self, migration: Migration) -> None:
        if migration.target is None:
            if self._target is not None and self._active is self._source:
                target, self._target, self._prepared = self._target, None, False
                await target.close()
            return
        if not self._prepared:
            await self._prepare(migration.target)
        if migration.phase is Phase.COMPLETED and self._active is self._source:
            await self._switch()

    async def _prepare(self, url: MetadataUrl) -> None:
        """Connect to the target, and create this broker's ephemeral nodes there."""
        if self._target is None:
            target = self._open_target(url)
            await target.start()
            self._target = target
        target = self._target
        self._prepared = True  # nodes that are made from now on are made in both
        try:
            for path, (value, _) in list(self._registered.items()):
                await target.register(path, value)
            await self._copy_claims(target)
        except MetadataUnavailableError:
            self._prepared = False
            raise
        if self._listeners:
            target.on_session(lambda _: None)  # the session begins, so that its lease holds at the switch

    async def _copy_claims(self, target: MetadataStore) -> None:
        claims = list(self._claimed.items())
        for first in range(0, len(claims), _AT_A_TIME):
            some = claims[first : first + _AT_A_TIME]
            await asyncio.gather(*(target.claim(path, value) for path, value in some))

    async def _switch(self) -> None:
        """Go on in the target. Writes of the time of the copy are repeated there."""
        target = self._target
        assert target is not None, "_prepare first"
        for path, (_, value) in list(self._recent.items()):
            await (target.remove(path) if value is None else target.put(path, value))
        watches, self._active = self.watches, target
        self._copied = CopiedValues(target.watched_values)
        self._recent.clear()
        for watch in watches:
            watch.move(self.watched_names if watch.of_names else self._copied)
        if self._listeners:
            self._listen(target)
        log.warning("the cluster's metadata have moved: set --metadata-store-url to the new store")

    async def _admit_again(self, target: MetadataStore) -> None:
        """Register with the admissions in the target, which read it: so this comes after the switch."""
        for path, (value, admit) in list(self._registered.items()):
            while admit is not None and path in self._registered:
                try:
                    await target.register(path, value, admit)
                except NotAdmittedError as error:
                    log.warning("another pool is in the target: error=%s", error)
                except MetadataUnavailableError as error:
                    log.warning("cannot register in the target, retrying: path=%s error=%s", path, error)
                    await asyncio.sleep(_RETRY_S)
                    continue
                break
