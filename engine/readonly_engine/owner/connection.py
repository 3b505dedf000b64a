"""A connection to one broker of the writable cluster: the asyncio shell around OwnerSession."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Protocol, cast

from readonly_engine.clock import lease_time
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.owner.probe_detector import ProbeDetector
from readonly_engine.owner.responses import ResponseAggregator
from readonly_engine.owner.session import OwnerSession
from readonly_engine.owner.subscribe_throttle import SubscribeThrottle
from readonly_engine.wire.acks import split_ids
from readonly_engine.wire.commands import command_name, encode_command
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.framing import LENGTH_BYTES
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandConnected, CommandError, ServerError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from readonly_engine.owner.identity import Identity
    from readonly_engine.wire.pulsar_pb2 import AuthData

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_S = 30.0
CLOSE_TIMEOUT_S = 2.0

COMMAND_MARGIN_BYTES = 1024
"""Room for the ids and lengths around a body."""

KEEP_ALIVE_S = 30.0
"""An owner that says nothing for this long is pinged, and given up when it says nothing for as long again; it pings as often."""


class ConnectionHandler(Protocol):
    """A consumer or producer that lives on a connection under an id."""

    def on_command(self, command: BaseCommand, payload: bytes) -> None:
        """The owner sent a command for this id."""

    def on_connection_lost(self) -> None:
        """The connection broke."""


class Publisher(Protocol):
    """A client that has a connection for its producers alone: what that connection asks is the client's to answer."""

    def on_owner_writable(self, connection: OwnerConnection, *, writable: bool) -> None:
        """The connection takes more, or for now no more; also called when it is gone."""

    def on_owner_ping(self, connection: OwnerConnection) -> None:
        """The owner asks for a sign of life. It waits for `pong`, or for anything else that is sent."""


class ConnectionEvents(Protocol):
    """Who looks after a connection's credentials."""

    def on_challenge(self, connection: OwnerConnection, challenge: AuthData) -> None:
        """The owner asks for more credentials, before it lets the connection in, or for newer ones, later."""

    def on_connection_lost(self, connection: OwnerConnection) -> None:
        """The connection broke; its residents are told next."""

    def on_probe(self) -> None:
        """The owner asks whether a consumer is still there, and was answered for all of them."""


class OwnerConnection(asyncio.Protocol):
    """Carries the requests of many clients of one identity, and hands what the owner says to whom it concerns.

    Args:
        url: the broker's URL, for messages.
        identity: whose credentials are shown.
        events: who looks after them.
        behind_proxy: HOST:PORT of the broker, where what is connected to is a proxy.

    Attributes:
        last_answered_ping: time of the last PING that the owner has answered; at first, the time when the connection began.
        ping_listener: called when that has changed.
    """

    def __init__(
        self, url: str, identity: Identity, events: ConnectionEvents | None = None, behind_proxy: str = ""
    ) -> None:
        self.url = url
        self.events = events
        self.refusal: OwnerRefusedError | None = None
        self._loop = asyncio.get_running_loop()
        self._identity = identity
        self._behind_proxy = behind_proxy
        self._pongs: dict[int, asyncio.Future[None]] = {}
        self._pings = 0
        self._unanswered_pings: deque[float] = deque()  # when those PINGs were sent that are not answered
        self.last_answered_ping = lease_time()
        self.ping_listener: Callable[[OwnerConnection], None] | None = None
        self._session = OwnerSession()
        self._transport: asyncio.Transport | None = None
        self._connected: asyncio.Future[CommandConnected] = self._loop.create_future()
        self._subscribe_throttle = SubscribeThrottle()
        self._probe_detector = ProbeDetector(self._loop.time())
        self._callbacks: dict[int, Callable[[BaseCommand | None], None]] = {}
        self._deadlines: deque[tuple[float, asyncio.Future[BaseCommand]]] = deque()
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._consumers: dict[int, ConnectionHandler] = {}
        self._producers: dict[int, ConnectionHandler] = {}
        self._publisher: Publisher | None = None
        self._watchers: dict[int, ConnectionHandler] = {}
        self._last_consumer = 0
        self._last_watcher = 0
        self._responsive = True
        self._keep_alive: asyncio.TimerHandle | None = None
        self.handshake = CommandConnected()
        self.closed = False

    @classmethod
    async def open(
        cls,
        url: str,
        host: str,
        port: int,
        identity: Identity,
        events: ConnectionEvents | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        behind_proxy: str = "",
    ) -> OwnerConnection:
        """Connect and authenticate.

        Raises:
            OwnerUnavailableError: nobody answers there in time.
            OwnerRefusedError: the credentials were refused.
        """
        loop = asyncio.get_running_loop()
        connection = cls(url, identity, events, behind_proxy)
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
        """Whether the owner has let it in."""
        return self._connected.done() and not self._connected.cancelled() and self._connected.exception() is None

    @property
    def idle(self) -> bool:
        """Whether nobody has anything going on here."""
        return not (self._callbacks or self._consumers or self._producers or self._watchers)

    # Requests

    async def request(self, command: BaseCommand) -> BaseCommand:
        """Send a command and wait for its answer, which may be an ERROR.

        Raises:
            OwnerUnavailableError: the connection broke, or there was no answer in time.
        """
        answer: asyncio.Future[BaseCommand] = self._loop.create_future()

        def resolve(response: BaseCommand | None) -> None:
            if answer.done():
                return
            if response is None:
                broke = "the connection broke" if self.closed else "the consumer was closed there"
                answer.set_exception(
                    OwnerUnavailableError(f"{self.url} does not answer {command_name(command)}: {broke}")
                )
            else:
                answer.set_result(response)

        request_id = self.send_request(command, resolve)
        self._await_until(self._loop.time() + REQUEST_TIMEOUT_S, answer)
        try:
            return await answer
        except TimeoutError as error:
            raise OwnerUnavailableError(
                f"{self.url} did not answer {command_name(command)} in {REQUEST_TIMEOUT_S:g} s"
            ) from error
        finally:
            self.forget(request_id)

    async def subscribe(self, command: BaseCommand) -> BaseCommand:
        """Send a SUBSCRIBE when not too many are unanswered (Waves), and wait for its answer, which may be an ERROR.

        Raises:
            OwnerUnavailableError: the connection broke, or there was no answer in time; the time begins when it is sent.
        """
        async with self._subscribe_throttle.slot():
            return await self.request(command)

    def send_request(self, command: BaseCommand, on_response: Callable[[BaseCommand | None], None]) -> int:
        """Send a command; `answered` gets its answer, None when none will come. For acks: no future each."""
        return self._send(*self._session.request(command), on_response)

    def forget(self, request_id: int) -> None:
        """Expect no answer to a request any more, and tell nobody of one."""
        self._callbacks.pop(request_id, None)
        self._session.forget(request_id)

    def ack(self, consumer_id: int, ids: bytes, on_response: Callable[[BaseCommand | None], None]) -> None:
        """Ack entries, given as fields `message_id` of a CommandAck; `answered` as for `send_request`.

        What many clients ack together may be longer than the owner takes: then it goes as several commands.
        """
        room = self.max_command_bytes
        if len(ids) <= room:
            self._send(*self._session.ack(consumer_id, ids), on_response)
            return
        parts = split_ids(ids, room)
        answers = ResponseAggregator(len(parts), on_response)
        for part in parts:
            self._send(*self._session.ack(consumer_id, part), answers.on_response)

    @property
    def max_command_bytes(self) -> int:
        """How long a command's body may be for the frame around it to be one that the owner takes."""
        return self._session.max_frame_bytes - COMMAND_MARGIN_BYTES

    def _fits(self, data: bytes) -> bool:
        return len(data) - LENGTH_BYTES <= self._session.max_frame_bytes

    def _send(self, request_id: int, data: bytes, on_response: Callable[[BaseCommand | None], None]) -> int:
        self._callbacks[request_id] = on_response
        if self.closed or self._transport is None:
            self._loop.call_soon(self._resolve, request_id, None)
        elif not self._fits(data):
            # The owner would close the connection, which others share.
            self._session.forget(request_id)
            refusal = CommandError(
                request_id=request_id,
                error=ServerError.NotAllowedError,
                message=self._too_long(len(data) - LENGTH_BYTES),
            )
            self._loop.call_soon(self._resolve, request_id, BaseCommand(type=BaseCommand.ERROR, error=refusal))
        else:
            self._transport.write(data)
        return request_id

    def _await_until(self, deadline: float, answer: asyncio.Future[BaseCommand]) -> None:
        """End a wait with TimeoutError then. All wait for equally long, so that one timer does for a crowd of them."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][1].done():
            deadlines.popleft()
        deadlines.append((deadline, answer))
        if self._deadline_timer is None:
            self._deadline_timer = self._loop.call_at(deadlines[0][0], self._expire)

    def _expire(self) -> None:
        self._deadline_timer = None
        deadlines, now = self._deadlines, self._loop.time()
        while deadlines and (deadlines[0][0] <= now or deadlines[0][1].done()):
            _, answer = deadlines.popleft()
            if not answer.done():
                answer.set_exception(TimeoutError())
        if deadlines:
            self._deadline_timer = self._loop.call_at(deadlines[0][0], self._expire)

    def send(self, command: BaseCommand, payload: bytes = b"") -> str:
        """Send a command that has no answer, or whose answer comes to a resident.

        Returns:
            Why it was not sent: it is longer than the owner takes. Empty otherwise.
        """
        data = encode_command(command, payload)
        if not self._fits(data):
            return self._too_long(len(data) - LENGTH_BYTES)
        if self._transport is not None and not self.closed:
            self._transport.write(data)
        return ""

    def _too_long(self, size: int) -> str:
        return f"a command of {size} bytes; the owner takes {self._session.max_frame_bytes} at most"

    # Credentials

    def send_credentials(self, method: str, credentials: bytes) -> None:
        """Answer the owner's challenge, or renew the credentials before it asks."""
        if self._transport is not None and not self.closed:
            self._transport.write(self._session.auth_response(method, credentials))

    def refuse(self, reason: str) -> None:
        """Give up a connection that is not let in yet."""
        if not self._connected.done():
            self._connected.set_exception(OwnerUnavailableError(f"{self.url}: {reason}"))
        self.close()

    async def round_trip(self) -> None:
        """Wait until the owner has looked at what was sent before.

        Raises:
            OwnerUnavailableError: the connection broke, or there was no answer in time.
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
        """Ask for a sign of life, unless one is awaited; `answered` tells of it, and `ping_listener` is called."""
        if self._transport is not None and not self.closed and not self._unanswered_pings:
            self._ping(self._transport)

    def _ping(self, transport: asyncio.Transport) -> None:
        self._pings += 1
        self._unanswered_pings.append(lease_time())
        transport.write(self._session.ping())

    def _on_pong(self) -> None:
        while self._unanswered_pings and self._session.pongs > self._pings - len(self._unanswered_pings):
            self.last_answered_ping = self._unanswered_pings.popleft()
        if self.ping_listener is not None:
            self.ping_listener(self)

    # Residents

    def add_consumer(self, handler: ConnectionHandler) -> int:
        """A new consumer id on this connection."""
        self._last_consumer += 1
        self._consumers[self._last_consumer] = handler
        return self._last_consumer

    def has_consumer(self, consumer_id: int) -> bool:
        """Whether the id is in use: neither removed, nor lost with the connection."""
        return consumer_id in self._consumers

    def remove_consumer(self, consumer_id: int) -> None:
        """The id is used no more: its acks get no answer, and keep the connection from being idle no longer."""
        self._consumers.pop(consumer_id, None)
        for request_id in self._session.cancel_consumer_requests(consumer_id):
            self._resolve(request_id, None)

    def dedicate_to(self, publisher: Publisher) -> None:
        """Serve the producers of one client alone: the owner's PINGs go to the client, and its backpressure too."""
        self._publisher = publisher
        self._session.answers_pings = False

    def pong(self) -> None:
        """Tell the owner that the client of this connection lives."""
        if self._transport is not None and not self.closed:
            self._transport.write(self._session.pong())

    def add_producer(self, producer_id: int, handler: ConnectionHandler) -> None:
        """Route what concerns a producer, by the id that its client gave it."""
        self._producers[producer_id] = handler

    def remove_producer(self, producer_id: int, handler: ConnectionHandler) -> None:
        """Route nothing more to a producer; its id may be another's already."""
        if self._producers.get(producer_id) is handler:
            del self._producers[producer_id]

    def forward(self, frame: bytes) -> str:
        """Send a client's frame as it is; its length prefix is added. Returns as `send`."""
        if len(frame) > self._session.max_frame_bytes:
            return self._too_long(len(frame))
        if self._transport is not None and not self.closed:
            self._transport.writelines((len(frame).to_bytes(LENGTH_BYTES, "big"), frame))
        return ""

    def add_watcher(self, handler: ConnectionHandler) -> int:
        """A new id of a topic-list watcher on this connection."""
        self._last_watcher += 1
        self._watchers[self._last_watcher] = handler
        return self._last_watcher

    def remove_watcher(self, watcher_id: int) -> None:
        """The id is used no more."""
        self._watchers.pop(watcher_id, None)

    @property
    def direct_url(self) -> str:
        """Where the broker can be reached by others; empty where it is reached through a proxy only."""
        return "" if self._behind_proxy else self.url

    def close(self) -> None:
        """End the connection."""
        self.closed = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
            # A peer that reads nothing would keep it open, and whoever waits for an answer waiting.
            self._loop.call_later(CLOSE_TIMEOUT_S, self._transport.abort)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but its class
        self._transport = transport
        self._keep_alive = self._loop.call_later(KEEP_ALIVE_S, self._check_alive)
        transport.write(self._session.connect(self._identity, self._behind_proxy))

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self._responsive = True
        pings = self._session.pings
        try:
            received = self._session.receive_data(data)
        except WireError as error:
            log.warning("%s: %s; closing the connection", self.url, error)
            self.close()
            return
        reply = self._session.data_to_send()
        if reply and self._transport is not None:
            self._transport.write(reply)
        if (
            self._session.pings != pings
            and self._probe_detector.is_probe(self._loop.time())
            and self.events is not None
        ):
            self.events.on_probe()
        if self._session.pongs > self._pings - len(self._unanswered_pings):
            self._on_pong()
        while self._pongs and next(iter(self._pongs)) <= self._session.pongs:
            pong = self._pongs.pop(next(iter(self._pongs)))
            if not pong.done():
                pong.set_result(None)
        for command, payload, request_id in received:
            if request_id is not None:
                self._resolve(request_id, command)
            elif command.type == BaseCommand.AUTH_CHALLENGE and self.events is not None:
                self.events.on_challenge(self, command.auth_challenge.challenge)
            elif not self._connected.done():
                self._finish_handshake(command)
            elif command.type == BaseCommand.ERROR and command.error.request_id < 0:
                # Of no request: the owner does not accept the renewed credentials, and closes the connection.
                self.refusal = OwnerRefusedError(command.error.error, command.error.message)
            else:
                self._deliver(command, payload)
        for request_id in self._session.take_cancelled():
            self._resolve(request_id, None)

    def pause_writing(self) -> None:
        """Called by asyncio."""
        if self._publisher is not None:
            self._publisher.on_owner_writable(self, writable=False)

    def resume_writing(self) -> None:
        """Called by asyncio."""
        if self._publisher is not None:
            self._publisher.on_owner_writable(self, writable=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self.closed = True
        for timer in (self._keep_alive, self._deadline_timer):
            if timer is not None:
                timer.cancel()
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
        for request_id in list(self._callbacks):
            self._resolve(request_id, None)
        handlers = [*self._consumers.values(), *self._producers.values(), *self._watchers.values()]
        self._watchers.clear()
        self._consumers.clear()
        self._producers.clear()
        for handler in handlers:
            handler.on_connection_lost()

    def _check_alive(self) -> None:
        """A machine that vanished closes nothing: without this, every request would wait for its deadline."""
        if self._transport is None:
            return
        if not self._responsive:
            log.warning("%s says nothing; giving the connection up", self.url)
            self._transport.abort()
            return
        self._responsive = False
        self._ping(self._transport)
        self._keep_alive = self._loop.call_later(KEEP_ALIVE_S, self._check_alive)

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

    def _resolve(self, request_id: int, response: BaseCommand | None) -> None:
        if (
            response is not None
            and response.type == BaseCommand.PRODUCER_SUCCESS
            and not response.producer_success.producer_ready
        ):
            on_response = self._callbacks.get(request_id)
        else:
            on_response = self._callbacks.pop(request_id, None)
        if on_response is not None:
            on_response(response)

    def _deliver(self, command: BaseCommand, payload: bytes) -> None:
        kind = command.type
        if kind == BaseCommand.PING:
            if self._publisher is not None:
                self._publisher.on_owner_ping(self)
            return
        if kind == BaseCommand.MESSAGE:
            handler = self._consumers.get(command.message.consumer_id)
        elif kind == BaseCommand.CLOSE_CONSUMER:
            handler = self._consumers.get(command.close_consumer.consumer_id)
        elif kind == BaseCommand.ACTIVE_CONSUMER_CHANGE:
            handler = self._consumers.get(command.active_consumer_change.consumer_id)
        elif kind == BaseCommand.REACHED_END_OF_TOPIC:
            handler = self._consumers.get(command.reached_end_of_topic.consumer_id)
        elif kind == BaseCommand.WATCH_TOPIC_UPDATE:
            handler = self._watchers.get(command.watch_topic_update.watcher_id)
        elif kind == BaseCommand.SEND_RECEIPT:
            handler = self._producers.get(command.send_receipt.producer_id)
        elif kind == BaseCommand.SEND_ERROR:
            handler = self._producers.get(command.send_error.producer_id)
        elif kind == BaseCommand.CLOSE_PRODUCER:
            handler = self._producers.get(command.close_producer.producer_id)
        elif kind == BaseCommand.TOPIC_MIGRATED:
            migrated = command.topic_migrated.resource_id
            handler = (
                self._consumers.get(migrated) if command.topic_migrated.resource_type else self._producers.get(migrated)
            )
        else:
            log.debug("%s sent %s, which nobody waits for", self.url, command_name(command))
            return
        if handler is not None:
            handler.on_command(command, payload)
