"""A client's connection: the server's side of Pulsar's protocol on asyncio."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING, Protocol, cast

from readonly_engine.broker.fanout.groups import NO_DESCRIPTOR
from readonly_engine.broker.session.admission import admit, redirect_if_supported
from readonly_engine.broker.session.authentication import ClientAuthentication
from readonly_engine.broker.session.bounds import (
    MAX_BROKER_SUBSCRIBES,
    MAX_COALESCED_BYTES,
    MAX_CONCURRENT_SUBSCRIBES,
    MAX_REQUEST_BYTES,
    MAX_TOPIC_WATCHERS,
    REDUCED_BUFFER_BYTES,
    WRITE_BUFFER_BYTES,
)
from readonly_engine.broker.session.client_producers import ClientProducers, close_unready
from readonly_engine.broker.session.client_requests import SERVED_REQUESTS, ClientRequests
from readonly_engine.broker.session.services import Services
from readonly_engine.broker.session.topic_watcher import TopicWatcher
from readonly_engine.config.listeners import DEFAULT
from readonly_engine.metadata.errors import MetadataError, TopicNameError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.net.frame_slicer import FrameSlicer
from readonly_engine.net.keep_alive import SLOTS, TICK_S
from readonly_engine.net.sending import discard_on_close, send_one, unsent_bytes
from readonly_engine.owner.errors import RelayError
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
    CommandError,
    CommandPing,
    CommandPong,
    CommandSubscribe,
    CommandSuccess,
    ServerError,
)
from readonly_engine.wire.well_formed import check_command

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from readonly_engine.broker.fanout.groups import FanoutSubscriber
    from readonly_engine.broker.session.client_link import LinkedConsumer
    from readonly_engine.broker.session.consumer import Consumer
    from readonly_engine.broker.session.producer import ProxiedProducer
    from readonly_engine.broker.session.producer_connections import ProducerConnections
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.net.half_open import HalfOpenConnections
    from readonly_engine.net.keep_alive import KeepAlive
    from readonly_engine.net.write_coalescer import WriteCoalescer
    from readonly_engine.owner.identity import Identity

log = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 2.0
"""So long a connection that is closed may take to send what waits, as towards owners."""

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


class ClientConnection(asyncio.Protocol):
    """Serves one client.

    Args:
        services: the broker.
        listener: the named listener at whose port it came in.

    Attributes:
        descriptor: of the socket, while bytes may go into it past the transport: without TLS, and with nothing in the transport's
            buffer; else -1.
        direct_subscribers: who gets such bytes.
    """

    def __init__(self, services: ClientRegistry, listener: str = DEFAULT) -> None:
        self.services = services
        self.listener = listener
        self.identity = ANONYMOUS
        self.connected = False
        self.writable = True
        self._buffer_reduced = False
        self.peer = "?"
        self.client_version = ""
        self.address = ""
        self._splitter = FrameSplitter(HANDSHAKE_FRAME_BYTES)
        self._transport: asyncio.Transport | None = None
        self._authentication = ClientAuthentication(self)
        self._closed = False
        self._close_timer: asyncio.TimerHandle | None = None
        self._probe_timer: asyncio.TimerHandle | None = None
        self._responsive = True
        self._pinged = False
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._socket = NO_DESCRIPTOR
        self.descriptor = NO_DESCRIPTOR
        self.direct_subscribers: dict[FanoutSubscriber, None] = {}
        self._consumers: dict[int, Consumer] = {}
        self._subscribing: dict[int, asyncio.Task[None]] = {}
        self._queued_subscribes: dict[int, bytes] = {}  # SUBSCRIBEs, by consumer id
        self._subscribing_bytes = 0  # of the SUBSCRIBEs of both
        self._requests: ClientRequests | None = None
        self._watchers: dict[int, TopicWatcher] = {}
        self._producers: ClientProducers | None = None
        self._producer_connections: ProducerConnections | None = None  # of _producers
        self._reading_paused_by: set[object] = set()
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

    @property
    def buffered(self) -> int:
        """Bytes that wait for the client to read them."""
        return 0 if self._transport is None or self._closed else self._transport.get_write_buffer_size()

    @property
    def tls(self) -> bool:
        """Whether the client speaks TLS."""
        return self._transport is not None and self._transport.get_extra_info("sslcontext") is not None

    def consumer(self, consumer_id: int) -> Consumer | None:
        """The consumer with an id."""
        return self._consumers.get(consumer_id)

    # Writing

    def send(self, frame: bytes) -> None:
        """Send a frame; all frames of one turn of the event loop go out together."""
        if self._closed:
            return
        if not self._unsent:
            self.services.write_coalescer.add(self)
        self._unsent.append(frame)
        self._unsent_bytes += len(frame)
        if self._unsent_bytes > MAX_COALESCED_BYTES:
            self.flush()  # so that the client is found to be slow before it gets more

    def flush(self) -> None:
        """Called at the end of the turn."""
        frames, self._unsent = self._unsent, []
        self._unsent_bytes = 0
        if not frames:
            return
        if self._transport is not None and not self._closed:
            self._write(frames[0] if len(frames) == 1 else b"".join(frames), self._transport)

    def _write(self, data: bytes, transport: asyncio.Transport) -> None:
        if self.descriptor == NO_DESCRIPTOR and self._socket != NO_DESCRIPTOR and not transport.get_write_buffer_size():
            self.descriptor = self._socket
        written = 0
        if self.descriptor != NO_DESCRIPTOR:
            written = send_one(self.descriptor, data)
            if written == len(data):
                return
        self.write_remainder(data, written)

    def flush_all(self) -> None:
        """Send what waits for the end of the event loop's turn, to all clients."""
        self.services.write_coalescer.flush()

    def write_remainder(self, data: bytes, written: int) -> None:
        """The socket has taken so many of these bytes: the transport sends the others when it can."""
        if self.descriptor != NO_DESCRIPTOR:
            self._stop_direct_writes()
        if self._transport is None or self._closed:
            return
        self._transport.write(data[written:])
        if self.services.under_memory_pressure and not self._buffer_reduced and self.buffered > REDUCED_BUFFER_BYTES:
            self._buffer_reduced = True
            self._transport.set_write_buffer_limits(high=REDUCED_BUFFER_BYTES)

    def _stop_direct_writes(self, *, permanently: bool = False) -> None:
        """Nothing goes past the transport, until its buffer is empty; or never again."""
        self.descriptor = NO_DESCRIPTOR
        if permanently:
            self._socket = NO_DESCRIPTOR
        for subscriber in list(self.direct_subscribers):
            subscriber.leave_fanout()

    def respond(self, command: BaseCommand, request_id: int) -> None:
        """Send a response under the id of the client's request."""
        body_of(command).request_id = request_id
        self.send(encode_command(command))

    def refuse(self, request_id: int, code: ServerError, message: str) -> None:
        """Answer a request with an error."""
        error = CommandError(request_id=request_id, error=code, message=message)
        self.send(encode_command(BaseCommand(type=BaseCommand.ERROR, error=error)))

    def succeed(self, request_id: int) -> None:
        """Answer a request with SUCCESS."""
        self.send(encode_command(BaseCommand(type=BaseCommand.SUCCESS, success=CommandSuccess(request_id=request_id))))

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but its class
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "?"
        if not self.tls and (found := transport.get_extra_info("socket")) is not None:
            self._socket = self.descriptor = found.fileno()
        self.services.connections.add(self)
        self.services.keep_alive.add(self)
        self._close_half_open(self.services.half_open.add(self))
        self.address = str(peer[0]) if peer else ""
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
        if self._buffer_reduced and self._transport is not None:
            self._buffer_reduced = False
            self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        if self._pong_pending:
            self._pong()
        for consumer in self.consumers:
            consumer.on_writable_changed(writable=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio, which closes the socket then: its descriptor may be another's after this."""
        self._closed = True
        for timer in (self._close_timer, self._probe_timer):
            if timer is not None:
                timer.cancel()
        self._probe_timer = None
        self._stop_direct_writes(permanently=True)
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
        for consumer in self.consumers:
            self._forget(consumer)
            self.services.spawn(consumer.close())
        for watcher in self._watchers.values():
            watcher.close()
        if self._producers is not None:
            self._producers.on_client_lost()

    def close(self) -> None:
        """End the connection, after the client has read what waits for it; a client that does not read is not waited for."""
        if self._transport is None or self._closed:
            return
        if self._unsent:
            self.flush()
        self._stop_direct_writes(permanently=True)
        self._closed = True
        self._transport.close()
        # A transport whose peer does not read, and one of TLS whose peer does not answer, would never be done.
        self._close_timer = asyncio.get_running_loop().call_later(CLOSE_TIMEOUT_S, self.abort)

    def abort(self) -> None:
        """End the connection at once: the client gets nothing of what waits, neither here nor in the kernel."""
        if self._transport is None:
            return
        self._unsent, self._unsent_bytes = [], 0
        self._stop_direct_writes(permanently=True)
        self._closed = True
        if (found := self._transport.get_extra_info("socket")) is not None:
            discard_on_close(found)
        self._transport.abort()

    def disconnect(self, error_frame: bytes) -> None:
        """End the connection: the client must get nothing more of what waits for it.

        Args:
            error_frame: a frame that says why, empty for none; sent only to a client that has read all before it.
        """
        self._unsent, self._unsent_bytes = [], 0
        if self._transport is None or self._closed:
            return
        found = self._transport.get_extra_info("socket")
        if self.buffered or found is None or unsent_bytes(found):
            self.abort()
            return
        self.send(error_frame)
        self.close()

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
            self._subscribe(command, frame)
        elif kind in SERVED_REQUESTS:
            self._client_requests().serve(command, len(frame))
        elif kind == BaseCommand.CLOSE_CONSUMER:
            self._client_requests().close(self._close_consumer(command))
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

    def _subscribe(self, command: BaseCommand, frame: bytes) -> None:
        subscribe = command.subscribe
        consumer_id, request_id = subscribe.consumer_id, subscribe.request_id
        if consumer_id in self._subscribing or consumer_id in self._queued_subscribes:
            self.refuse(request_id, ServerError.ServiceNotReady, "the consumer is being created already")
            return
        if consumer_id in self._consumers:
            self.succeed(request_id)
            return
        try:
            topic = parse_topic_name(subscribe.topic)
        except TopicNameError as error:
            self.refuse(request_id, ServerError.InvalidTopicName, str(error))
            return
        if self.services.draining:
            self._refuse_draining(request_id)
            return
        if self._subscribing_bytes + len(frame) > MAX_REQUEST_BYTES:
            why = f"the consumers of this connection that are being created take {self._subscribing_bytes} bytes; try again"
            self.refuse(request_id, ServerError.ServiceNotReady, why)
            return
        self._subscribing_bytes += len(frame)
        if not self._may_subscribe:
            self._queued_subscribes[consumer_id] = frame
            return
        self.services.subscribing += 1
        task = self.spawn(self._admit(topic, subscribe))
        self._subscribing[consumer_id] = task
        task.add_done_callback(lambda _: self._subscribe_done(consumer_id, len(frame)))

    @property
    def _may_subscribe(self) -> bool:
        return len(self._subscribing) < MAX_CONCURRENT_SUBSCRIBES or self.services.subscribing < MAX_BROKER_SUBSCRIBES

    def _subscribe_done(self, consumer_id: int, size: int) -> None:
        """A consumer is in, or refused: the next may come."""
        self.services.subscribing -= 1
        self._subscribing_bytes -= size
        self._subscribing.pop(consumer_id, None)
        while self._queued_subscribes and not self._closed and self._may_subscribe:
            frame = self._remove_queued(next(iter(self._queued_subscribes)))
            self._subscribe(decode_command(frame)[0], frame)

    def cancel_subscribes(self) -> int:
        """Let no consumer in that is on its way, since this broker leaves the pool; returns how many there are."""
        cancelled = len(self._subscribing) + len(self._queued_subscribes)
        for task in list(self._subscribing.values()):
            task.cancel()
        return cancelled

    def _refuse_draining(self, request_id: int) -> None:
        self.refuse(request_id, ServerError.ServiceNotReady, "this broker leaves the pool; look the topic up again")

    def _remove_queued(self, consumer_id: int) -> bytes:
        frame = self._queued_subscribes.pop(consumer_id, b"")
        self._subscribing_bytes -= len(frame)
        return frame

    async def _admit(self, topic: TopicName, subscribe: CommandSubscribe) -> None:
        request_id = subscribe.request_id
        try:
            consumer, answer = await admit(self, topic, subscribe)
        except asyncio.CancelledError:
            if self.services.draining:
                self._refuse_draining(request_id)
            raise
        except RelayError as error:
            self.refuse(request_id, error.code, str(error))
        except MetadataError as error:
            self.refuse(request_id, ServerError.MetadataError, str(error))
        else:
            if self._closed:
                self.drop_consumer(consumer)
                return
            self._consumers[consumer.consumer_id] = consumer
            self.respond(answer, request_id)
            redirect_if_supported(consumer)

    async def _close_consumer(self, command: BaseCommand) -> None:
        close = command.close_consumer
        request_id = close.request_id
        self._remove_queued(close.consumer_id)
        subscribing = self._subscribing.get(close.consumer_id)
        if subscribing is not None:
            subscribing.cancel()
        consumer = self._consumers.get(close.consumer_id)
        answer = None
        if consumer is not None:
            self._forget(consumer)
            answer = await consumer.close(command)
        if answer is None:
            self.succeed(request_id)
        else:
            self.respond(answer, request_id)

    def drop_consumer(self, consumer: LinkedConsumer) -> None:
        """Forget a consumer that the client is told to close, and close it at the owner."""
        self._forget(consumer)
        self.services.spawn(consumer.close())

    def _forget(self, consumer: LinkedConsumer) -> None:
        if self._consumers.get(consumer.consumer_id) is consumer:
            del self._consumers[consumer.consumer_id]
        consumer.unregister()

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

    @property
    def reading_paused(self) -> bool:
        """Whether nothing is read from the client."""
        return bool(self._reading_paused_by)

    def _pong(self) -> None:
        """Answer a PING; a client that does not read gets one answer for all, once it reads."""
        self._pong_pending = not self.writable
        if self.writable:
            self.send(_PONG)

    def ping(self) -> None:
        """Ask the client for a sign of life."""
        self.send(_PING)

    def pause_reading_for(self, holder: object, *, paused: bool) -> None:
        """Read nothing from the client while anything holds it."""
        was_paused = bool(self._reading_paused_by)
        (self._reading_paused_by.add if paused else self._reading_paused_by.discard)(holder)
        if self._transport is None or self._closed or was_paused == bool(self._reading_paused_by):
            return
        if was_paused:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def spawn(self, coroutine: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run something for this client; it ends with the connection."""
        task = self.services.spawn(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
