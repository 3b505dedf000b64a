"""A connection to one broker of the writable cluster: the asyncio shell around OwnerSession."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Protocol, cast

from readonly_engine.clock import lease_time
from readonly_engine.relay.answers import AllAnswers
from readonly_engine.relay.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.relay.probing import OwnerPings
from readonly_engine.relay.session import OwnerSession
from readonly_engine.relay.waves import Waves
from readonly_engine.wire.acks import split_ids
from readonly_engine.wire.commands import command_name, encode_command
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.framing import LENGTH_BYTES
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandConnected, CommandError, ServerError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from readonly_engine.relay.identity import Identity
    from readonly_engine.wire.pulsar_pb2 import AuthData

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_S = 30.0
CLOSE_TIMEOUT_S = 2.0

COMMAND_MARGIN_BYTES = 1024
"""Room for the ids and lengths around a body."""

KEEP_ALIVE_S = 30.0
"""An owner that says nothing for this long is pinged, and given up when it says nothing for as long again; it pings as often."""


class Resident(Protocol):
    """A consumer or producer that lives on a connection under an id."""

    def owner_said(self, command: BaseCommand, payload: bytes) -> None:
        """The owner sent a command for this id."""

    def owner_gone(self) -> None:
        """The connection broke."""


class Publisher(Protocol):
    """A client that has a connection for its producers alone: what that connection asks is the client's to answer."""

    def owner_writable(self, connection: OwnerConnection, *, writable: bool) -> None:
        """The connection takes more, or for now no more; also called when it is gone."""

    def owner_pings(self, connection: OwnerConnection) -> None:
        """The owner asks for a sign of life. It waits for `pong`, or for anything else that is sent."""


class ConnectionEvents(Protocol):
    """Who looks after a connection's credentials."""

    def challenged(self, connection: OwnerConnection, challenge: AuthData) -> None:
        """The owner asks for more credentials, before it lets the connection in, or for newer ones, later."""

    def lost(self, connection: OwnerConnection) -> None:
        """The connection broke; its residents are told next."""

    def probed(self) -> None:
        """The owner asks whether a consumer is still there, and was answered for all of them."""


class OwnerConnection(asyncio.Protocol):
    """Carries the requests of many clients of one identity, and hands what the owner says to whom it concerns.

    Args:
        url: the broker's URL, for messages.
        identity: whose credentials are shown.
        events: who looks after them.
        behind_proxy: HOST:PORT of the broker, where what is connected to is a proxy.

    Attributes:
        answered: when the last PING was sent that the owner has answered; when the connection was begun, before the first.
        answer_listener: called when that has changed.
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
        self._pinged: deque[float] = deque()  # when those PINGs were sent that are not answered
        self.answered = lease_time()
        self.answer_listener: Callable[[OwnerConnection], None] | None = None
        self._session = OwnerSession()
        self._transport: asyncio.Transport | None = None
        self._connected: asyncio.Future[CommandConnected] = self._loop.create_future()
        self._subscribing = Waves()
        self._owner_pings = OwnerPings(self._loop.time())
        self._answers: dict[int, Callable[[BaseCommand | None], None]] = {}
        self._waits: deque[tuple[float, asyncio.Future[BaseCommand]]] = deque()
        self._overdue: asyncio.TimerHandle | None = None
        self._consumers: dict[int, Resident] = {}
        self._producers: dict[int, Resident] = {}
        self._publisher: Publisher | None = None
        self._watchers: dict[int, Resident] = {}
        self._last_consumer = 0
        self._last_watcher = 0
        self._heard = True
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
        return not (self._answers or self._consumers or self._producers or self._watchers)

    # Requests

    async def request(self, command: BaseCommand) -> BaseCommand:
        """Send a command and wait for its answer, which may be an ERROR.

        Raises:
            OwnerUnavailableError: the connection broke, or there was no answer in time.
        """
        answer: asyncio.Future[BaseCommand] = self._loop.create_future()

        def settle(response: BaseCommand | None) -> None:
            if answer.done():
                return
            if response is None:
                broke = "the connection broke" if self.closed else "the consumer was closed there"
                answer.set_exception(
                    OwnerUnavailableError(f"{self.url} does not answer {command_name(command)}: {broke}")
                )
            else:
                answer.set_result(response)

        request_id = self.ask(command, settle)
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
        async with self._subscribing.turn():
            return await self.request(command)

    def ask(self, command: BaseCommand, answered: Callable[[BaseCommand | None], None]) -> int:
        """Send a command; `answered` gets its answer, None when none will come. For acks: no future each."""
        return self._ask(*self._session.request(command), answered)

    def forget(self, request_id: int) -> None:
        """Expect no answer to a request any more, and tell nobody of one."""
        self._answers.pop(request_id, None)
        self._session.forget(request_id)

    def ack(self, consumer_id: int, ids: bytes, answered: Callable[[BaseCommand | None], None]) -> None:
        """Ack entries, given as fields `message_id` of a CommandAck; `answered` as for `ask`.

        What many clients ack together may be longer than the owner takes: then it goes as several commands.
        """
        room = self.max_command_bytes
        if len(ids) <= room:
            self._ask(*self._session.ack(consumer_id, ids), answered)
            return
        parts = split_ids(ids, room)
        answers = AllAnswers(len(parts), answered)
        for part in parts:
            self._ask(*self._session.ack(consumer_id, part), answers.answered)

    @property
    def max_command_bytes(self) -> int:
        """How long a command's body may be for the frame around it to be one that the owner takes."""
        return self._session.max_frame_bytes - COMMAND_MARGIN_BYTES

    def _takes(self, data: bytes) -> bool:
        return len(data) - LENGTH_BYTES <= self._session.max_frame_bytes

    def _ask(self, request_id: int, data: bytes, answered: Callable[[BaseCommand | None], None]) -> int:
        self._answers[request_id] = answered
        if self.closed or self._transport is None:
            self._loop.call_soon(self._settle, request_id, None)
        elif not self._takes(data):
            # The owner would close the connection, which others share.
            self._session.forget(request_id)
            refusal = CommandError(
                request_id=request_id,
                error=ServerError.NotAllowedError,
                message=self._too_long(len(data) - LENGTH_BYTES),
            )
            self._loop.call_soon(self._settle, request_id, BaseCommand(type=BaseCommand.ERROR, error=refusal))
        else:
            self._transport.write(data)
        return request_id

    def _await_until(self, deadline: float, answer: asyncio.Future[BaseCommand]) -> None:
        """End a wait with TimeoutError then. All wait for equally long, so that one timer does for a crowd of them."""
        waits = self._waits
        while waits and waits[0][1].done():
            waits.popleft()
        waits.append((deadline, answer))
        if self._overdue is None:
            self._overdue = self._loop.call_at(waits[0][0], self._expire)

    def _expire(self) -> None:
        self._overdue = None
        waits, now = self._waits, self._loop.time()
        while waits and (waits[0][0] <= now or waits[0][1].done()):
            _, answer = waits.popleft()
            if not answer.done():
                answer.set_exception(TimeoutError())
        if waits:
            self._overdue = self._loop.call_at(waits[0][0], self._expire)

    def send(self, command: BaseCommand, payload: bytes = b"") -> str:
        """Send a command that has no answer, or whose answer comes to a resident.

        Returns:
            Why it was not sent: it is longer than the owner takes. Empty otherwise.
        """
        data = encode_command(command, payload)
        if not self._takes(data):
            return self._too_long(len(data) - LENGTH_BYTES)
        if self._transport is not None and not self.closed:
            self._transport.write(data)
        return ""

    def _too_long(self, size: int) -> str:
        return f"a command of {size} bytes; the owner takes {self._session.max_frame_bytes} at most"

    # Credentials

    def authenticate(self, method: str, credentials: bytes) -> None:
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
        """Ask for a sign of life, unless one is awaited; `answered` tells of it, and `answer_listener` is called."""
        if self._transport is not None and not self.closed and not self._pinged:
            self._ping(self._transport)

    def _ping(self, transport: asyncio.Transport) -> None:
        self._pings += 1
        self._pinged.append(lease_time())
        transport.write(self._session.ping())

    def _answered(self) -> None:
        while self._pinged and self._session.pongs > self._pings - len(self._pinged):
            self.answered = self._pinged.popleft()
        if self.answer_listener is not None:
            self.answer_listener(self)

    # Residents

    def add_consumer(self, resident: Resident) -> int:
        """A new consumer id on this connection."""
        self._last_consumer += 1
        self._consumers[self._last_consumer] = resident
        return self._last_consumer

    def has_consumer(self, consumer_id: int) -> bool:
        """Whether the id is in use: neither removed, nor lost with the connection."""
        return consumer_id in self._consumers

    def remove_consumer(self, consumer_id: int) -> None:
        """The id is used no more: its acks get no answer, and keep the connection from being idle no longer."""
        self._consumers.pop(consumer_id, None)
        for request_id in self._session.abandon(consumer_id):
            self._settle(request_id, None)

    def publish_for(self, publisher: Publisher) -> None:
        """Serve the producers of one client alone: the owner's PINGs go to the client, and its backpressure too."""
        self._publisher = publisher
        self._session.answers_pings = False

    def pong(self) -> None:
        """Tell the owner that the client of this connection lives."""
        if self._transport is not None and not self.closed:
            self._transport.write(self._session.pong())

    def add_producer(self, producer_id: int, resident: Resident) -> None:
        """Route what concerns a producer, by the id that its client gave it."""
        self._producers[producer_id] = resident

    def remove_producer(self, producer_id: int, resident: Resident) -> None:
        """Route nothing more to a producer; its id may be another's already."""
        if self._producers.get(producer_id) is resident:
            del self._producers[producer_id]

    def forward(self, frame: bytes) -> str:
        """Send a client's frame as it is; its length prefix is added. Returns as `send`."""
        if len(frame) > self._session.max_frame_bytes:
            return self._too_long(len(frame))
        if self._transport is not None and not self.closed:
            self._transport.writelines((len(frame).to_bytes(LENGTH_BYTES, "big"), frame))
        return ""

    def add_watcher(self, resident: Resident) -> int:
        """A new id of a topic-list watcher on this connection."""
        self._last_watcher += 1
        self._watchers[self._last_watcher] = resident
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
        self._heard = True
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
        if self._session.pings != pings and self._owner_pings.asks(self._loop.time()) and self.events is not None:
            self.events.probed()
        if self._session.pongs > self._pings - len(self._pinged):
            self._answered()
        while self._pongs and next(iter(self._pongs)) <= self._session.pongs:
            pong = self._pongs.pop(next(iter(self._pongs)))
            if not pong.done():
                pong.set_result(None)
        for command, payload, request_id in received:
            if request_id is not None:
                self._settle(request_id, command)
            elif command.type == BaseCommand.AUTH_CHALLENGE and self.events is not None:
                self.events.challenged(self, command.auth_challenge.challenge)
            elif not self._connected.done():
                self._finish_handshake(command)
            elif command.type == BaseCommand.ERROR and command.error.request_id < 0:
                # Of no request: the owner does not accept the renewed credentials, and closes the connection.
                self.refusal = OwnerRefusedError(command.error.error, command.error.message)
            else:
                self._deliver(command, payload)
        for request_id in self._session.abandoned():
            self._settle(request_id, None)

    def pause_writing(self) -> None:
        """Called by asyncio."""
        if self._publisher is not None:
            self._publisher.owner_writable(self, writable=False)

    def resume_writing(self) -> None:
        """Called by asyncio."""
        if self._publisher is not None:
            self._publisher.owner_writable(self, writable=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self.closed = True
        for timer in (self._keep_alive, self._overdue):
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
            self._publisher.owner_writable(self, writable=True)
        if self.events is not None:
            self.events.lost(self)
        for request_id in list(self._answers):
            self._settle(request_id, None)
        residents = [*self._consumers.values(), *self._producers.values(), *self._watchers.values()]
        self._watchers.clear()
        self._consumers.clear()
        self._producers.clear()
        for resident in residents:
            resident.owner_gone()

    def _check_alive(self) -> None:
        """A machine that vanished closes nothing: without this, every request would wait for its deadline."""
        if self._transport is None:
            return
        if not self._heard:
            log.warning("%s says nothing; giving the connection up", self.url)
            self._transport.abort()
            return
        self._heard = False
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

    def _settle(self, request_id: int, response: BaseCommand | None) -> None:
        if (
            response is not None
            and response.type == BaseCommand.PRODUCER_SUCCESS
            and not response.producer_success.producer_ready
        ):
            answered = self._answers.get(request_id)
        else:
            answered = self._answers.pop(request_id, None)
        if answered is not None:
            answered(response)

    def _deliver(self, command: BaseCommand, payload: bytes) -> None:
        kind = command.type
        if kind == BaseCommand.PING:
            if self._publisher is not None:
                self._publisher.owner_pings(self)
            return
        if kind == BaseCommand.MESSAGE:
            resident = self._consumers.get(command.message.consumer_id)
        elif kind == BaseCommand.CLOSE_CONSUMER:
            resident = self._consumers.get(command.close_consumer.consumer_id)
        elif kind == BaseCommand.ACTIVE_CONSUMER_CHANGE:
            resident = self._consumers.get(command.active_consumer_change.consumer_id)
        elif kind == BaseCommand.REACHED_END_OF_TOPIC:
            resident = self._consumers.get(command.reached_end_of_topic.consumer_id)
        elif kind == BaseCommand.WATCH_TOPIC_UPDATE:
            resident = self._watchers.get(command.watch_topic_update.watcher_id)
        elif kind == BaseCommand.SEND_RECEIPT:
            resident = self._producers.get(command.send_receipt.producer_id)
        elif kind == BaseCommand.SEND_ERROR:
            resident = self._producers.get(command.send_error.producer_id)
        elif kind == BaseCommand.CLOSE_PRODUCER:
            resident = self._producers.get(command.close_producer.producer_id)
        elif kind == BaseCommand.TOPIC_MIGRATED:
            migrated = command.topic_migrated.resource_id
            resident = (
                self._consumers.get(migrated) if command.topic_migrated.resource_type else self._producers.get(migrated)
            )
        else:
            log.debug("%s sent %s, which nobody waits for", self.url, command_name(command))
            return
        if resident is not None:
            resident.owner_said(command, payload)
