"""Oxia as a MetadataStore."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.background import must_not_fail
from readonly_engine.metadata.errors import MetadataUnavailableError, NotAdmittedError
from readonly_engine.metadata.lease import (
    EARLIER_POLL_S,
    EARLIER_SESSION_S,
    NO_SESSION,
    REGISTER_RETRY_S,
    SessionLease,
)
from readonly_engine.metadata.oxia.channels import LIST, READ, WRITE, Channels
from readonly_engine.metadata.oxia.credentials import channel_credentials
from readonly_engine.metadata.oxia.index import WatchIndex
from readonly_engine.metadata.oxia.keys import children_range, own_parents, partition_key, routing_key
from readonly_engine.metadata.oxia.notifications import Notifications
from readonly_engine.metadata.oxia.records import ChildNames, RecordValues, versioned
from readonly_engine.metadata.oxia.router import Router, SessionEndedError
from readonly_engine.metadata.oxia.session import Session
from readonly_engine.metadata.security import OPEN_STORE
from readonly_engine.metadata.store import ClaimResult, Fence, Versioned, check_own
from readonly_engine.metadata.watches import NodeWatch, PollRounds
from readonly_engine.net.durations import Durations
from readonly_engine.wire.oxia_pb2 import (
    DeleteRequest,
    GetRequest,
    ListRequest,
    PutRequest,
    ReadRequest,
    Status,
    WriteRequest,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.metadata.security import StoreSecurity
    from readonly_engine.wire.oxia_pb2 import GetResponse, Version

log = logging.getLogger(__name__)

MAX_KNOWN_PARENTS: Final = 1000
"""Parents that are remembered as existing."""

_NEW: Final = -1
"""Expected version of a record that must not exist."""

_NO_VERSION: Final = 2**62
"""Expected version that no record has."""

_CONTENTION_S: Final = 0.05
_LONGEST_CONTENTION_S: Final = 1.0


class OxiaStore:
    """A MetadataStore on Oxia.

    Args:
        address: HOST:PORT of any server, or of a service in front of all.
        namespace: namespace of the records.
        security: TLS of the connections.

    Raises:
        TlsError: a file of TLS cannot be used.
        LoginError: a login is of ZooKeeper only.
    """

    def __init__(self, address: str, namespace: str, security: StoreSecurity = OPEN_STORE) -> None:
        self.address = address
        self._router = Router(address, namespace, Channels(channel_credentials(security)))
        self._watches = WatchIndex()
        rounds = PollRounds()
        self.watched_values = RecordValues(self._read, self._watches, rounds)
        self.watched_names = ChildNames(self._list, self._watches, rounds)
        self._notifications = Notifications(self._router, self._watches.notify, self._watches.refresh_all)
        self._session = Session(self._router, self._notify_lease, self._register_all)
        self._session_listeners: list[Callable[[SessionLease], None]] = []
        self._registered: dict[str, bytes] = {}
        self._admissions: dict[str, Callable[[], Awaitable[Fence]]] = {}
        self._parents: OrderedDict[str, None] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._durations = Durations()

    async def start(self) -> None:
        """Connect."""
        try:
            await self._router.start()
            await self._notifications.start()
        except BaseException:
            await self.close()
            raise

    @property
    def connected(self) -> bool:
        """Return whether the store answers now."""
        return self._session.answers if self._session.started else self._router.connected

    # Reads

    @property
    def denied(self) -> int:
        """Return the number of refused requests: none, as Oxia checks no rights of single records."""
        return 0

    @property
    def durations(self) -> Durations:
        """Return how many requests about single records Oxia has answered, and how long that took."""
        return self._durations

    async def get(self, path: str) -> Versioned | None:
        """Return a record's value, None if there is no such record."""
        found = await self._read(path, value=True)
        if found is None and partition_key(path) is not None:
            found = await self._adopt(path)
        return None if found is None else versioned(found)

    async def children(self, path: str) -> frozenset[str] | None:
        """Return the names of a record's children, None if it has none and does not exist itself."""
        names = await self._list(path)
        if not names and await self._read(path, value=False) is None:
            return None
        return names

    def watch(self, path: str, changed: Callable[[Versioned | None], None]) -> NodeWatch[Versioned | None]:
        """Watch a record's value."""
        return NodeWatch(path, self.watched_values, changed)

    def watch_children(self, path: str, changed: Callable[[frozenset[str]], None]) -> NodeWatch[frozenset[str]]:
        """Watch the names of a record's children."""
        return NodeWatch(path, self.watched_names, changed)

    @property
    def watches(self) -> list[NodeWatch[Any]]:
        """Return all watches."""
        return self._watches.all

    # This broker's records

    async def register(self, path: str, value: bytes, admit: Callable[[], Awaitable[Fence]] | None = None) -> None:
        """Keep an ephemeral record with this value."""
        check_own(path)
        if admit is not None:
            self._admissions[path] = admit
        self._registered[path] = value
        try:
            await self._create(path)
        except NotAdmittedError:
            self._registered.pop(path, None)
            raise

    async def update(self, path: str, value: bytes) -> None:
        """Change the value of a record made by `register`."""
        self._registered[path] = value
        while True:
            session, found = await self._session.live(), await self._read(path, value=False)
            if found is None or _session_of(found.version) != session:
                return await self._create(path)
            if await self._put(path, value, found.version.version_id, session=session) is not None:
                return None

    async def unregister(self, path: str) -> None:
        """Remove a record made by `register`."""
        self._registered.pop(path, None)
        await self._delete(path)

    async def claim(self, path: str, value: bytes) -> ClaimResult:
        """Create an ephemeral record unless another process holds it.

        A record of an earlier session is never replaced, it ends with that session: that session's broker may still deliver.
        """
        check_own(path)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + EARLIER_SESSION_S
        while True:
            session = await self._session.live()
            if await self._put(path, value, _NEW, session=session) is not None:
                return ClaimResult(session + 1)
            found = await self._read(path, value=True)
            if found is None:
                continue  # removed meanwhile
            if _session_of(found.version) == session:
                return ClaimResult(session + 1)
            if found.value != value or loop.time() >= deadline:
                return ClaimResult(NO_SESSION, found.value)
            await asyncio.sleep(EARLIER_POLL_S)

    async def release(self, path: str) -> None:
        """Remove a record made by `claim`."""
        found = await self._read(path, value=False)
        if found is not None and _session_of(found.version) == self._session.number - 1:
            await self._delete(path, found.version.version_id)

    async def put(self, path: str, value: bytes) -> None:
        """Create a persistent record, or change its value."""
        check_own(path)
        await self._create_parents(path)
        await self._put(path, value, None)

    async def put_if(self, path: str, value: bytes, version: int | None) -> int | None:
        """Create a persistent record, or change its value, unless another process has done so meanwhile."""
        check_own(path)
        await self._create_parents(path)
        return await self._put(path, value, _NEW if version is None else version)

    async def remove(self, path: str) -> None:
        """Remove a record made by `put`, and a copy that a migration has left elsewhere."""
        check_own(path)
        await self._adopt(path)
        await self._delete(path)

    async def check_writable(self, path: str) -> None:
        """Check that Oxia accepts writes, by a removal whose version no record has. Oxia checks no rights of records."""
        check_own(path)
        await self._delete(path, _NO_VERSION)

    def on_session(self, changed: Callable[[SessionLease], None]) -> None:
        """Call back with the session's lease."""
        self._session_listeners.append(changed)
        self._session.start()
        changed(self._session.lease)

    async def close(self) -> None:
        """End the session."""
        self._closed = True
        self._registered.clear()
        self._watches.stop_all()
        for task in self._tasks:
            task.cancel()
        self._notifications.close()
        await self._session.close()
        await self._router.close()

    # Inside

    async def _create(self, path: str) -> None:
        """Create a registered record. Oxia has no transactions, so the fence is written before and after it.

        The second write fails if another broker has written the fence between; then the admission is asked again. So of two
        brokers that exclude each other, at least one sees the other's record before its last write of the fence.
        """
        await self._create_parents(path)
        admit, pause = self._admissions.get(path), _CONTENTION_S
        if admit is None:
            await self._put_registered(path)
            return
        created = False
        while path in self._registered:
            try:
                fence = await admit()
            except NotAdmittedError:
                if created:
                    await self._delete(path)
                raise
            version = await self._put(fence.path, fence.value, _NEW if fence.version is None else fence.version)
            if version is None:
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreads retries, no secret
                pause = min(2 * pause, _LONGEST_CONTENTION_S)
                continue
            if created:
                return
            await self._put_registered(path)
            created = True
            if await self._put(fence.path, fence.value, version) is not None:
                return

    async def _put_registered(self, path: str) -> None:
        """Write a registered record, which replaces one of an earlier session or an earlier process of this broker."""
        value = self._registered.get(path)
        if value is not None:
            await self._put(path, value, None, session=await self._session.live())

    async def _create_parents(self, path: str) -> None:
        for parent in own_parents(path):
            if parent in self._parents:
                continue
            await self._put(parent, b"", _NEW)
            self._parents[parent] = None
            if len(self._parents) > MAX_KNOWN_PARENTS:
                self._parents.popitem(last=False)

    async def _adopt(self, path: str) -> GetResponse | None:
        """Move a copy of an own record to the shard where it belongs.

        A migration copies records without their partition key, to the shard of their path (MigrationCoordinator.copy).
        """
        if self._router.leader(path) == self._router.leader(routing_key(path)):
            return None
        copy = await self._read(path, value=True, key=path)
        if copy is None:
            return None
        await self._put(path, copy.value, _NEW)
        await self._router.call(path, WRITE, WriteRequest(deletes=[DeleteRequest(key=path)]))
        return await self._read(path, value=True)

    async def _read(self, path: str, *, value: bool, key: str | None = None) -> GetResponse | None:
        request = ReadRequest(gets=[GetRequest(key=path, include_value=value)])
        for answer in await self._call(path, READ, request, key):
            for found in answer.gets:
                if found.status == Status.OK:
                    return found  # type: ignore[no-any-return] # answers have the type of their method
                if found.status == Status.KEY_NOT_FOUND:
                    return None
                raise MetadataUnavailableError(f"Oxia at {self.address}: {path}: status {found.status}")
        raise MetadataUnavailableError(f"Oxia at {self.address}: {path}: an answer without a record")

    async def _list(self, path: str) -> frozenset[str]:
        first, after = children_range(path)
        found = await asyncio.gather(
            *(
                self._router.call_shard(number, LIST, ListRequest(start_inclusive=first, end_exclusive=after))
                for number in self._router.shards.shards
            )
        )
        return frozenset(key.removeprefix(first) for answers in found for answer in answers for key in answer.keys)

    async def _put(self, path: str, value: bytes, version: int | None, *, session: int | None = None) -> int | None:
        """Write a record; return its new version, None if it has another version than expected.

        Raises:
            MetadataUnavailableError: Oxia did not answer in time, or the session has ended.
        """
        put = PutRequest(key=path, value=value, expected_version_id=version, partition_key=partition_key(path))
        if session is not None:
            put.session_id, put.client_identity = session, self._session.identity
        (answer,) = await self._call(path, WRITE, WriteRequest(puts=[put]))
        result = answer.puts[0]
        if result.status == Status.OK:
            return int(result.version.version_id)
        if result.status == Status.UNEXPECTED_VERSION_ID:
            return None
        if result.status == Status.SESSION_DOES_NOT_EXIST and session is not None:
            self._session.ended(session)
            raise MetadataUnavailableError(f"Oxia at {self.address}: the session has ended")
        raise MetadataUnavailableError(f"Oxia at {self.address}: {path}: status {result.status}")

    async def _delete(self, path: str, version: int | None = None) -> None:
        request = WriteRequest(deletes=[DeleteRequest(key=path, expected_version_id=version)])
        (answer,) = await self._call(path, WRITE, request)
        if answer.deletes[0].status != Status.OK:
            log.debug("record was removed already: path=%s", path)

    async def _call(self, path: str, method: Any, request: Any, key: str | None = None) -> list[Any]:
        begin = asyncio.get_running_loop().time()
        try:
            found = await self._router.call(key or routing_key(path), method, request)
        except SessionEndedError as error:
            raise MetadataUnavailableError(f"Oxia at {self.address}: the session has ended") from error
        self._durations.answered(asyncio.get_running_loop().time() - begin)
        return found

    def _notify_lease(self, lease: SessionLease) -> None:
        for changed in self._session_listeners:
            changed(lease)

    def _register_all(self) -> None:
        if self._registered and not self._closed:
            task = asyncio.get_running_loop().create_task(self._register_again(self._session.number))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            must_not_fail(task)

    async def _register_again(self, session: int) -> None:
        for path in list(self._registered):
            while path in self._registered and self._session.number == session:
                try:
                    await self._create(path)
                    log.info("registered again after the end of the session of Oxia: path=%s", path)
                    break
                except NotAdmittedError as error:
                    log.warning("cannot register again, retrying: error=%s", error)
                except MetadataUnavailableError as error:
                    log.warning("cannot register again, retrying: path=%s error=%s", path, error)
                await asyncio.sleep(REGISTER_RETRY_S)


def _session_of(version: Version) -> int | None:
    return version.session_id if version.HasField("session_id") else None
