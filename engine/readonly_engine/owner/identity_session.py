"""One identity on the source cluster: its connections to owners, and the clients that share them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol

from readonly_engine.background import ends
from readonly_engine.owner.auth_refresh import AuthRefresh
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError, RelayError
from readonly_engine.waiting import wait_until_done
from readonly_engine.wire.pulsar_pb2 import AuthData, ServerError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.owner.auth_refresh import RefreshOutcome
    from readonly_engine.owner.connection import OwnerConnection
    from readonly_engine.owner.connection_parts import ConnectionEvents
    from readonly_engine.owner.identity import Identity

log = logging.getLogger(__name__)

REFRESH_TIMEOUT_S = 30.0
"""Time after which a client without an answer is disconnected; an owner waits authenticationRefreshCheckSeconds (60)."""

VERIFICATION_S = 2.0
"""An owner sends no answer to new credentials that it accepts. It closes the connection almost at once on others."""

IDLE_TIMEOUT_S = 30.0
"""Time for which connections without clients stay open, for clients that reconnect. Also the interval of checks for idle ones."""

MAX_CONCURRENT_PROBES = 100
PROBE_INTERVAL_S = 0.02
"""Ten thousand clients get a PING within 2 s."""


class ConnectionTarget(NamedTuple):
    """The destination of a connection.

    Attributes:
        url: the broker's URL.
        proxy_url: URL of the proxy before the broker; empty without one.
        peer: whether it is another broker of the pool.
        publisher: number of the client whose producers alone use the connection; 0 for the shared connection.
    """

    url: str
    proxy_url: str = ""
    peer: bool = False
    publisher: int = 0


class IdentityClient(Protocol):
    """A client's connection that was authenticated with an identity."""

    def challenge(self, challenge: AuthData, on_answer: Callable[[bytes], None]) -> bool:
        """Send an owner's challenge to the client; `on_answer` gets its answer. Return False if it supports no challenges."""

    def probe(self) -> None:
        """Send a PING to a client with an exclusive subscription; close its connection if it does not answer."""

    def disconnect(self, error: RelayError) -> None:
        """Close the connection: the client reconnects with its newest credentials."""


class IdentitySession:
    """The connections of one identity.

    Credentials that expire are renewed through the clients (AuthRefresh). If that fails, all clients are disconnected. Each
    reconnects with its newest credentials, which the owner checks separately.

    Args:
        identity: the clients' credentials.
        dial: opens a connection.
        forget: called when the session has neither clients nor connections.
    """

    def __init__(
        self,
        identity: Identity,
        dial: Callable[[ConnectionTarget, Identity, ConnectionEvents[OwnerConnection]], Awaitable[OwnerConnection]],
        forget: Callable[[IdentitySession], None],
    ) -> None:
        self.identity = identity
        self._latest = identity
        self._dial = dial
        self._forget = forget
        self._clients: set[IdentityClient] = set()
        self._open: dict[ConnectionTarget, OwnerConnection] = {}
        self._targets: dict[OwnerConnection, ConnectionTarget] = {}
        self._targets_of_publisher: dict[int, set[ConnectionTarget]] = {}
        self._opening: dict[ConnectionTarget, asyncio.Task[OwnerConnection]] = {}
        self._refresh: AuthRefresh[IdentityClient] | None = None
        self._challenge_data = AuthData()
        self._challengers: set[OwnerConnection] = set()
        self._refreshed_until = 0.0
        self._refresh_timer: asyncio.TimerHandle | None = None
        self._verifying: list[OwnerConnection] = []
        self._verification: asyncio.Task[None] | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._idle_peers: set[OwnerConnection] = set()
        self._probe_handle: asyncio.Handle | None = None
        self._closed = False

    @property
    def _method(self) -> str:
        return self.identity.original_auth_method or self.identity.auth_method

    # Connections

    async def connection(self, target: ConnectionTarget) -> OwnerConnection:
        """Return the connection to a broker; open it if there is none.

        Raises:
            RelayError: the broker cannot be reached, or refuses the credentials.
        """
        connection = self._open.get(target)
        if connection is not None and not connection.closed:
            return connection
        opening = self._opening.get(target)
        if opening is None:
            opening = self._opening[target] = asyncio.create_task(self._connect(target))
            opening.add_done_callback(lambda task: self._open_done(target, task))
        await wait_until_done(opening)
        if opening.cancelled():
            raise OwnerUnavailableError(
                f"the connections of these credentials were closed before {target.url} answered"
            )
        return opening.result()

    async def producer_connection(self, beside: OwnerConnection, publisher: int) -> OwnerConnection:
        """Return a client's own connection to a broker, for its producers.

        An owner that limits a producer's rate, or its pending messages, stops reading the whole connection (ServerCnx). Acks and
        messages of other clients must not wait for it.

        Args:
            beside: a shared connection to that broker.
            publisher: the client's number.

        Raises:
            RelayError: the broker cannot be reached, or refuses the credentials.
        """
        shared_target = self._targets.get(beside)
        if shared_target is None:
            raise OwnerUnavailableError(f"the connection to {beside.url} broke")
        target = shared_target._replace(publisher=publisher)
        self._targets_of_publisher.setdefault(publisher, set()).add(target)
        return await self.connection(target)

    def close_producer_connections(self, publisher: int) -> None:
        """Close the own connections of a client that has disconnected."""
        for target in self._targets_of_publisher.pop(publisher, ()):
            if (opening := self._opening.get(target)) is not None:
                opening.cancel()
            if (connection := self._open.get(target)) is not None:
                connection.close()

    @ends("_fail_unexpectedly")
    def _open_done(self, target: ConnectionTarget, task: asyncio.Task[OwnerConnection]) -> None:
        if self._opening.get(target) is task:
            del self._opening[target]
        if not self._clients:
            self._close_later()

    def adopt(self, target: ConnectionTarget, connection: OwnerConnection) -> None:
        """Add a connection that was opened with these credentials; close it if there is one already."""
        present = self._open.get(target)
        if present is not None and not present.closed:
            connection.close()
            return
        connection.events = self
        self._register(target, connection)
        if not self._clients:
            self._close_later()

    def close(self) -> None:
        """Close every connection."""
        self._closed = True
        for task in [*self._opening.values(), self._verification]:
            if task is not None:
                task.cancel()
        for timer in (self._refresh_timer, self._idle_timer, self._probe_handle):
            if timer is not None:
                timer.cancel()
        for connection in list(self._open.values()):
            connection.close()

    async def _connect(self, target: ConnectionTarget) -> OwnerConnection:
        if self._verification is not None:
            # The newest credentials may be those of another role, until the owner has checked them.
            await wait_until_done(self._verification)
        try:
            connection = await self._dial(target, self._latest, self)
        except OwnerRefusedError as error:
            if error.code == ServerError.AuthenticationError:
                self._opening.pop(target, None)
                self._fail(error)
            raise
        self._register(target, connection)
        return connection

    def _register(self, target: ConnectionTarget, connection: OwnerConnection) -> None:
        self._open[target] = connection
        self._targets[connection] = target
        if target.peer:
            self._close_later()

    # Clients

    def add_client(self, client: IdentityClient) -> None:
        """Add a client whose credentials the owner has accepted."""
        self._clients.add(client)
        if self._refresh is not None:
            self._refresh.ask(client)
            self._challenge(client)

    def remove_client(self, client: IdentityClient) -> None:
        """Remove a client that has disconnected."""
        self._clients.discard(client)
        if self._refresh is not None:
            self._apply(self._refresh.leave(client))
        if not self._clients:
            if self._idle_timer is not None:  # of a check for idle connections
                self._idle_timer.cancel()
                self._idle_timer = None
            self._close_later()

    def _close_later(self) -> None:
        if self._idle_timer is None and not self._closed:
            self._idle_timer = asyncio.get_running_loop().call_later(IDLE_TIMEOUT_S, self._close_unused)

    @ends("_fail_unexpectedly")
    def _close_unused(self) -> None:
        """Close all idle connections if there have been no clients for a while.

        Those to brokers of the pool that were idle at the last check, too, are closed in any case: there, they count as clients,
        which keep that broker's connections to this one open.
        """
        self._idle_timer = None
        idle = {one: target for target, one in self._open.items() if one.idle}
        for connection in idle:
            if not self._clients or connection in self._idle_peers:
                connection.close()
        self._idle_peers = {one for one, target in idle.items() if target.peer and not one.closed}
        left = [target for target, connection in self._open.items() if not connection.closed]
        if any(target.peer for target in left) or (not self._clients and (left or self._opening)):
            self._close_later()
        elif not self._clients:
            self._forget(self)

    # ConnectionEvents

    def on_challenge(self, connection: OwnerConnection, challenge: AuthData) -> None:
        """Handle an owner's challenge: relay it, answer it, or start a renewal."""
        if self.identity.connection_number:
            self._relay_challenge(connection, challenge)
        elif not connection.connected:
            connection.refuse(
                "the owner asks for credentials in several rounds, unlike the broker that authenticated the client"
            )
        elif not self._clients:
            connection.close()
        elif asyncio.get_running_loop().time() < self._refreshed_until:
            connection.send_credentials(self._method, self._latest.refreshable)
        elif self._refresh is not None:
            self._challengers.add(connection)  # the pending answer serves this connection too
        else:
            self._challenge_data = challenge
            self._challengers = {connection}
            loop = asyncio.get_running_loop()
            self._refresh = AuthRefresh(self._latest.refreshable, self._clients, loop.time() + REFRESH_TIMEOUT_S)
            at = self._refresh.next_timer()
            self._refresh_timer = loop.call_at(at, self._expire_refresh, at)
            for client in list(self._clients):
                self._challenge(client)

    def on_connection_lost(self, connection: OwnerConnection) -> None:
        """Remove a connection that has ended; if it waited for renewed credentials, the renewal has failed."""
        target = self._targets.pop(connection, None)
        if target is not None and self._open.get(target) is connection:
            del self._open[target]
        if target is not None and target.publisher:
            self._challengers.discard(connection)
            return  # one client's own: its end proves nothing about the shared credentials
        unanswered = self._refresh is not None and connection in self._challengers
        if unanswered or connection in self._verifying:
            self._fail(connection.refusal or OwnerUnavailableError(f"{connection.url} closed the connection"))

    def on_probe(self) -> None:
        """Send PINGs to the clients: an owner checks a consumer, perhaps for a contender for its subscription."""
        if self._probe_handle is None:
            self._probe_handle = asyncio.get_running_loop().call_soon(self._probe_some, list(self._clients))

    @ends("_fail_unexpectedly")
    def _probe_some(self, clients: list[IdentityClient]) -> None:
        """Send PINGs to a few clients at a time, so that ten thousand do not block the event loop."""
        self._probe_handle = None
        for client in clients[:MAX_CONCURRENT_PROBES]:
            if client in self._clients:
                client.probe()
        if left := clients[MAX_CONCURRENT_PROBES:]:
            self._probe_handle = asyncio.get_running_loop().call_later(PROBE_INTERVAL_S, self._probe_some, left)

    def _relay_challenge(self, connection: OwnerConnection, challenge: AuthData) -> None:
        """Pass a challenge to the one client of this identity, and its answer to the owner."""

        def on_answer(credentials: bytes) -> None:
            connection.send_credentials(self.identity.auth_method, credentials)

        if not any(client.challenge(challenge, on_answer) for client in self._clients):
            connection.close()

    def _challenge(self, client: IdentityClient) -> None:
        def on_answer(credentials: bytes) -> None:
            if self._refresh is not None:
                self._apply(self._refresh.answer(client, credentials))

        if not client.challenge(self._challenge_data, on_answer):
            self._disconnect(
                client, "the credentials have expired, and the client does not support their renewal; connect again"
            )

    @ends("_fail_unexpectedly")
    def _expire_refresh(self, now: float) -> None:
        if self._refresh is not None:
            self._apply(self._refresh.on_timer(now))

    def _apply(self, outcome: RefreshOutcome[IdentityClient]) -> None:
        refresh = self._refresh
        if refresh is not None and refresh.done:
            self._refresh = None
            if self._refresh_timer is not None:
                self._refresh_timer.cancel()
        if outcome.credentials is not None:
            self._apply_credentials(outcome.credentials)
        for client in outcome.disconnect:
            self._disconnect(client, "the credentials have expired, and were not renewed; connect again")

    def _apply_credentials(self, credentials: bytes) -> None:
        try:
            self._latest = self._latest.with_credentials(credentials)
        except UnicodeDecodeError:
            self._fail(OwnerRefusedError(ServerError.AuthenticationError, "Failed to authenticate"))
            return
        present = [(target, connection) for target, connection in self._open.items() if not connection.closed]
        self._verifying = [connection for target, connection in present if not target.publisher]
        if not self._verifying:
            # An owner compares the roles only on a connection with earlier credentials.
            self._fail(OwnerUnavailableError("no open connection can check the renewed credentials; connect again"))
            return
        self._refreshed_until = asyncio.get_running_loop().time() + REFRESH_TIMEOUT_S
        self._challengers.clear()
        for _, connection in present:
            connection.send_credentials(self._method, credentials)
        self._verification = asyncio.get_running_loop().create_task(self._verify(list(self._verifying)))
        self._verification.add_done_callback(self._verification_done)

    async def _verify(self, connections: list[OwnerConnection]) -> None:
        """Wait until every owner has checked the credentials: it does so between the answers to two PINGs."""
        for connection in connections:
            await connection.round_trip()
            await connection.round_trip()
        await asyncio.sleep(VERIFICATION_S)

    @ends("_fail_unexpectedly")
    def _verification_done(self, task: asyncio.Task[None]) -> None:
        self._verification = None
        self._verifying = []
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, RelayError):
            self._fail(error)
        else:
            log.info("credentials renewed: method=%s clients=%d", self.identity.auth_method, len(self._clients))

    def _disconnect(self, client: IdentityClient, reason: str) -> None:
        self._clients.discard(client)
        client.disconnect(OwnerUnavailableError(reason))

    def _fail_unexpectedly(self) -> None:
        self._fail(OwnerUnavailableError("internal error; connect again"))

    def _fail(self, error: RelayError) -> None:
        """Disconnect every client, and close every connection."""
        clients, self._clients = self._clients, set()
        self._refresh, self._verifying = None, []
        self._forget(self)
        if clients:
            log.info(
                "credentials failed, disconnecting the clients: method=%s clients=%d error=%s",
                self.identity.auth_method,
                len(clients),
                error,
            )
        for client in clients:
            client.disconnect(error)
        self.close()
