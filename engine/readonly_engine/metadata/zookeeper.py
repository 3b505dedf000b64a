"""ZooKeeper as the metadata store, by kazoo, whose callbacks run in threads of its own."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, KazooException, NoAuthError, NodeExistsError, NoNodeError
from kazoo.protocol.states import KazooState
from kazoo.security import ACL, make_acl, make_digest_acl

from readonly_engine.background import must_not_fail, run_forever
from readonly_engine.clock import lease_time
from readonly_engine.metadata.errors import MetadataError, MetadataUnavailableError, NotAdmittedError
from readonly_engine.metadata.lease import (
    EARLIER_POLL_S,
    EARLIER_SESSION_S,
    NO_SESSION,
    PROBE_SHARE,
    REGISTER_RETRY_S,
    SESSION_TIMEOUT_S,
    SILENCE_SHARE,
    SessionLease,
)
from readonly_engine.metadata.security import OPEN_STORE, LoginScheme, NodeRights
from readonly_engine.metadata.store import OWN_ROOT, ClaimResult, Fence, Versioned, check_own
from readonly_engine.metadata.watches import NodeWatch
from readonly_engine.metadata.zookeeper_connection import Connection
from readonly_engine.metadata.zookeeper_dry_run import dry_run
from readonly_engine.metadata.zookeeper_handler import PollHandler, TlsHandler
from readonly_engine.metadata.zookeeper_nodes import WatchedNodes
from readonly_engine.metadata.zookeeper_requests import ZooKeeperRequests
from readonly_engine.net.tls import ClientTls

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.metadata.security import StoreSecurity
    from readonly_engine.metadata.zookeeper_nodes import ChildNames, NodeValues
    from readonly_engine.net.digest_md5 import Credentials
    from readonly_engine.net.durations import Durations

log = logging.getLogger(__name__)

CLOSE_TIMEOUT_S: Final = 3.0
"""Time to end the session. With the drain (DRAIN_TIMEOUT_S), a broker ends within 30 s."""


class ZooKeeperStore:
    """A MetadataStore on ZooKeeper.

    Args:
        hosts: `HOST:PORT[,HOST:PORT...][/chroot]`.
        security: TLS, login and the rights on created nodes.

    Raises:
        TlsError: a file of TLS cannot be used.
        LoginError: the file of the login cannot be used.
    """

    def __init__(self, hosts: str, security: StoreSecurity = OPEN_STORE) -> None:
        self.hosts = hosts
        login = security.login()
        self._client = KazooClient(
            hosts=hosts,
            timeout=SESSION_TIMEOUT_S,
            connection_retry={"max_tries": -1, "max_delay": 5},
            handler=PollHandler() if security.tls is None else TlsHandler(ClientTls(security.tls)),
            default_acl=None if login is None else _rights(security, login),
        )
        self._connection = Connection.of(self._client, security)
        self._requests = ZooKeeperRequests(self._client, self._connection, hosts, security)
        self._lease = SessionLease()
        self._probing: asyncio.Task[None] | None = None
        self._probe_now = asyncio.Event()
        self._registered: dict[str, bytes] = {}
        self._admissions: dict[str, Callable[[], Awaitable[Fence]]] = {}
        self._lost = False
        self._session_listeners: list[Callable[[SessionLease], None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._watched: WatchedNodes | None = None

    async def start(self) -> None:
        """Connect.

        Raises:
            AccessDeniedError: ZooKeeper refuses the certificate or the login, or this client does not trust ZooKeeper.
            MetadataUnavailableError: no ZooKeeper answers at these hosts.
            MetadataError: the chroot does not exist.
        """
        self._requests.use_running_loop()
        self._watched = WatchedNodes(self._client, self._requests.call, self._running_loop())
        self._client.add_listener(self._state_changed)
        try:
            await self._requests.start()
        except MetadataError:
            await self.close()
            raise
        self._probing = run_forever(self._probe, "probing the ZooKeeper session")

    @property
    def connected(self) -> bool:
        """Return whether the session is alive and connected."""
        return bool(self._client.connected)

    @property
    def denied(self) -> int:
        """Return the number of requests and connections that ZooKeeper refused."""
        return self._requests.denied + self._connection.refusals

    @property
    def durations(self) -> Durations:
        """Return how many requests ZooKeeper has answered, and how long that took."""
        return self._requests.durations

    async def get(self, path: str) -> Versioned | None:
        """Return a node's value, None if there is no such node."""
        try:
            value, stat = await self._call(self._client.get_async, path)
        except NoNodeError:
            return None
        return Versioned(value, stat.version, stat.ctime)

    async def children(self, path: str) -> frozenset[str] | None:
        """Return the names of a node's children, None if there is no such node."""
        try:
            return frozenset(await self._call(self._client.get_children_async, path))
        except NoNodeError:
            return None

    def watch(self, path: str, changed: Callable[[Versioned | None], None]) -> NodeWatch[Versioned | None]:
        """Watch a node's value."""
        return NodeWatch(path, self.watched_values, changed)

    def watch_children(self, path: str, changed: Callable[[frozenset[str]], None]) -> NodeWatch[frozenset[str]]:
        """Watch the names of a node's children."""
        return NodeWatch(path, self.watched_names, changed)

    @property
    def watched_values(self) -> NodeValues:
        """Return the watched values of nodes."""
        return self._nodes.values

    @property
    def watched_names(self) -> ChildNames:
        """Return the watched names of nodes' children."""
        return self._nodes.names

    @property
    def watches(self) -> list[NodeWatch[Any]]:
        """Return all watches."""
        return [] if self._watched is None else self._watched.watchers.all

    async def register(self, path: str, value: bytes, admit: Callable[[], Awaitable[Fence]] | None = None) -> None:
        """Keep an ephemeral node with this value."""
        check_own(path)
        if admit is not None:
            self._admissions[path] = admit
        self._registered[path] = value
        try:
            await self._create(path)
        except NotAdmittedError:
            self._registered.pop(path, None)
            raise

    async def unregister(self, path: str) -> None:
        """Remove a node made by `register`."""
        self._registered.pop(path, None)
        try:
            await self._call(self._client.delete_async, path)
        except NoNodeError:
            log.debug("node was removed already: path=%s", path)

    async def update(self, path: str, value: bytes) -> None:
        """Change the value of a node made by `register`."""
        self._registered[path] = value
        try:
            await self._call(self._client.set_async, path, value)
        except NoNodeError:
            await self._create(path)

    async def claim(self, path: str, value: bytes) -> ClaimResult:
        """Create an ephemeral node unless another process holds it.

        A node of an earlier session is never deleted, it ends with that session. The first version of every node is 0, so a
        condition on the version could not protect a node that another broker has created meanwhile.
        """
        check_own(path)
        deadline = self._running_loop().time() + EARLIER_SESSION_S
        while True:
            try:
                _, stat = await self._call(self._client.create_async, path, value, None, True, False, True, True)
            except NodeExistsError:
                try:
                    found, stat = await self._call(self._client.get_async, path)
                except NoNodeError:
                    continue  # removed meanwhile
                if stat.ephemeralOwner == self._session_id:
                    return ClaimResult(stat.ephemeralOwner)
                if found != value or self._running_loop().time() >= deadline:
                    return ClaimResult(NO_SESSION, bytes(found or b""))
                await asyncio.sleep(EARLIER_POLL_S)
            else:
                return ClaimResult(stat.ephemeralOwner)

    async def release(self, path: str) -> None:
        """Remove a node made by `claim`."""
        try:
            _, stat = await self._call(self._client.get_async, path)
        except NoNodeError:
            return
        if stat.ephemeralOwner == self._session_id:
            await self._delete(path, stat.version)

    async def put(self, path: str, value: bytes) -> None:
        """Create a persistent node, or change its value."""
        check_own(path)
        while True:
            try:
                await self._call(self._client.set_async, path, value)
            except NoNodeError:
                try:
                    await self._call(self._client.create_async, path, value, None, False, False, True)
                except NodeExistsError:
                    continue  # created meanwhile
            return

    async def put_if(self, path: str, value: bytes, version: int | None) -> int | None:
        """Create a persistent node, or change its value, unless another process has done so meanwhile."""
        check_own(path)
        try:
            if version is None:
                _, stat = await self._call(self._client.create_async, path, value, None, False, False, True, True)
            else:
                stat = await self._call(self._client.set_async, path, value, version)
        except (NodeExistsError, NoNodeError, BadVersionError):
            return None
        return int(stat.version)

    async def remove(self, path: str) -> None:
        """Remove a node made by `put`."""
        check_own(path)
        try:
            await self._call(self._client.delete_async, path)
        except NoNodeError:
            log.debug("node was removed already: path=%s", path)

    async def check_writable(self, path: str) -> None:
        """Check that an ephemeral node may be created. It writes nothing."""
        check_own(path)
        await dry_run(self._requests, self._client, path)

    def on_session(self, changed: Callable[[SessionLease], None]) -> None:
        """Call back with the session's lease."""
        self._session_listeners.append(changed)
        changed(self._lease)

    @property
    def _session_id(self) -> int:
        identity = self._client.client_id
        return NO_SESSION if identity is None else int(identity[0] or NO_SESSION)

    async def _probe(self) -> None:
        """Probe the session continuously, and drop a connection that is silent.

        `sync` goes through ZooKeeper's leader, which decides about sessions; a follower without a leader still answers reads.
        kazoo pings only when it sends nothing else, and does not notice that requests get no answers.
        """
        while True:
            self._probe_now.clear()
            sent, session, timeout = lease_time(), self._session_id, self._connection.session_timeout
            if self.connected:
                try:
                    await self._requests.answer_of(SILENCE_SHARE * timeout, self._client.sync_async, OWN_ROOT)
                except TimeoutError:
                    log.warning(
                        "ZooKeeper does not answer, dropping the connection: silent_s=%g", SILENCE_SHARE * timeout
                    )
                    self._connection.drop()
                except KazooException as error:
                    log.debug("probe of ZooKeeper failed: error=%s", type(error).__name__)
                else:
                    if session == self._session_id and self._lease.answered(session, sent, timeout):
                        self._notify_lease()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, sent + PROBE_SHARE * timeout - lease_time())):
                    await self._probe_now.wait()

    async def _delete(self, path: str, version: int) -> None:
        try:
            await self._call(self._client.delete_async, path, version)
        except (NoNodeError, BadVersionError):
            log.debug("node was removed already: path=%s", path)

    async def close(self) -> None:
        """End the session."""
        self._registered.clear()
        for watch in self.watches:
            watch.stop()
        for task in self._tasks:
            task.cancel()
        if self._probing is not None:
            self._probing.cancel()
        await self._end_session()

    async def _end_session(self) -> None:
        """End the session, unless ZooKeeper is silent; then it ends by its timeout.

        kazoo waits 10 s or more for a connection, maybe without end, and then raises WriterNotClosedException (2.10.0).
        """
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def end() -> None:
            try:
                self._client.stop()
                self._client.close()
            except (KazooException, OSError) as error:
                log.info("the connection to ZooKeeper was not closed: error=%s", error)
            with suppress(RuntimeError):  # the event loop has ended before
                loop.call_soon_threadsafe(ended.set)

        # A thread of an executor would be joined when the event loop ends.
        Thread(target=end, name="zookeeper-close", daemon=True).start()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await ended.wait()
        except TimeoutError:
            log.info(
                "ZooKeeper does not end the session in time, leaving it to its timeout: timeout=%gs", CLOSE_TIMEOUT_S
            )

    async def _create(self, path: str) -> None:
        """Create a registered node, in one transaction with its fence."""
        await self._call(self._client.ensure_path_async, path.rpartition("/")[0])
        while path in self._registered:
            admit, request = self._admissions.get(path), self._client.transaction()
            fence = None if admit is None else await admit()
            if fence is not None:
                if fence.version is None:
                    request.create(fence.path, fence.value)
                else:
                    request.set_data(fence.path, fence.value, fence.version)
            request.create(path, self._registered[path], None, True)
            *admitted, made = await self._call(request.commit_async)
            if isinstance(made, str):
                return
            if isinstance(made, NodeExistsError):
                # The node is of an earlier session or an earlier process of this broker: replace it by one of this session.
                with suppress(NoNodeError):
                    await self._call(self._client.delete_async, path)
            elif isinstance(made, NoAuthError):
                raise await self._requests.denial("create", path)
            elif fence is not None and isinstance(admitted[0], NoAuthError):
                right = "create" if fence.version is None else "write"
                raise await self._requests.denial(right, fence.path)
            elif not (admitted and isinstance(admitted[0], NoNodeError | NodeExistsError | BadVersionError)):
                raise MetadataUnavailableError(f"ZooKeeper at {self.hosts}: {path} cannot be created: {made!r}")

    async def _call(self, function: Callable[..., Any], *args: object) -> Any:
        return await self._requests.call(function, *args)

    @property
    def _nodes(self) -> WatchedNodes:
        assert self._watched is not None, "start() first"
        return self._watched

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        return self._requests.loop

    def _state_changed(self, state: str) -> None:
        """Handle a change of kazoo's state, in its thread. Watches end with a connection, ephemeral nodes with a session."""
        loop = self._running_loop()
        if loop.is_closed():
            return
        if state == KazooState.LOST:
            self._lost = True
            loop.call_soon_threadsafe(self._session_ended)
        elif state == KazooState.CONNECTED:
            lost, self._lost = self._lost, False
            loop.call_soon_threadsafe(self._connected_again, lost)

    def _session_ended(self) -> None:
        self._lease.ended()
        self._notify_lease()

    def _notify_lease(self) -> None:
        for changed in self._session_listeners:
            changed(self._lease)

    def _connected_again(self, lost: bool) -> None:
        self._probe_now.set()
        self._nodes.watchers.refresh_all()
        if lost and self._registered:
            task = self._running_loop().create_task(self._register_again())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            must_not_fail(task)

    async def _register_again(self) -> None:
        for path in list(self._registered):
            while path in self._registered and not self._lost:
                try:
                    await self._create(path)
                    log.info("registered again after the loss of the ZooKeeper session: path=%s", path)
                    break
                except NotAdmittedError as error:
                    log.warning("cannot register again, retrying: error=%s", error)
                    await asyncio.sleep(REGISTER_RETRY_S)
                except MetadataUnavailableError as error:
                    log.warning("cannot register again, retrying: path=%s error=%s", path, error)
                    await asyncio.sleep(REGISTER_RETRY_S)


def _rights(security: StoreSecurity, login: Credentials) -> list[ACL] | None:
    """Return the rights on created nodes; None for open ones.

    They name the login alone. ZooKeeper's scheme `auth` would add the subject of the client certificate, which others may have.
    """
    if security.created_rights is NodeRights.OPEN:
        return None
    if security.scheme is LoginScheme.SASL:
        return [make_acl("sasl", login.user, all=True)]
    return [make_digest_acl(login.user, login.password, all=True)]
