"""A connection to one broker of the source cluster: the asyncio shell around OwnerSession."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from typing import TYPE_CHECKING, cast

from readonly_engine.background import ends
from readonly_engine.clock import lease_time
from readonly_engine.net.frame_slicer import SLICE_S
from readonly_engine.owner.durations import RequestDurations
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.owner.handlers import ConnectionHandlers
from readonly_engine.owner.probe_detector import ProbeDetector
from readonly_engine.owner.requests import REQUEST_TIMEOUT_S, OwnerRequests
from readonly_engine.owner.session import OwnerSession
from readonly_engine.owner.subscribe_throttle import SubscribeThrottle
from readonly_engine.wire.commands import command_name
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandConnected
from readonly_engine.wire.pushed import make_push_reader

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from readonly_engine.owner.connection_parts import ConnectionEvents, Publisher
    from readonly_engine.owner.handlers import ConnectionHandler
    from readonly_engine.owner.identity import Identity
    from readonly_engine.wire.entry import Entry
    from readonly_engine.wire.pushed import Splicing
    from readonly_engine.wire.splice import Splice

log = logging.getLogger(__name__)

_MESSAGE = BaseCommand.MESSAGE

CONNECT_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 2.0

KEEP_ALIVE_S = 30.0
"""Interval of PINGs. A connection that receives nothing for one interval after a PING is closed."""


class OwnerConnection(asyncio.BaseProtocol):
    """Carries the requests of all clients of one identity, and passes the owner's commands to their handlers.

    Args:
        url: the broker's URL, for messages.
        identity: the credentials of the connection.
        events: gets the connection's events.
        behind_proxy: HOST:PORT of the broker, where the connection leads to a proxy.
        durations: counts the answers to requests; None to count for this connection alone.

    Attributes:
        refusal: the error by which the owner refused renewed credentials; None without one.
        last_answered_ping: time at which the last answered PING was sent (lease_time); at first, that of the connection's start.
        ping_listener: called when `last_answered_ping` has changed.
        handshake: the owner's CONNECTED.
        closed: whether the connection has ended, or is about to.
        data_received: gets the bytes that the owner sends (asyncio.Protocol). Pushed entries are handled in C, if it is there.
    """

    data_received: Callable[[bytes], None]

    def __init__(
        self,
        url: str,
        identity: Identity,
        events: ConnectionEvents[OwnerConnection] | None = None,
        behind_proxy: str = "",
        durations: RequestDurations | None = None,
    ) -> None:
        self.url = url
        self.events = events
        self.refusal: OwnerRefusedError | None = None
        self._loop = asyncio.get_running_loop()
        self._identity = identity
        self._behind_proxy = behind_proxy
        self._session = OwnerSession()
        self._transport: asyncio.Transport | None = None
        self._connected: asyncio.Future[CommandConnected] = self._loop.create_future()
        self.handshake = CommandConnected()
        self.closed = False
        # requests, and the ids that consumers, producers and watchers have
        self._requests = OwnerRequests(url, self._session, durations or RequestDurations())
        self._subscribe_throttle = SubscribeThrottle()
        self._handlers = ConnectionHandlers()
        self._publisher: Publisher[OwnerConnection] | None = None
        # PINGs in both directions
        self._pings = 0
        self._unanswered_pings: deque[float] = deque()  # times at which the unanswered PINGs were sent
        self._pongs: dict[int, asyncio.Future[None]] = {}  # waiters, by the number of the PONG
        self.last_answered_ping = lease_time()
        self.ping_listener: Callable[[OwnerConnection], None] | None = None
        self._push_handlers: dict[int, Callable[[list[Entry]], None] | Splice] = {}
        self._push_reader = make_push_reader(self._receive, self._push_handlers, self._session.splitter)
        self.data_received = self._push_reader.receive
        self._probe_detector = ProbeDetector(self._loop.time())
        self._keep_alive: asyncio.TimerHandle | None = None

    @classmethod
    async def open(
        cls,
        url: str,
        host: str,
        port: int,
        identity: Identity,
        events: ConnectionEvents[OwnerConnection] | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        behind_proxy: str = "",
        durations: RequestDurations | None = None,
    ) -> OwnerConnection:
        """Connect and authenticate.

        Raises:
            OwnerUnavailableError: no broker answers there in time.
            OwnerRefusedError: the credentials were refused.
        """
        loop = asyncio.get_running_loop()
        connection = cls(url, identity, events, behind_proxy, durations)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await loop.create_connection(
                    lambda: connection, host, port, ssl=tls, server_hostname=None if tls is None else host
                )
                connection.handshake = await connection._connected
        except TimeoutError as error:
            raise OwnerUnavailableError(f"{url} did not answer in {CONNECT_TIMEOUT_S:g} s") from error
        except OSError as error:
            refused = "" if behind_proxy or not isinstance(error, ConnectionRefusedError) else url
            raise OwnerUnavailableError(f"{url} cannot be reached: {error}", refused=refused) from error
        finally:
            if not connection.connected:
                connection.close()
        return connection

    @property
    def connected(self) -> bool:
        """Whether the owner has accepted the connection."""
        return self._connected.done() and not self._connected.cancelled() and self._connected.exception() is None

    @property
    def idle(self) -> bool:
        """Whether the connection has neither unanswered requests nor handlers."""
        return not (self._requests or self._handlers)

    @property
    def direct_url(self) -> str:
        """The broker's URL for direct connections; empty for a broker that only a proxy reaches."""
        return "" if self._behind_proxy else self.url

    def close(self) -> None:
        """End the connection, and drop what has not been read."""
        self.closed = True
        self._push_handlers.clear()
        self._requests.transport = None
        if self._transport is None:
            self._drop_reader()
        elif not self._transport.is_closing():
            self._transport.close()
            # A peer that does not read would keep the connection open, and its callers waiting.
            self._loop.call_later(CLOSE_TIMEOUT_S, self._transport.abort)

    # Requests

    async def request(self, command: BaseCommand) -> BaseCommand:
        """Send a command and wait for its answer, which may be an ERROR.

        Raises:
            OwnerUnavailableError: the connection broke, or no answer came in REQUEST_TIMEOUT_S.
        """
        return await self._requests.request(command)

    async def subscribe(self, command: BaseCommand) -> BaseCommand:
        """Send a SUBSCRIBE as soon as SubscribeThrottle permits it, and wait for its answer, which may be an ERROR.

        Raises:
            OwnerUnavailableError: the connection broke, or no answer came in REQUEST_TIMEOUT_S after it was sent.
        """
        async with self._subscribe_throttle.slot():
            return await self._requests.request(command)

    def send_request(self, command: BaseCommand, on_response: Callable[[BaseCommand | None], None]) -> int:
        """Send a command, and return its request id. `on_response` gets the answer, or None if none will come.

        Acks need no future each.
        """
        return self._requests.send(*self._session.request(command), on_response)

    def ack(self, consumer_id: int, ids: bytes, on_response: Callable[[BaseCommand | None], None]) -> None:
        """Ack entries, given as fields `message_id` of a CommandAck; `on_response` as for `send_request`.

        Acks above the owner's frame limit go as several commands.
        """
        room = self.max_command_bytes
        if len(ids) <= room:
            self._requests.send(*self._session.ack(consumer_id, ids), on_response)
            return
        self._requests.ack_in_parts(consumer_id, ids, on_response)

    def forget(self, request_id: int) -> None:
        """Drop a request and its callback."""
        self._requests.forget(request_id)

    def send(self, command: BaseCommand, payload: bytes = b"") -> str:
        """Send a command that has no answer, or whose answer goes to a handler.

        Returns:
            The reason why it was refused: it is above the owner's frame limit. Empty otherwise.
        """
        return self._requests.send_command(command, payload)

    def forward(self, frame: bytes) -> str:
        """Send a client's frame unchanged, behind its length prefix. Returns as `send`."""
        return self._requests.forward(frame)

    @property
    def max_command_bytes(self) -> int:
        """The longest body of a command whose frame is within the owner's limit."""
        return self._requests.max_command_bytes

    # Handlers

    def add_consumer(self, handler: ConnectionHandler) -> int:
        """Add a consumer, and return its new id on this connection."""
        return self._handlers.add_consumer(handler)

    def has_consumer(self, consumer_id: int) -> bool:
        """Return whether a consumer has the id: neither removed, nor lost with the connection."""
        return self._handlers.has_consumer(consumer_id)

    def remove_consumer(self, consumer_id: int) -> None:
        """Remove a consumer, and answer its unanswered acks with None: they no longer keep the connection from being idle."""
        self._handlers.remove_consumer(consumer_id)
        self._push_handlers.pop(consumer_id, None)
        for request_id in self._session.cancel_consumer_requests(consumer_id):
            self._requests.resolve(request_id, None)

    def add_producer(self, producer_id: int, handler: ConnectionHandler) -> None:
        """Add a producer under the id that its client chose."""
        self._handlers.add_producer(producer_id, handler)

    def remove_producer(self, producer_id: int, handler: ConnectionHandler) -> None:
        """Remove a producer, unless another has taken its id."""
        self._handlers.remove_producer(producer_id, handler)

    def add_watcher(self, handler: ConnectionHandler) -> int:
        """Add a topic-list watcher, and return its new id on this connection."""
        return self._handlers.add_watcher(handler)

    def remove_watcher(self, watcher_id: int) -> None:
        """Remove a topic-list watcher."""
        self._handlers.remove_watcher(watcher_id)

    def call_with_entries(self, consumer_id: int, on_entries: Callable[[list[Entry]], None]) -> None:
        """Call back with a consumer's entries that have arrived together, instead of its `on_command` with each.

        MESSAGEs with more than a position, and those that have arrived in parts, still go to `on_command`.
        """
        self._push_handlers[consumer_id] = on_entries

    def splice(self, consumer_id: int, splice: Splice, splicing: Splicing) -> None:
        """Let a splice deliver a consumer's entries, as far as they fit.

        Args:
            consumer_id: the consumer's id.
            splice: delivers, or passes on as `call_with_entries`.
            splicing: surrounds the deliveries of all splices.
        """
        self._push_reader.splicing = splicing
        self._push_handlers[consumer_id] = splice

    def dedicate_to(self, publisher: Publisher[OwnerConnection]) -> None:
        """Serve the producers of one client alone: the owner's PINGs and backpressure go to this client."""
        self._publisher = publisher
        self._session.answers_pings = False

    # Credentials

    def send_credentials(self, method: str, credentials: bytes) -> None:
        """Answer the owner's challenge, or renew the credentials before a challenge."""
        if self._transport is not None and not self.closed:
            self._transport.write(self._session.auth_response(method, credentials))

    def refuse(self, reason: str) -> None:
        """Close a connection that the owner has not accepted yet; `open` raises OwnerUnavailableError."""
        if not self._connected.done():
            self._connected.set_exception(OwnerUnavailableError(f"{self.url}: {reason}"))
        self.close()

    # PINGs

    async def round_trip(self) -> None:
        """Wait until the owner has handled every earlier command.

        Raises:
            OwnerUnavailableError: the connection broke, or no answer came in time.
        """
        pong = self._pongs[self._pings + 1] = self._loop.create_future()
        if self._transport is not None and not self.closed:
            self._ping(self._transport)
        else:
            pong.set_exception(OwnerUnavailableError(f"the connection to {self.url} broke"))
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                await pong
        except TimeoutError as error:
            raise OwnerUnavailableError(f"{self.url} did not answer PING in {REQUEST_TIMEOUT_S:g} s") from error

    def probe(self) -> None:
        """Send a PING, unless one is unanswered. The PONG sets `last_answered_ping`, and `ping_listener` is called."""
        if self._transport is not None and not self.closed and not self._unanswered_pings:
            self._ping(self._transport)

    def pong(self) -> None:
        """Answer the owner's PING: the client of this connection is alive."""
        if self._transport is not None and not self.closed:
            self._transport.write(self._session.pong())

    def _ping(self, transport: asyncio.Transport) -> None:
        self._pings += 1
        self._unanswered_pings.append(lease_time())
        transport.write(self._session.ping())

    def _on_ping(self) -> None:
        reply = self._session.data_to_send()
        if reply and self._transport is not None:
            self._transport.write(reply)
        if self._probe_detector.is_probe(self._loop.time()) and self.events is not None:
            self.events.on_probe()

    def _on_pong(self) -> None:
        pongs = self._session.pongs
        if pongs > self._pings - len(self._unanswered_pings):
            while self._unanswered_pings and pongs > self._pings - len(self._unanswered_pings):
                self.last_answered_ping = self._unanswered_pings.popleft()
            if self.ping_listener is not None:
                self.ping_listener(self)
        while self._pongs and next(iter(self._pongs)) <= pongs:
            pong = self._pongs.pop(next(iter(self._pongs)))
            if not pong.done():
                pong.set_result(None)

    @ends("close")
    def _check_alive(self) -> None:
        """Close the connection to a host that has vanished; its requests would wait for their deadlines otherwise."""
        if self._transport is None:
            return
        if not self._push_reader.responsive:
            log.warning("owner does not answer, closing the connection: url=%s", self.url)
            self._transport.abort()
            return
        self._push_reader.responsive = False
        self._ping(self._transport)
        self._keep_alive = self._loop.call_later(KEEP_ALIVE_S, self._check_alive)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send CONNECT, and start the PINGs."""
        transport = cast("asyncio.Transport", transport)  # uvloop's transport has the methods, but another base class
        self._transport = self._requests.transport = transport
        self._keep_alive = self._loop.call_later(KEEP_ALIVE_S, self._check_alive)
        transport.write(self._session.connect(self._identity, self._behind_proxy))

    def eof_received(self) -> None:
        """Let the transport close the connection."""

    def _receive(self, data: bytes) -> None:
        """Pass answers to their requests, and commands to their handlers."""
        if self.closed:
            return  # by an earlier part of the same bytes
        session = self._session
        pings, pongs = session.pings, session.pongs
        try:
            received = session.receive_data(data)
        except WireError as error:
            log.warning("protocol error, closing the connection: url=%s error=%s", self.url, error)
            self.close()
            return
        if session.pings != pings:
            self._on_ping()
        if session.pongs != pongs:
            self._on_pong()
        for command, payload, request_id in received:
            if request_id is not None:
                self._requests.resolve(request_id, command)
            elif command.type == _MESSAGE and self._connected.done():
                self._handlers.deliver_message(command, payload)
            elif command.type == BaseCommand.AUTH_CHALLENGE and self.events is not None:
                self.events.on_challenge(self, command.auth_challenge.challenge)
            elif not self._connected.done():
                self._finish_handshake(command)
            elif command.type == BaseCommand.ERROR and command.error.request_id < 0:
                # It answers no request: the owner refuses the renewed credentials, and closes the connection.
                self.refusal = OwnerRefusedError(command.error.error, command.error.message)
            else:
                self._deliver(command, payload)
        if session.has_cancelled:
            for request_id in session.take_cancelled():
                self._requests.resolve(request_id, None)

    def pause_writing(self) -> None:
        """Start backpressure."""
        if self._publisher is not None:
            self._publisher.on_owner_writable(self, writable=False)

    def resume_writing(self) -> None:
        """End backpressure."""
        if self._publisher is not None:
            self._publisher.on_owner_writable(self, writable=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail every request, then notify every handler."""
        self.closed = True
        self._requests.transport = None
        self._requests.cancel_deadlines()
        if self._keep_alive is not None:
            self._keep_alive.cancel()
        if not self._connected.done():
            self._connected.set_exception(
                OwnerUnavailableError(f"{self.url} closed the connection: {exc or 'end of stream'}")
            )
        for pong in self._pongs.values():
            if not pong.done():
                pong.set_exception(OwnerUnavailableError(f"the connection to {self.url} broke"))
        self._pongs.clear()
        if self._publisher is not None:
            self._publisher.on_owner_writable(self, writable=True)
        if self.events is not None:
            self.events.on_connection_lost(self)
        self._push_handlers.clear()
        self._drop_reader()
        self._requests.resolve_all()
        self._notify(deque(self._handlers.take_all()))

    def _notify(self, lost: deque[ConnectionHandler]) -> None:
        """Notify handlers of the end for SLICE_S, and the others in later turns: an owner may have those of 100,000 topics."""
        until = time.monotonic() + SLICE_S
        while lost:
            try:
                lost.popleft().on_connection_lost()
            except Exception:
                log.exception("end of a connection not handled: url=%s", self.url)
            if time.monotonic() >= until:
                break
        if lost:
            self._loop.call_soon(self._notify, lost)

    def _drop_reader(self) -> None:
        """End the cycle of references with the reader, whose garbage would stay for hours (collector.py)."""
        self._push_reader = make_push_reader(_ignore, self._push_handlers, self._session.splitter)
        self.data_received = self._push_reader.receive

    def _finish_handshake(self, command: BaseCommand) -> None:
        if command.type == BaseCommand.CONNECTED:
            self._connected.set_result(command.connected)
        elif command.type == BaseCommand.ERROR:
            self._connected.set_exception(OwnerRefusedError(command.error.error, command.error.message))
        else:
            self._connected.set_exception(
                OwnerUnavailableError(
                    f"{self.url} answered the handshake with {command_name(command)}, which is not supported"
                )
            )

    def _deliver(self, command: BaseCommand, payload: bytes) -> None:
        if command.type == BaseCommand.PING:
            if self._publisher is not None:
                self._publisher.on_owner_ping(self)
        elif not self._handlers.deliver(command, payload):
            log.debug("command without a handler: url=%s command=%s", self.url, command_name(command))


def _ignore(_: bytes) -> None:
    """Drop bytes that arrive after the end."""
