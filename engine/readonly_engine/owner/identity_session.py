"""One identity at the writable cluster: its connections to owners, and the clients that speak through them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol

from readonly_engine.owner.auth_refresh import AuthRefresh
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError, RelayError
from readonly_engine.waiting import wait_until_done
from readonly_engine.wire.pulsar_pb2 import AuthData, ServerError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.owner.auth_refresh import RefreshOutcome
    from readonly_engine.owner.connection import ConnectionEvents, OwnerConnection
    from readonly_engine.owner.identity import Identity

log = logging.getLogger(__name__)

REFRESH_TIMEOUT_S = 30.0
"""A client that has not answered a challenge by then is sent away; an owner waits authenticationRefreshCheckSeconds (60)."""

VERIFICATION_S = 2.0
"""An owner says nothing to new credentials that it accepts, and closes the connection on others, at once or nearly so."""

IDLE_TIMEOUT_S = 30.0
"""Connections of an identity without clients are closed after this: the same clients may be back."""

MAX_CONCURRENT_PROBES = 100
PROBE_INTERVAL_S = 0.02
"""Ten thousand clients are asked for a sign of life within 2 s."""


class ConnectionTarget(NamedTuple):
    """Where a connection leads.

    Attributes:
        url: the broker's URL.
        proxy_url: URL of the proxy that stands before it; empty for none.
        peer: whether it is another broker of the pool.
        publisher: number of the client whose producers alone use the connection; 0 for the one that all clients share.
    """

    url: str
    proxy_url: str = ""
    peer: bool = False
    publisher: int = 0


class IdentityClient(Protocol):
    """A client's connection, which came with an identity's credentials."""

    def challenge(self, challenge: AuthData, on_answer: Callable[[bytes], None]) -> bool:
        """Ask the client what an owner asks; `on_answer` gets its answer. False where it cannot be asked."""

    def probe(self) -> None:
        """Ask the client for a sign of life where it keeps others from a subscription; without one its connection ends."""

    def disconnect(self, error: RelayError) -> None:
        """Close the connection: the client comes back and says anew who it is."""


class IdentitySession:
    """The connections of one identity.

    Credentials that expire are renewed by asking the clients (see Renewal). Where that fails, all of them are sent away: each
    comes back with the newest credentials that it has, and the owner judges those by themselves.

    Args:
        identity: who the clients say that they are.
        dial: opens a connection.
        forget: called when nobody needs this login any more.
    """

    def __init__(
        self,
        identity: Identity,
        dial: Callable[[ConnectionTarget, Identity, ConnectionEvents], Awaitable[OwnerConnection]],
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
        self._probe_handle: asyncio.Handle | None = None
        self._closed = False

    @property
    def _method(self) -> str:
        return self.identity.original_auth_method or self.identity.auth_method

    # Connections

    async def connection(self, target: ConnectionTarget) -> OwnerConnection:
        """The connection to a broker, opened if there is none.

        Raises:
            RelayError: it cannot be reached, or refuses the credentials.
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
        """A client's own connection to a broker, for its producers.

        An owner that limits a producer's rate, or its pending messages, stops reading the whole connection (ServerCnx): acks and
        other clients' messages must not wait with it.

        Args:
            beside: a shared connection to that broker.
            publisher: the client's number.

        Raises:
            RelayError: it cannot be reached, or refuses the credentials.
        """
        shared_target = self._targets.get(beside)
        if shared_target is None:
            raise OwnerUnavailableError(f"the connection to {beside.url} broke")
        target = shared_target._replace(publisher=publisher)
        self._targets_of_publisher.setdefault(publisher, set()).add(target)
        return await self.connection(target)

    def close_producer_connections(self, publisher: int) -> None:
        """The client is gone: close its own connections."""
        for target in self._targets_of_publisher.pop(publisher, ()):
            if (opening := self._opening.get(target)) is not None:
                opening.cancel()
            if (connection := self._open.get(target)) is not None:
                connection.close()

    def _open_done(self, target: ConnectionTarget, task: asyncio.Task[OwnerConnection]) -> None:
        if self._opening.get(target) is task:
            del self._opening[target]
        if not task.cancelled():
            task.exception()  # whoever asked may be gone: then nobody else looks at it
        if not self._clients:
            self._close_later()

    def adopt(self, target: ConnectionTarget, connection: OwnerConnection) -> None:
        """Take up a connection that was opened with these credentials; close it where there is one already."""
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
            # Nobody knows yet whether the newest credentials are those of the same role.
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

    # Clients

    def add_client(self, client: IdentityClient) -> None:
        """A client came with these credentials, and the owner accepted them."""
        self._clients.add(client)
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        if self._refresh is not None:
            self._refresh.ask(client)
            self._challenge(client)

    def remove_client(self, client: IdentityClient) -> None:
        """The client is gone."""
        self._clients.discard(client)
        if self._refresh is not None:
            self._apply(self._refresh.leave(client))
        if not self._clients:
            self._close_later()

    def _close_later(self) -> None:
        if self._idle_timer is None and not self._closed:
            self._idle_timer = asyncio.get_running_loop().call_later(IDLE_TIMEOUT_S, self._close_unused)

    def _close_unused(self) -> None:
        self._idle_timer = None
        for connection in list(self._open.values()):
            if connection.idle:
                connection.close()
        if any(not connection.idle for connection in self._open.values()) or self._opening:
            self._close_later()
        else:
            self._forget(self)

    # What connections say of their credentials

    def on_challenge(self, connection: OwnerConnection, challenge: AuthData) -> None:
        """An owner asks for more of, or newer, credentials."""
        if self.identity.connection_number:
            self._relay_challenge(connection, challenge)
        elif not connection.connected:
            connection.refuse("the owner asks for credentials in several rounds, as it did not when the client came")
        elif not self._clients:
            connection.close()
        elif asyncio.get_running_loop().time() < self._refreshed_until:
            connection.send_credentials(self._method, self._latest.refreshable)
        elif self._refresh is not None:
            self._challengers.add(connection)  # the answer that is on its way is for this one too
        else:
            self._challenge_data = challenge
            self._challengers = {connection}
            deadline = asyncio.get_running_loop().time() + REFRESH_TIMEOUT_S
            self._refresh = AuthRefresh(self._latest.refreshable, self._clients, deadline)
            self._refresh_timer = asyncio.get_running_loop().call_at(deadline, self._expire_refresh, deadline)
            for client in list(self._clients):
                self._challenge(client)

    def on_connection_lost(self, connection: OwnerConnection) -> None:
        """A connection broke."""
        target = self._targets.pop(connection, None)
        if target is not None and self._open.get(target) is connection:
            del self._open[target]
        if target is not None and target.publisher:
            self._challengers.discard(connection)
            return  # one client's own: it says nothing of the credentials of the others
        unanswered = self._refresh is not None and connection in self._challengers
        if unanswered or connection in self._verifying:
            self._fail(connection.refusal or OwnerUnavailableError(f"{connection.url} closed the connection"))

    def on_probe(self) -> None:
        """An owner asks whether a consumer is still there: perhaps another wants its Exclusive subscription."""
        if self._probe_handle is None:
            self._probe_handle = asyncio.get_running_loop().call_soon(self._probe_some, list(self._clients))

    def _probe_some(self, clients: list[IdentityClient]) -> None:
        """Ask a few clients, so that ten thousand of them do not hold up the others."""
        self._probe_handle = None
        for client in clients[:MAX_CONCURRENT_PROBES]:
            if client in self._clients:
                client.probe()
        if left := clients[MAX_CONCURRENT_PROBES:]:
            self._probe_handle = asyncio.get_running_loop().call_later(PROBE_INTERVAL_S, self._probe_some, left)

    def _relay_challenge(self, connection: OwnerConnection, challenge: AuthData) -> None:
        """The one client of this identity answers by itself, round by round; the owner judges."""

        def answered(credentials: bytes) -> None:
            connection.send_credentials(self.identity.auth_method, credentials)

        if not any(client.challenge(challenge, answered) for client in self._clients):
            connection.close()

    def _challenge(self, client: IdentityClient) -> None:
        def answered(credentials: bytes) -> None:
            if self._refresh is not None:
                self._apply(self._refresh.answer(client, credentials))

        if not client.challenge(self._challenge_data, answered):
            self._disconnect(client, "its credentials have expired, and it says that it cannot renew them")

    def _expire_refresh(self, now: float) -> None:
        if self._refresh is not None:
            self._apply(self._refresh.expire(now))

    def _apply(self, outcome: RefreshOutcome[IdentityClient]) -> None:
        refresh = self._refresh
        if refresh is not None and refresh.done:
            self._refresh = None
            if self._refresh_timer is not None:
                self._refresh_timer.cancel()
        if outcome.credentials is not None:
            self._apply_credentials(outcome.credentials)
        for client in outcome.disconnect:
            self._disconnect(client, "its credentials have expired, and were not renewed")

    def _apply_credentials(self, credentials: bytes) -> None:
        try:
            self._latest = self._latest.with_credentials(credentials)
        except UnicodeDecodeError:
            self._fail(OwnerRefusedError(ServerError.AuthenticationError, "Failed to authenticate"))
            return
        present = [(target, connection) for target, connection in self._open.items() if not connection.closed]
        self._verifying = [connection for target, connection in present if not target.publisher]
        if not self._verifying:
            # The owner compares the roles only on a connection that was open before.
            self._fail(OwnerUnavailableError("no owner is there to judge the renewed credentials"))
            return
        self._refreshed_until = asyncio.get_running_loop().time() + REFRESH_TIMEOUT_S
        self._challengers.clear()
        for _, connection in present:
            connection.send_credentials(self._method, credentials)
        self._verification = asyncio.get_running_loop().create_task(self._verify(list(self._verifying)))
        self._verification.add_done_callback(self._verification_done)

    async def _verify(self, connections: list[OwnerConnection]) -> None:
        """Wait until every owner has had its say: it judges between the answers to two requests."""
        for connection in connections:
            await connection.round_trip()
            await connection.round_trip()
        await asyncio.sleep(VERIFICATION_S)

    def _verification_done(self, task: asyncio.Task[None]) -> None:
        self._verification = None
        self._verifying = []
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, RelayError):
            self._fail(error)
        else:
            log.info("the credentials of %d clients were renewed (%s)", len(self._clients), self.identity.auth_method)

    def _disconnect(self, client: IdentityClient, reason: str) -> None:
        self._clients.discard(client)
        client.disconnect(OwnerUnavailableError(reason))

    def _fail(self, error: RelayError) -> None:
        """Nothing more can be done with these credentials."""
        clients, self._clients = self._clients, set()
        self._refresh, self._verifying = None, []
        self._forget(self)
        if clients:
            log.info("%d clients must say anew who they are (%s): %s", len(clients), self.identity.auth_method, error)
        for client in clients:
            client.disconnect(error)
        self.close()
