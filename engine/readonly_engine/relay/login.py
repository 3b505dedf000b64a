"""One identity at the writable cluster: its connections to owners, and the clients that speak through them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol

from readonly_engine.relay.errors import OwnerRefusedError, OwnerUnavailableError, RelayError
from readonly_engine.relay.renewal import Renewal
from readonly_engine.waiting import ended
from readonly_engine.wire.pulsar_pb2 import AuthData, ServerError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.relay.connection import ConnectionEvents, OwnerConnection
    from readonly_engine.relay.identity import Identity
    from readonly_engine.relay.renewal import Outcome

log = logging.getLogger(__name__)

RENEWAL_TIMEOUT_S = 30.0
"""A client that has not answered a challenge by then is sent away; an owner waits authenticationRefreshCheckSeconds (60)."""

JUDGEMENT_S = 2.0
"""An owner says nothing to new credentials that it accepts, and closes the connection on others, at once or nearly so."""

LINGER_S = 30.0
"""Connections of an identity without clients are closed after this: the same clients may be back."""

PROBES_AT_ONCE = 100
PROBES_EVERY_S = 0.02
"""Ten thousand clients are asked for a sign of life within 2 s."""


class Place(NamedTuple):
    """Where a connection leads.

    Attributes:
        url: the broker's URL.
        through: URL of the proxy that stands before it; empty for none.
        peer: whether it is another broker of the pool.
        publisher: number of the client whose producers alone use the connection; 0 for the one that all clients share.
    """

    url: str
    through: str = ""
    peer: bool = False
    publisher: int = 0


class Bearer(Protocol):
    """A client's connection, which came with an identity's credentials."""

    def challenge(self, challenge: AuthData, answered: Callable[[bytes], None]) -> bool:
        """Ask the client what an owner asks; `answered` gets its answer. False where it cannot be asked."""

    def probe(self) -> None:
        """Ask the client for a sign of life where it keeps others from a subscription; without one its connection ends."""

    def expel(self, error: RelayError) -> None:
        """Close the connection: the client comes back and says anew who it is."""


class Login:
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
        dial: Callable[[Place, Identity, ConnectionEvents], Awaitable[OwnerConnection]],
        forget: Callable[[Login], None],
    ) -> None:
        self.identity = identity
        self._newest = identity
        self._dial = dial
        self._forget = forget
        self._bearers: set[Bearer] = set()
        self._open: dict[Place, OwnerConnection] = {}
        self._places: dict[OwnerConnection, Place] = {}
        self._of_publisher: dict[int, set[Place]] = {}
        self._opening: dict[Place, asyncio.Task[OwnerConnection]] = {}
        self._renewal: Renewal[Bearer] | None = None
        self._asked = AuthData()
        self._challengers: set[OwnerConnection] = set()
        self._renewed_until = 0.0
        self._overdue: asyncio.TimerHandle | None = None
        self._judged: list[OwnerConnection] = []
        self._judgement: asyncio.Task[None] | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._probing: asyncio.Handle | None = None
        self._closed = False

    @property
    def _method(self) -> str:
        return self.identity.original_auth_method or self.identity.auth_method

    # Connections

    async def connection(self, place: Place) -> OwnerConnection:
        """The connection to a broker, opened if there is none.

        Raises:
            RelayError: it cannot be reached, or refuses the credentials.
        """
        connection = self._open.get(place)
        if connection is not None and not connection.closed:
            return connection
        opening = self._opening.get(place)
        if opening is None:
            opening = self._opening[place] = asyncio.create_task(self._connect(place))
            opening.add_done_callback(lambda task: self._opened(place, task))
        await ended(opening)
        if opening.cancelled():
            raise OwnerUnavailableError(f"the connections of these credentials were closed before {place.url} answered")
        return opening.result()

    async def publishing(self, beside: OwnerConnection, publisher: int) -> OwnerConnection:
        """A client's own connection to a broker, for its producers.

        An owner that limits a producer's rate, or its pending messages, stops reading the whole connection (ServerCnx): acks and
        other clients' messages must not wait with it.

        Args:
            beside: a shared connection to that broker.
            publisher: the client's number.

        Raises:
            RelayError: it cannot be reached, or refuses the credentials.
        """
        shared = self._places.get(beside)
        if shared is None:
            raise OwnerUnavailableError(f"the connection to {beside.url} broke")
        place = shared._replace(publisher=publisher)
        self._of_publisher.setdefault(publisher, set()).add(place)
        return await self.connection(place)

    def end_publishing(self, publisher: int) -> None:
        """The client is gone: close its own connections."""
        for place in self._of_publisher.pop(publisher, ()):
            if (opening := self._opening.get(place)) is not None:
                opening.cancel()
            if (connection := self._open.get(place)) is not None:
                connection.close()

    def _opened(self, place: Place, task: asyncio.Task[OwnerConnection]) -> None:
        if self._opening.get(place) is task:
            del self._opening[place]
        if not task.cancelled():
            task.exception()  # whoever asked may be gone: then nobody else looks at it
        if not self._bearers:
            self._close_later()

    def adopt(self, place: Place, connection: OwnerConnection) -> None:
        """Take up a connection that was opened with these credentials; close it where there is one already."""
        present = self._open.get(place)
        if present is not None and not present.closed:
            connection.close()
            return
        connection.events = self
        self._take(place, connection)
        if not self._bearers:
            self._close_later()

    def close(self) -> None:
        """Close every connection."""
        self._closed = True
        for task in [*self._opening.values(), self._judgement]:
            if task is not None:
                task.cancel()
        for timer in (self._overdue, self._linger, self._probing):
            if timer is not None:
                timer.cancel()
        for connection in list(self._open.values()):
            connection.close()

    async def _connect(self, place: Place) -> OwnerConnection:
        if self._judgement is not None:
            # Nobody knows yet whether the newest credentials are those of the same role.
            await ended(self._judgement)
        try:
            connection = await self._dial(place, self._newest, self)
        except OwnerRefusedError as error:
            if error.code == ServerError.AuthenticationError:
                self._opening.pop(place, None)
                self._end(error)
            raise
        self._take(place, connection)
        return connection

    def _take(self, place: Place, connection: OwnerConnection) -> None:
        self._open[place] = connection
        self._places[connection] = place

    # Clients

    def join(self, bearer: Bearer) -> None:
        """A client came with these credentials, and the owner accepted them."""
        self._bearers.add(bearer)
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        if self._renewal is not None:
            self._renewal.ask(bearer)
            self._challenge(bearer)

    def leave(self, bearer: Bearer) -> None:
        """The client is gone."""
        self._bearers.discard(bearer)
        if self._renewal is not None:
            self._apply(self._renewal.leave(bearer))
        if not self._bearers:
            self._close_later()

    def _close_later(self) -> None:
        if self._linger is None and not self._closed:
            self._linger = asyncio.get_running_loop().call_later(LINGER_S, self._close_unused)

    def _close_unused(self) -> None:
        self._linger = None
        for connection in list(self._open.values()):
            if connection.idle:
                connection.close()
        if any(not connection.idle for connection in self._open.values()) or self._opening:
            self._close_later()
        else:
            self._forget(self)

    # What connections say of their credentials

    def challenged(self, connection: OwnerConnection, challenge: AuthData) -> None:
        """An owner asks for more of, or newer, credentials."""
        if self.identity.alone:
            self._relay(connection, challenge)
        elif not connection.connected:
            connection.refuse("the owner asks for credentials in several rounds, as it did not when the client came")
        elif not self._bearers:
            connection.close()
        elif asyncio.get_running_loop().time() < self._renewed_until:
            connection.authenticate(self._method, self._newest.expiring)
        elif self._renewal is not None:
            self._challengers.add(connection)  # the answer that is on its way is for this one too
        else:
            self._asked = challenge
            self._challengers = {connection}
            deadline = asyncio.get_running_loop().time() + RENEWAL_TIMEOUT_S
            self._renewal = Renewal(self._newest.expiring, self._bearers, deadline)
            self._overdue = asyncio.get_running_loop().call_at(deadline, self._time_passed, deadline)
            for bearer in list(self._bearers):
                self._challenge(bearer)

    def lost(self, connection: OwnerConnection) -> None:
        """A connection broke."""
        place = self._places.pop(connection, None)
        if place is not None and self._open.get(place) is connection:
            del self._open[place]
        if place is not None and place.publisher:
            self._challengers.discard(connection)
            return  # one client's own: it says nothing of the credentials of the others
        unanswered = self._renewal is not None and connection in self._challengers
        if unanswered or connection in self._judged:
            self._end(connection.refusal or OwnerUnavailableError(f"{connection.url} closed the connection"))

    def probed(self) -> None:
        """An owner asks whether a consumer is still there: perhaps another wants its Exclusive subscription."""
        if self._probing is None:
            self._probing = asyncio.get_running_loop().call_soon(self._probe_some, list(self._bearers))

    def _probe_some(self, bearers: list[Bearer]) -> None:
        """Ask a few clients, so that ten thousand of them do not hold up the others."""
        self._probing = None
        for bearer in bearers[:PROBES_AT_ONCE]:
            if bearer in self._bearers:
                bearer.probe()
        if left := bearers[PROBES_AT_ONCE:]:
            self._probing = asyncio.get_running_loop().call_later(PROBES_EVERY_S, self._probe_some, left)

    def _relay(self, connection: OwnerConnection, challenge: AuthData) -> None:
        """The one client of this identity answers by itself, round by round; the owner judges."""

        def answered(credentials: bytes) -> None:
            connection.authenticate(self.identity.auth_method, credentials)

        if not any(bearer.challenge(challenge, answered) for bearer in self._bearers):
            connection.close()

    def _challenge(self, bearer: Bearer) -> None:
        def answered(credentials: bytes) -> None:
            if self._renewal is not None:
                self._apply(self._renewal.answer(bearer, credentials))

        if not bearer.challenge(self._asked, answered):
            self._expel(bearer, "its credentials have expired, and it says that it cannot renew them")

    def _time_passed(self, now: float) -> None:
        if self._renewal is not None:
            self._apply(self._renewal.time_passed(now))

    def _apply(self, outcome: Outcome[Bearer]) -> None:
        renewal = self._renewal
        if renewal is not None and renewal.over:
            self._renewal = None
            if self._overdue is not None:
                self._overdue.cancel()
        if outcome.credentials is not None:
            self._renew(outcome.credentials)
        for bearer in outcome.expel:
            self._expel(bearer, "its credentials have expired, and were not renewed")

    def _renew(self, credentials: bytes) -> None:
        try:
            self._newest = self._newest.renewed(credentials)
        except UnicodeDecodeError:
            self._end(OwnerRefusedError(ServerError.AuthenticationError, "Failed to authenticate"))
            return
        present = [(place, connection) for place, connection in self._open.items() if not connection.closed]
        self._judged = [connection for place, connection in present if not place.publisher]
        if not self._judged:
            # The owner compares the roles only on a connection that was open before.
            self._end(OwnerUnavailableError("no owner is there to judge the renewed credentials"))
            return
        self._renewed_until = asyncio.get_running_loop().time() + RENEWAL_TIMEOUT_S
        self._challengers.clear()
        for _, connection in present:
            connection.authenticate(self._method, credentials)
        self._judgement = asyncio.get_running_loop().create_task(self._judge(list(self._judged)))
        self._judgement.add_done_callback(self._judgement_over)

    async def _judge(self, connections: list[OwnerConnection]) -> None:
        """Wait until every owner has had its say: it judges between the answers to two requests."""
        for connection in connections:
            await connection.round_trip()
            await connection.round_trip()
        await asyncio.sleep(JUDGEMENT_S)

    def _judgement_over(self, task: asyncio.Task[None]) -> None:
        self._judgement = None
        self._judged = []
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, RelayError):
            self._end(error)
        else:
            log.info("the credentials of %d clients were renewed (%s)", len(self._bearers), self.identity.auth_method)

    def _expel(self, bearer: Bearer, reason: str) -> None:
        self._bearers.discard(bearer)
        bearer.expel(OwnerUnavailableError(reason))

    def _end(self, error: RelayError) -> None:
        """Nothing more can be done with these credentials."""
        bearers, self._bearers = self._bearers, set()
        self._renewal, self._judged = None, []
        self._forget(self)
        if bearers:
            log.info("%d clients must say anew who they are (%s): %s", len(bearers), self.identity.auth_method, error)
        for bearer in bearers:
            bearer.expel(error)
        self.close()
