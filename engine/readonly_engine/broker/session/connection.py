"""A client's connection: the server's side of Pulsar's protocol on asyncio."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING, Protocol, cast

from readonly_engine.broker.session.authentication import ClientAuthentication
from readonly_engine.broker.session.bounds import (
    MAX_TOPIC_WATCHERS,
)
from readonly_engine.broker.session.client_consumers import ClientConsumers
from readonly_engine.broker.session.client_producers import ClientProducers, close_unready
from readonly_engine.broker.session.client_requests import SERVED_REQUESTS, ClientRequests
from readonly_engine.broker.session.services import Services
from readonly_engine.broker.session.topic_watcher import TopicWatcher
from readonly_engine.broker.session.transport import ClientTransport
from readonly_engine.config.listeners import DEFAULT
from readonly_engine.net.frame_slicer import FrameSlicer
from readonly_engine.net.keep_alive import SLOTS, TICK_S
from readonly_engine.owner.identity import ANONYMOUS
from readonly_engine.wire.acks import decode_plain_ack
from readonly_engine.wire.commands import (
    body_of,
    command_name,
    decode_command,
    encode_command,
)
from readonly_engine.wire.errors import MalformedFrameError, WireError
from readonly_engine.wire.framing import HANDSHAKE_FRAME_BYTES, FrameSplitter, frame_limit
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandPing,
    CommandPong,
    ServerError,
)
from readonly_engine.wire.well_formed import check_command

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from readonly_engine.broker.session.client_link import LinkedConsumer
    from readonly_engine.broker.session.consumer import Consumer
    from readonly_engine.broker.session.producer import ProxiedProducer
    from readonly_engine.broker.session.producer_connections import ProducerConnections
    from readonly_engine.net.half_open import HalfOpenConnections
    from readonly_engine.net.keep_alive import KeepAlive
    from readonly_engine.net.write_coalescer import WriteCoalescer
    from readonly_engine.owner.identity import Identity

log = logging.getLogger(__name__)

PROBE_TIMEOUT_S = 5.0
"""So long a client may take to answer when another wants its subscription (connectionLivenessCheckTimeoutMillis)."""

_PONG = encode_command(BaseCommand(type=BaseCommand.PONG, pong=CommandPong()))
_PING = encode_command(BaseCommand(type=BaseCommand.PING, ping=CommandPing()))
_ANY_TIME_COMMANDS = frozenset({BaseCommand.PING, BaseCommand.PONG})
_UNCHECKED_COMMANDS = frozenset({BaseCommand.PING, BaseCommand.PONG, BaseCommand.FLOW})
"""Commands that are not relayed as they come."""


class ClientRegistry(Services, Protocol):
    """The broker, as its clients' connections see it.

    Attributes:
        connections: all open ones.
        keep_alive: pings quiet ones.
        half_open: those that are not authenticated yet.
        write_coalescer: writes at the end of the event loop's turn.
        slow_clients: how many do not read fast enough.
        subscribing: how many SUBSCRIBEs are being processed.
    """

    connections: set[ClientConnection]
    keep_alive: KeepAlive
    half_open: HalfOpenConnections[ClientConnection]
    write_coalescer: WriteCoalescer
    slow_clients: int
    subscribing: int

    @property
    def under_memory_pressure(self) -> bool:
        """Whether what waits for slow clients comes near to what may wait in all."""


class ClientConnection(ClientTransport):
    """Serves one client.

    Args:
        services: the broker.
        listener: the named listener at whose port it came in.
    """

    def __init__(self, services: ClientRegistry, listener: str = DEFAULT) -> None:
        super().__init__(services)
        self.services = services
        self.listener = listener
        self.identity = ANONYMOUS
        self.connected = False
        self.client_version = ""
        self._splitter = FrameSplitter(HANDSHAKE_FRAME_BYTES)
        self._authentication = ClientAuthentication(self)
        self._probe_timer: asyncio.TimerHandle | None = None
        self._responsive = True
        self._pinged = False
        self._client_consumers = ClientConsumers(self)
        self._consumers = self._client_consumers.by_id
        self._requests: ClientRequests | None = None
        self._watchers: dict[int, TopicWatcher] = {}
        self._producers: ClientProducers | None = None
        self._producer_connections: ProducerConnections | None = None  # of _producers
        self._slices = FrameSlicer(self._process_frame, self._process_later)
        self._pong_pending = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def consumers(self) -> list[Consumer]:
        """The consumers on this connection."""
        return list(self._consumers.values())

    @property
    def producers(self) -> list[ProxiedProducer]:
        """The producers on this connection."""
        return [] if self._producers is None else self._producers.all

    def consumer(self, consumer_id: int) -> Consumer | None:
        """The consumer with an id."""
        return self._consumers.get(consumer_id)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._open(cast("asyncio.Transport", transport))  # uvloop's is one in all but its class
        self.services.connections.add(self)
        self.services.keep_alive.add(self)
        self._close_half_open(self.services.half_open.add(self))
        refusal = self.services.limits.connect(self.address)
        if refusal:
            log.warning("client %s is refused: %s", self.peer, refusal)
            self.refuse(-1, ServerError.NotAllowedError, refusal)
            self.close()

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self._responsive = True
        if self._producer_connections is not None and self._producer_connections.pending_pings:
            self._producer_connections.answer_pings()
        # Most of what quiet clients ever send, and there may be ten thousand of them.
        if data == _PING and self.connected and self._idle and self._transport is not None:
            self._write(_PONG, self._transport)
            return
        try:
            frames = self._splitter.receive_data(data)
            if len(frames) == 1 and not self._slices.pending:
                self._process_frame(frames[0])
            else:
                self._slices.receive(frames)
        except WireError as error:
            log.warning("client %s: %s; closing the connection", self.peer, error)
            self._slices.clear()
            self.close()
        if self._slices.pending:
            self.pause_reading_for(self._slices, paused=True)
        if not self.connected:
            self._close_half_open(self.services.half_open.set_buffered(self, self._splitter.buffered_bytes))

    @property
    def _idle(self) -> bool:
        """Whether nothing of the client waits, neither what it has sent nor what it has to read."""
        return self.writable and not self._splitter.buffered_bytes and not self._slices.pending

    def _process_frame(self, frame: bytes) -> bool:
        """Do what a frame asks for; returns whether more may be taken. Raises WireError for what no client may send."""
        if self.connected and (ack := decode_plain_ack(frame)) is not None:
            consumer = self._consumers.get(ack.consumer_id)
            if consumer is None or consumer.ack_entries(ack):
                return True
        command, _ = decode_command(frame)
        if command.type not in _UNCHECKED_COMMANDS:
            check_command(command)
        self._handle(command, frame)
        return not self._closed

    def _process_later(self, process: Callable[[], None]) -> None:
        try:
            if not self._closed:  # what a client that was closed meanwhile had sent counts no more
                process()
        except BaseException as error:
            self._slices.clear()
            if not isinstance(error, WireError):
                self.abort()  # as the event loop does where data_received fails
                raise
            log.warning("client %s: %s; closing the connection", self.peer, error)
            self.close()
        self.pause_reading_for(self._slices, paused=bool(self._slices.pending))

    def on_authenticated(self, identity: Identity, max_message_size: int) -> None:
        """The owner has accepted the client's credentials: it may send what the owner itself would take.

        Args:
            identity: as whom it speaks.
            max_message_size: the owner's; 0 where it names none.
        """
        self.identity = identity
        self.connected = True
        self._splitter.max_frame_bytes = frame_limit(max_message_size)
        self.services.half_open.remove(self)

    def _close_half_open(self, other: ClientConnection | None) -> None:
        """Too many clients do not say who they are."""
        if other is not None:
            log.info("client %s has not finished its CONNECT, and too many others have not; closing it", other.peer)
            self.services.half_open.remove(other)
            other.abort()

    def pause_writing(self) -> None:
        """Called by asyncio."""
        self.writable = False
        self.services.slow_clients += 1
        for consumer in self.consumers:
            consumer.on_writable_changed(writable=False)

    def resume_writing(self) -> None:
        """Called by asyncio."""
        self.writable = True
        self.services.slow_clients -= 1
        self._restore_buffer()
        if self._pong_pending:
            self._pong()
        for consumer in self.consumers:
            consumer.on_writable_changed(writable=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio, which closes the socket then: its descriptor may be another's after this."""
        self._lost()
        if self._probe_timer is not None:
            self._probe_timer.cancel()
        self._probe_timer = None
        log.debug("client %s is gone: %s", self.peer, exc or "end of stream")
        self.services.connections.discard(self)
        if not self.writable:
            self.services.slow_clients -= 1
        self.services.limits.disconnect(self.address)
        self.services.keep_alive.discard(self)
        self.services.half_open.remove(self)
        self._authentication.on_connection_lost()
        self._slices.clear()
        for task in list(self._tasks):
            task.cancel()
        self._client_consumers.close_all()
        for watcher in self._watchers.values():
            watcher.close()
        if self._producers is not None:
            self._producers.on_client_lost()

    def probe(self) -> None:
        """Ask the client for a sign of life; without one in PROBE_S the connection ends, as at a stock broker."""
        if self._probe_timer is None and self.connected and not self._closed:
            self._responsive = False
            self.send(_PING)
            self._probe_timer = asyncio.get_running_loop().call_later(PROBE_TIMEOUT_S, self._probe_timed_out)

    def _probe_timed_out(self) -> None:
        self._probe_timer = None
        if not self._responsive and not self._reading_paused_by:
            log.info("client %s does not answer, and others want its subscription; closing it", self.peer)
            self.abort()

    async def is_alive(self) -> bool:
        """Whether the client gives a sign of life in time; if not, its connection has ended."""
        self.probe()
        while True:
            if self._probe_timer is None or self._responsive:
                return not self._closed
            await asyncio.sleep(PROBE_TIMEOUT_S / 100)

    def check_alive(self) -> None:
        """Called every 30 s: a client that has said nothing since is pinged, and dropped when it then says nothing either.

        One that has not been let in by then is dropped, as by a stock broker (PulsarHandler.handleKeepAliveTimeout).
        """
        if not self.connected:
            log.info("client %s was not let in within %d s; closing the connection", self.peer, SLOTS * TICK_S)
            self.abort()
        elif self._probe_timer is not None:
            pass  # it decides
        elif self._responsive or self._reading_paused_by:
            self._responsive, self._pinged = False, False
        elif self._pinged:
            log.info("client %s says nothing; closing the connection", self.peer)
            self.abort()
        else:
            self._pinged = True
            self.send(_PING)

    # Commands

    def _handle(self, command: BaseCommand, frame: bytes) -> None:
        kind = command.type
        if not self.connected and kind not in _ANY_TIME_COMMANDS:
            if kind == BaseCommand.CONNECT:
                self.client_version = sys.intern(command.connect.client_version)
            self._authentication.on_command(command)
        elif kind == BaseCommand.ACK:
            consumer = self._consumers.get(command.ack.consumer_id)
            if consumer is not None:
                consumer.ack(command)
        elif kind == BaseCommand.FLOW:
            consumer = self._consumers.get(command.flow.consumer_id)
            if consumer is not None:
                if command.flow.message_permits <= 0:  # 2^31 and more too: the field is an int32
                    raise MalformedFrameError(f"FLOW of {command.flow.message_permits} permits")
                consumer.flow(command)
        elif kind == BaseCommand.PING:
            self._pong()
        elif kind == BaseCommand.PONG:
            pass
        elif kind in {BaseCommand.AUTH_RESPONSE, BaseCommand.CONNECT}:
            self._authentication.on_command(command)
        elif kind == BaseCommand.SEND:
            self._publish(command, frame)
        elif kind == BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES:
            consumer = self._consumers.get(command.redeliver_unacknowledged_messages.consumer_id)
            if consumer is not None:
                consumer.redeliver(command)
        elif kind == BaseCommand.SUBSCRIBE:
            self._client_consumers.subscribe(command, frame)
        elif kind in SERVED_REQUESTS:
            self._client_requests().serve(command, len(frame))
        elif kind == BaseCommand.CLOSE_CONSUMER:
            self._client_requests().close(self._client_consumers.close(command))
        elif kind == BaseCommand.PRODUCER:
            self._create_producer(command, frame)
        elif kind == BaseCommand.CLOSE_PRODUCER:
            self._close_producer(command)
        elif kind == BaseCommand.WATCH_TOPIC_LIST:
            self._watch(command, frame)
        elif kind == BaseCommand.WATCH_TOPIC_LIST_CLOSE:
            self._unwatch(command)
        else:  # of transactions
            self.refuse(
                body_of(command).request_id,
                ServerError.NotAllowedError,
                f"{command_name(command)} is not served by a read-only broker; send it to the owner of the topic",
            )

    def _client_requests(self) -> ClientRequests:
        if self._requests is None:
            self._requests = ClientRequests(self)
        return self._requests

    # Consumers

    def cancel_subscribes(self) -> int:
        """Admit none of the consumers that are being created; return how many there are."""
        return self._client_consumers.cancel_subscribes()

    def drop_consumer(self, consumer: LinkedConsumer) -> None:
        """Forget a consumer that the client is told to close, and close it at the owner."""
        self._client_consumers.drop(consumer)

    # Watchers

    def _watch(self, command: BaseCommand, frame: bytes) -> None:
        watcher_id, request_id = command.watch_topic_list.watcher_id, command.watch_topic_list.request_id
        if watcher_id in self._watchers:
            why = "Topic list watcher is already present on the connection"
            self.refuse(request_id, ServerError.ServiceNotReady, why)
            return
        if len(self._watchers) >= MAX_TOPIC_WATCHERS:
            why = f"this connection has {MAX_TOPIC_WATCHERS} topic-list watchers already"
            self.refuse(request_id, ServerError.TooManyRequests, why)
            return
        requests, size = self._client_requests(), len(frame)
        if not requests.acquire(command, size):
            return
        watcher = self._watchers[watcher_id] = TopicWatcher(self, command.watch_topic_list)
        self.spawn(watcher.start()).add_done_callback(lambda _: requests.release(size))

    def _unwatch(self, command: BaseCommand) -> None:
        watcher = self._watchers.pop(command.watch_topic_list_close.watcher_id, None)
        if watcher is not None:
            watcher.close()
        self.succeed(command.watch_topic_list_close.request_id)

    def drop_watcher(self, watcher: TopicWatcher) -> None:
        """Forget a watcher that could not be created."""
        if self._watchers.get(watcher.watcher_id) is watcher:
            del self._watchers[watcher.watcher_id]

    # Producers

    def _create_producer(self, command: BaseCommand, frame: bytes) -> None:
        if self._producers is None:
            self._producers = ClientProducers(self)
            self._producer_connections = self._producers.connections
        self._producers.create(command, len(frame))

    def _publish(self, command: BaseCommand, frame: bytes) -> None:
        if self._producers is None:
            close_unready(self, command.send.producer_id)
        else:
            self._producers.publish(command.send.producer_id, frame)

    def _close_producer(self, command: BaseCommand) -> None:
        if self._producers is None:
            self.succeed(command.close_producer.request_id)
        else:
            self._client_requests().close(self._producers.close(command))

    # Reading

    def _pong(self) -> None:
        """Answer a PING; a client that does not read gets one answer for all, once it reads."""
        self._pong_pending = not self.writable
        if self.writable:
            self.send(_PONG)

    def ping(self) -> None:
        """Ask the client for a sign of life."""
        self.send(_PING)

    def spawn(self, coroutine: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run something for this client; it ends with the connection."""
        task = self.services.spawn(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
