"""Lookups of topic owners, and the shared connections to owners."""

from __future__ import annotations

import asyncio
import itertools
import logging
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from readonly_engine.owner.connection import OwnerConnection
from readonly_engine.owner.durations import RequestDurations
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.owner.identity_session import ConnectionTarget, IdentitySession
from readonly_engine.owner.return_throttle import ReturnThrottle
from readonly_engine.owner.single_flight import SingleFlight
from readonly_engine.waiting import await_shared
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandLookupTopic, CommandLookupTopicResponse, ServerError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.net.tls import ClientTls
    from readonly_engine.owner.connection_parts import ConnectionEvents
    from readonly_engine.owner.identity import Identity
    from readonly_engine.owner.identity_session import IdentityClient
    from readonly_engine.wire.framing import StoredFrameLimit
    from readonly_engine.wire.pulsar_pb2 import AuthData, CommandConnected

log = logging.getLogger(__name__)

MAX_REDIRECTS = 20
"""As in Pulsar's Java client (maxLookupRedirects): more is a loop."""

AUTH_CACHE_TTL_S = 1.0
"""Time for which accepted credentials hold for other clients with the same: a crowd costs the owner one connection."""

LOOKUP_CACHE_TTL_S = 0.1
"""Time for which a lookup's answer is reused. If the topic has moved meanwhile, the former owner refuses the first request."""

PORTS = {"pulsar": 6650, "pulsar+ssl": 6651}


class _AuthAttempt:
    """The handshake with one client's credentials: ConnectionEvents of its connection."""

    def __init__(self, identity: Identity, client: IdentityClient) -> None:
        self.rounds = 0
        self._identity = identity
        self._client = client

    def on_challenge(self, connection: OwnerConnection, challenge: AuthData) -> None:
        self.rounds += 1

        def on_answer(credentials: bytes) -> None:
            connection.send_credentials(self._identity.auth_method, credentials)

        if not self._client.challenge(challenge, on_answer):
            connection.refuse("the client has disconnected")

    def on_connection_lost(self, connection: OwnerConnection) -> None:
        pass

    def on_probe(self) -> None:
        pass


class OwnerDirectory:
    """Connections to the brokers of the source cluster, one for each broker and identity.

    Args:
        service_urls: URLs of the source cluster, `pulsar://HOST[:PORT]` or all `pulsar+ssl://HOST[:PORT]`. The first that answers
            is used until it fails.
        tls: certificates towards the source cluster, required for `pulsar+ssl`.
        peer_tls: certificates towards other brokers of the pool. With them, connections to these brokers use TLS only.
        stored_limit: gets the brokers' maxMessageSize.

    Attributes:
        refused_credentials: number of clients whose credentials were refused.
        durations: answers of the source cluster's brokers, by request.
    """

    def __init__(
        self,
        *service_urls: str,
        tls: ClientTls | None = None,
        peer_tls: ClientTls | None = None,
        stored_limit: StoredFrameLimit | None = None,
    ) -> None:
        self.refused_credentials = 0
        self.durations = RequestDurations()
        self._service_urls = service_urls
        self._preferred = 0
        self._tls = tls
        self._peer_tls = peer_tls
        self._stored_limit = stored_limit
        self._encrypted = service_urls[0].startswith("pulsar+ssl:")
        self._sessions: dict[Identity, IdentitySession] = {}
        self._auth_attempts: dict[Identity, asyncio.Task[tuple[Identity, CommandConnected]]] = {}
        self._lookups: SingleFlight[OwnerConnection] = SingleFlight()
        self._lookup_cache: dict[tuple[str, Identity], OwnerConnection] = {}
        self._connection_numbers = itertools.count(1)
        self._returns: WeakValueDictionary[str, ReturnThrottle] = WeakValueDictionary()  # of lost owners

    # Clients

    async def authenticate(self, identity: Identity, client: IdentityClient) -> tuple[Identity, CommandConnected]:
        """Let the source cluster check the credentials of a client.

        Credentials expire, so each client is checked. Its later requests use shared connections.

        Returns:
            The identity of the client's requests, and the broker's CONNECTED.

        Raises:
            OwnerUnavailableError: no broker answers.
            OwnerRefusedError: the credentials were refused.
        """
        try:
            return await self._admit(identity, client)
        except OwnerRefusedError:
            self.refused_credentials += 1
            raise

    async def _admit(self, identity: Identity, client: IdentityClient) -> tuple[Identity, CommandConnected]:
        if identity.anonymous:
            connection = await self.any_broker(identity)
            session = self.session(identity)
            session.add_client(client)
            return session.identity, connection.handshake
        attempt = self._auth_attempts.get(identity)
        mine = attempt is None
        if attempt is None:
            attempt = self._auth_attempts[identity] = asyncio.create_task(self._authenticate(identity, client))
            attempt.add_done_callback(lambda done: self._auth_attempt_done(identity, done))
        admitted, handshake = await await_shared(attempt)
        if admitted.connection_number and not mine:
            admitted, handshake = await self._authenticate(identity, client)
        session = self.session(admitted)
        session.add_client(client)
        return session.identity, handshake

    def release(self, identity: Identity, client: IdentityClient) -> None:
        """Remove an authenticated client that has disconnected."""
        session = self._sessions.get(identity)
        if session is not None:
            session.remove_client(client)

    def session(self, identity: Identity) -> IdentitySession:
        """Return the session of an identity; create it if there is none."""
        session = self._sessions.get(identity)
        if session is None:
            session = self._sessions[identity] = IdentitySession(identity, self._dial, self._forget)
        return session

    def _forget(self, session: IdentitySession) -> None:
        if self._sessions.get(session.identity) is session:
            del self._sessions[session.identity]
            self._auth_attempts.pop(session.identity, None)

    async def _authenticate(self, identity: Identity, client: IdentityClient) -> tuple[Identity, CommandConnected]:
        """Open a connection with the client's credentials. Return its identity, and the broker's CONNECTED."""
        if identity.bound_to_certificate and self._tls is not None and self._tls.certificate is not None:
            # The owner would authenticate this broker's certificate instead of the client's.
            raise _certificate_error()
        attempt = _AuthAttempt(identity, client)
        try:
            target, connection = await self._connect_any(lambda target: self._dial(target, identity, attempt))
        except OwnerRefusedError as error:
            if identity.bound_to_certificate and error.code == ServerError.AuthenticationError:
                raise _certificate_error() from error
            raise
        if attempt.rounds:
            # Only the client can answer such challenges again: it shares no connections.
            identity = replace(identity, connection_number=next(self._connection_numbers))
        self.session(identity).adopt(target, connection)
        return identity, connection.handshake

    def _auth_attempt_done(self, identity: Identity, attempt: asyncio.Task[tuple[Identity, CommandConnected]]) -> None:
        def forget() -> None:
            if self._auth_attempts.get(identity) is attempt:
                del self._auth_attempts[identity]

        if attempt.cancelled() or attempt.exception() is not None or attempt.result()[0].connection_number:
            forget()
        else:
            asyncio.get_running_loop().call_later(AUTH_CACHE_TTL_S, forget)

    # Connections

    async def any_broker(self, identity: Identity) -> OwnerConnection:
        """Return the connection to the service URL, for requests that any broker can answer.

        Raises:
            RelayError: no broker can be reached, or one refuses the credentials.
        """
        _, connection = await self._connect_any(self.session(identity).connection)
        return connection

    async def owner_of(self, topic: str, identity: Identity) -> OwnerConnection:
        """Return the connection to the broker that owns a topic. Callers with the same topic and identity share lookups.

        Raises:
            OwnerUnavailableError: no broker answers, or the lookup was redirected MAX_REDIRECTS times.
            OwnerRefusedError: the lookup was refused.
        """
        key = (topic, identity)
        found = self._lookup_cache.get(key)
        if found is None or found.closed:
            found = await self._lookups.run(key, lambda: self._look_up(topic, identity))
            if key not in self._lookup_cache:
                asyncio.get_running_loop().call_later(LOOKUP_CACHE_TTL_S, self._lookup_cache.pop, key, None)
            self._lookup_cache[key] = found
        return found

    async def producer_connection(self, topic: str, identity: Identity, publisher: int) -> OwnerConnection:
        """Return a client's own connection to a topic's owner, for its producers (IdentitySession.producer_connection).

        Args:
            topic: the topic.
            identity: the client's credentials.
            publisher: the client's number.

        Raises:
            RelayError: as `owner_of`, or the broker refuses the connection.
        """
        owner = await self.owner_of(topic, identity)
        return await self.session(identity).producer_connection(owner, publisher)

    def close_producer_connections(self, identity: Identity, publisher: int) -> None:
        """Close the own connections of a client that has disconnected."""
        session = self._sessions.get(identity)
        if session is not None:
            session.close_producer_connections(publisher)

    def invalidate(self, topic: str, identity: Identity) -> None:
        """Drop the cached lookup of a topic: its owner may have changed."""
        self._lookup_cache.pop((topic, identity), None)

    def returns_from(self, url: str) -> ReturnThrottle:
        """Return what the consumers share that were lost with the broker at this URL, while they look for its successor."""
        throttle = self._returns.get(url)
        if throttle is None:
            throttle = self._returns[url] = ReturnThrottle()
        return throttle

    async def look_up(self, lookup: CommandLookupTopic, identity: Identity) -> BaseCommand:
        """Look a topic up, and follow redirects.

        Args:
            lookup: the lookup; `authoritative` is changed at each redirect.
            identity: the client's credentials.

        Returns:
            The LOOKUP_RESPONSE that names the owner.

        Raises:
            OwnerUnavailableError: no broker answers, or the lookup was redirected MAX_REDIRECTS times.
            OwnerRefusedError: the lookup was refused.
        """
        answer, _ = await self._follow(lookup, identity)
        return answer

    async def _look_up(self, topic: str, identity: Identity) -> OwnerConnection:
        answer, asked = await self._follow(CommandLookupTopic(topic=topic, authoritative=False), identity)
        return await self.session(identity).connection(self._target(topic, answer.lookup_topic_response, asked))

    async def _follow(self, lookup: CommandLookupTopic, identity: Identity) -> tuple[BaseCommand, str]:
        """Return the answer that names the owner, and the URL of the broker that gave it."""
        connection = await self.any_broker(identity)
        for _ in range(MAX_REDIRECTS):
            answer = await connection.request(BaseCommand(type=BaseCommand.LOOKUP, lookup_topic=lookup))
            if answer.type == BaseCommand.ERROR:
                raise OwnerRefusedError(answer.error.error, answer.error.message)
            response = answer.lookup_topic_response
            if response.response == CommandLookupTopicResponse.Failed:
                raise OwnerRefusedError(response.error, response.message)
            if response.response == CommandLookupTopicResponse.Connect:
                return answer, connection.url
            lookup.authoritative = response.authoritative
            connection = await self.session(identity).connection(self._target(lookup.topic, response, connection.url))
        raise OwnerUnavailableError(
            f"the lookup of {lookup.topic} was redirected {MAX_REDIRECTS} times, at last to {connection.url}; "
            "it is moving, try again"
        )

    def peer_url(self, url: str, tls_url: str) -> str:
        """Choose between the two URLs that another broker of the pool publishes.

        Args:
            url: its `pulsar://` URL.
            tls_url: its `pulsar+ssl://` URL; empty for none.

        Raises:
            OwnerUnavailableError: TLS is required, and the broker publishes no URL for it.
        """
        if self._peer_tls is None:
            return url
        if not tls_url:
            raise OwnerUnavailableError(
                f"the broker {url} of the pool has no pulsar+ssl URL, which connections inside the pool require: "
                "set tls-listen on it; a broker that has stopped has none either"
            )
        return tls_url

    async def peer_connection(self, url: str, identity: Identity) -> OwnerConnection:
        """Return the connection to another broker of the pool, which takes the owner's place.

        Args:
            url: the result of `peer_url`.
            identity: the client's credentials.

        Raises:
            RelayError: the broker cannot be reached, or refuses the credentials.
        """
        return await self.session(identity).connection(ConnectionTarget(url, peer=True))

    def close(self) -> None:
        """Close every connection."""
        for attempt in self._auth_attempts.values():
            attempt.cancel()
        for session in list(self._sessions.values()):
            session.close()

    def _target(self, topic: str, response: CommandLookupTopicResponse, asked: str) -> ConnectionTarget:
        url = response.broker_service_url_tls if self._encrypted else response.broker_service_url
        if not url:
            raise OwnerUnavailableError(
                f"the owner of {topic} names no {'pulsar+ssl' if self._encrypted else 'pulsar'} URL, as service-url has; "
                f"set {'brokerServicePortTls' if self._encrypted else 'brokerServicePort'} there, or change service-url"
            )
        return ConnectionTarget(url, asked if response.proxy_through_service_url else "")

    async def _connect_any(
        self, connect: Callable[[ConnectionTarget], Awaitable[OwnerConnection]]
    ) -> tuple[ConnectionTarget, OwnerConnection]:
        """Connect to the first broker of the service URL that answers, starting with the last one that did."""
        failure: OwnerUnavailableError | None = None
        for _ in self._service_urls:
            number = self._preferred
            target = ConnectionTarget(self._service_urls[number])
            try:
                return target, await connect(target)
            except OwnerUnavailableError as error:
                failure = error
                if self._preferred == number:
                    self._preferred = (number + 1) % len(self._service_urls)
        assert failure is not None
        raise failure

    async def _dial(
        self, target: ConnectionTarget, identity: Identity, events: ConnectionEvents[OwnerConnection]
    ) -> OwnerConnection:
        host, port, encrypted = _address(target.proxy_url or target.url)
        behind = ""
        if target.proxy_url:
            broker, broker_port, _ = _address(target.url)
            behind = f"{broker}:{broker_port}"
        trusted = self._peer_tls if target.peer else self._tls
        if encrypted and trusted is None:
            raise OwnerUnavailableError(f"{target.url} requires TLS; give service-url as pulsar+ssl://HOST:PORT")
        tls = trusted.context() if encrypted and trusted is not None else None
        connection = await OwnerConnection.open(
            target.url,
            host,
            port,
            identity,
            events,
            tls=tls,
            behind_proxy=behind,
            durations=None if target.peer else self.durations,
        )
        if self._stored_limit is not None and not target.peer:
            self._stored_limit.learn(connection.handshake.max_message_size)
        return connection


def _address(url: str) -> tuple[str, int, bool]:
    parts = urlsplit(url)
    try:
        port = parts.port or PORTS[parts.scheme]
    except (KeyError, ValueError):
        port = 0
    if not port or not parts.hostname:
        raise OwnerUnavailableError(
            f"invalid broker URL {url!r}: expected pulsar://HOST:PORT or pulsar+ssl://HOST:PORT"
        )
    return parts.hostname, port, parts.scheme == "pulsar+ssl"


def _certificate_error() -> OwnerRefusedError:
    return OwnerRefusedError(
        ServerError.AuthenticationError,
        "Failed to authenticate: a read-only broker cannot pass a client's TLS certificate on to the owner; use another method",
    )
