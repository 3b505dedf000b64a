"""A client's connection: the server side of Pulsar's protocol on asyncio."""

from __future__ import annotations

import asyncio
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from readonly_engine.background import ends
from readonly_engine.broker.session.authentication import ClientAuthentication
from readonly_engine.broker.session.bounds import (
    MAX_TOPIC_WATCHERS,
)
from readonly_engine.broker.session.client_consumers import ClientConsumers, SubscribeServices
from readonly_engine.broker.session.client_producers import ClientProducers, close_unready
from readonly_engine.broker.session.client_requests import SERVED_REQUESTS, ClientRequests
from readonly_engine.broker.session.handshake import takes_entry_metadata
from readonly_engine.broker.session.name_bounds import name_error
from readonly_engine.broker.session.requests import RequestServices, refuse_lookup
from readonly_engine.broker.session.topic_watcher import TopicWatcher
from readonly_engine.broker.session.transport import ClientTransport
from readonly_engine.config.listeners import DEFAULT
from readonly_engine.log_bounds import bounded_logger
from readonly_engine.net.frame_slicer import FrameSlicer
from readonly_engine.net.keep_alive import SLOTS, TICK_S
from readonly_engine.owner.errors import OwnerRefusedError
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
from readonly_engine.wire.list_bounds import MAX_LIST_BYTES, LongLists, find_long_lists
from readonly_engine.wire.long_acks import LONG_BYTES, split_long
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandPing,
    CommandPong,
    ServerError,
)
from readonly_engine.wire.well_formed import check_command

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from readonly_engine.broker.consumer.client_consumer import ClientConsumer
    from readonly_engine.broker.consumer.client_link import LinkedConsumer
    from readonly_engine.broker.session.idle import IdleClock
    from readonly_engine.broker.session.producer import ProxiedProducer
    from readonly_engine.broker.session.producer_connections import ProducerConnections
    from readonly_engine.net.half_open import HalfOpenConnections
    from readonly_engine.net.keep_alive import KeepAlive
    from readonly_engine.net.write_coalescer import WriteCoalescer
    from readonly_engine.owner.identity import Identity

log = bounded_logger(__name__)

PROBE_TIMEOUT_S = 5.0
"""Time for a client's answer to a probe, for another client that requests its subscription
(connectionLivenessCheckTimeoutMillis)."""

_PONG = encode_command(BaseCommand(type=BaseCommand.PONG, pong=CommandPong()))
_PING = encode_command(BaseCommand(type=BaseCommand.PING, ping=CommandPing()))
_ANY_TIME_COMMANDS = frozenset({BaseCommand.PING, BaseCommand.PONG})
_UNCHECKED_COMMANDS = frozenset({BaseCommand.PING, BaseCommand.PONG, BaseCommand.FLOW})
"""Commands that are never relayed, so that they need no check."""


class ClientRegistry(RequestServices, SubscribeServices, Protocol):
    """Interface of the broker for the connections of clients.

    Attributes:
        connections: the open connections.
        keep_alive: timer of the keep-alive checks.
        half_open: the connections before authentication.
        idle: time since a client last needed the broker.
        write_coalescer: flushes pending frames once per iteration of the event loop.
        slow_clients: number of clients with a full write buffer.
    """

    connections: set[ClientConnection]
    keep_alive: KeepAlive
    half_open: HalfOpenConnections[ClientConnection]
    idle: IdleClock
    write_coalescer: WriteCoalescer
    slow_clients: int

    @property
    def under_memory_pressure(self) -> bool:
        """Whether the buffers of slow clients may exceed the limit of buffered bytes."""


class ClientConnection(ClientTransport):
    """Serves one client.

    Args:
        services: the broker.
        listener: named listener of the client's port.

    Attributes:
        services: as above.
        listener: as above.
        identity: identity that the owner has accepted.
        connected: whether the client is authenticated.
        client_version: the client's version from CONNECT.
        takes_entry_metadata: whether the client takes the owner's own metadata of entries, as its CONNECT says.
    """

    # More than 30 attributes in a __dict__ would take 1.3 KB more per connection.
    __slots__ = (
        "_authentication",
        "_client_consumers",
        "_consumers",
        "_pinged",
        "_pong_pending",
        "_probe_timer",
        "_producer_connections",
        "_producers",
        "_requests",
        "_responsive",
        "_slices",
        "_splitter",
        "_tasks",
        "_watchers",
        "client_version",
        "connected",
        "identity",
        "listener",
        "services",
        "takes_entry_metadata",
    )

    def __init__(self, services: ClientRegistry, listener: str = DEFAULT) -> None:
        super().__init__(services)
        self.services = services
        self.listener = listener
        self.identity = ANONYMOUS
        self.connected = False
        self.client_version = ""
        self.takes_entry_metadata = False
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
    def consumers(self) -> list[ClientConsumer]:
        """The consumers on this connection."""
        return list(self._consumers.values())

    @property
    def producers(self) -> list[ProxiedProducer]:
        """The producers on this connection."""
        return [] if self._producers is None else self._producers.all

    @property
    def in_use(self) -> bool:
        """Whether the client has anything open: a consumer, a producer, a watcher, or a request."""
        return bool(self._consumers or self._watchers or self._tasks or self.producers)

    def consumer(self, consumer_id: int) -> ClientConsumer | None:
        """Return the consumer with an id; None without one."""
        return self._consumers.get(consumer_id)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle a new connection (asyncio.Protocol)."""
        self._open(cast("asyncio.Transport", transport))  # uvloop's transport is no subclass of asyncio.Transport
        self.services.connections.add(self)
        self.services.keep_alive.add(self)
        self._close_half_open(self.services.half_open.add(self))
        refusal = self.services.limits.connect(self.address)
        if refusal:
            log.warning("connection refused: client=%s reason=%s", self.peer, refusal)
            self.refuse(-1, ServerError.NotAllowedError, refusal)
            self.close()

    def data_received(self, data: bytes) -> None:
        """Process received bytes (asyncio.Protocol)."""
        self._responsive = True
        if self._producer_connections is not None and self._producer_connections.pending_pings:
            self._producer_connections.answer_pings()
        # Fast path: an idle client sends only PINGs, and there may be ten thousand idle clients.
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
            log.warning("protocol error, closing the connection: client=%s error=%s", self.peer, error)
            self._slices.clear()
            self.close()
        if self._slices.pending:
            self.pause_reading_for(self._slices, paused=True)
        if not self.connected:
            self._close_half_open(self.services.half_open.set_buffered(self, self._splitter.buffered_bytes))

    @property
    def _idle(self) -> bool:
        """Whether no received data wait for processing, and the write buffer is below its limit."""
        return self.writable and not self._splitter.buffered_bytes and not self._slices.pending

    def _process_frame(self, frame: bytes) -> bool:
        """Process one frame; return False if the connection is closing.

        Raises:
            WireError: the frame is malformed, or clients may not send it.
        """
        if len(frame) > LONG_BYTES and self.connected:
            if (parts := split_long(frame)) is not None:
                self._slices.insert(parts)
                return True
            if (lists := find_long_lists(frame)) is not None:
                return self._refuse_lists(lists)
        if self.connected and (ack := decode_plain_ack(frame)) is not None:
            consumer = self._consumers.get(ack.consumer_id)
            if consumer is None or consumer.ack_entries(ack):
                return True
        command, _ = decode_command(frame)
        # Counts before the check, which takes as long as the decoding.
        if len(frame) > LONG_BYTES and (error := name_error(command)) is not None:
            self._refuse_command(command, body_of(command).request_id, error)
            return not self._closed
        if command.type not in _UNCHECKED_COMMANDS:
            check_command(command)
        self._handle(command, frame)
        return not self._closed

    def _refuse_lists(self, lists: LongLists) -> bool:
        text = f"the lists of {command_name(lists.command)} take {lists.size:,} bytes; send at most {MAX_LIST_BYTES:,} bytes"
        if lists.request_id is None:
            raise MalformedFrameError(text)
        self._refuse_command(lists.command, lists.request_id, OwnerRefusedError(ServerError.NotAllowedError, text))
        return not self._closed

    def _refuse_command(self, command: BaseCommand, request_id: int, error: OwnerRefusedError) -> None:
        if command.type == BaseCommand.SUBSCRIBE:
            names = command.subscribe.topic, command.subscribe.subscription
            self.services.subscribe_refusals.add(*names, error.code, str(error))
        refuse_lookup(self, command, request_id, error)

    def _process_later(self, process: Callable[[], None]) -> None:
        try:
            if not self._closed:  # ignore the rest if the connection was closed meanwhile
                process()
        except WireError as error:
            self._slices.clear()
            log.warning("protocol error, closing the connection: client=%s error=%s", self.peer, error)
            self.close()
        except Exception:
            self._slices.clear()
            log.exception("a command failed unexpectedly, closing the connection: client=%s", self.peer)
            self.abort()  # as the event loop does for an error of data_received
        self.pause_reading_for(self._slices, paused=bool(self._slices.pending))

    def on_authenticated(self, identity: Identity, max_message_size: int) -> None:
        """Accept all commands from now on, with the owner's limit of frames.

        Args:
            identity: identity that the owner has accepted.
            max_message_size: limit of the owner, in bytes; 0 if it names none.
        """
        self.identity = identity
        self.connected = True
        self._splitter.max_frame_bytes = frame_limit(max_message_size)
        self.services.half_open.remove(self)

    def _close_half_open(self, other: ClientConnection | None) -> None:
        """Close a half-open connection above a limit."""
        if other is not None:
            log.info("too many half-open connections, closing the oldest: client=%s", other.peer)
            self.services.half_open.remove(other)
            other.abort()

    def pause_writing(self) -> None:
        """Stop delivery: the write buffer is full (asyncio.Protocol)."""
        self.writable = False
        self.services.slow_clients += 1
        for consumer in self.consumers:
            consumer.on_writable_changed(writable=False)

    def resume_writing(self) -> None:
        """Resume delivery: the write buffer is below its limit (asyncio.Protocol)."""
        self.writable = True
        self.services.slow_clients -= 1
        self._restore_buffer()
        if self._pong_pending:
            self._pong()
        for consumer in self.consumers:
            consumer.on_writable_changed(writable=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything of the client (asyncio.Protocol). Then asyncio closes the socket, and its descriptor is reused."""
        self._lost()
        if self.in_use:
            self.services.idle.needed(time.monotonic())
        if self._probe_timer is not None:
            self._probe_timer.cancel()
        self._probe_timer = None
        log.debug("connection lost: client=%s reason=%s", self.peer, exc or "end of stream")
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
        """Send a PING, and close the connection if the client sends nothing within PROBE_TIMEOUT_S, as a stock broker does."""
        if self._probe_timer is None and self.connected and not self._closed:
            self._responsive = False
            self.send(_PING)
            self._probe_timer = asyncio.get_running_loop().call_later(PROBE_TIMEOUT_S, self._probe_timed_out)

    @ends("abort")
    def _probe_timed_out(self) -> None:
        self._probe_timer = None
        if not self._responsive and not self._reading_paused_by:
            log.info("client does not answer a probe, closing the connection: client=%s", self.peer)
            self.abort()

    async def is_alive(self) -> bool:
        """Probe the client; return whether it sent anything in time. If not, its connection was closed."""
        self.probe()
        while True:
            if self._probe_timer is None or self._responsive:
                return not self._closed
            await asyncio.sleep(PROBE_TIMEOUT_S / 100)

    def check_alive(self) -> None:
        """Send a PING to a client that was silent since the last call, and close its connection at the next call.

        Close an unauthenticated client at the first call, as a stock broker does (PulsarHandler.handleKeepAliveTimeout).
        """
        if not self.connected:
            log.info(
                "client not authenticated, closing the connection: client=%s timeout=%ds", self.peer, SLOTS * TICK_S
            )
            self.abort()
        elif self._probe_timer is not None:
            pass  # its timer closes the connection
        elif self._responsive or self._reading_paused_by:
            self._responsive, self._pinged = False, False
        elif self._pinged:
            log.info("client does not answer PING, closing the connection: client=%s", self.peer)
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
                self.takes_entry_metadata = takes_entry_metadata(command.connect)
            self._authentication.on_command(command)
        elif kind == BaseCommand.ACK:
            consumer = self._consumers.get(command.ack.consumer_id)
            if consumer is not None:
                consumer.ack(command)
        elif kind == BaseCommand.FLOW:
            consumer = self._consumers.get(command.flow.consumer_id)
            if consumer is not None:
                if command.flow.message_permits <= 0:  # also for 2^31 and more, because the field is an int32
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
        else:
            self._handle_request(command, frame)

    def _handle_request(self, command: BaseCommand, frame: bytes) -> None:
        kind = command.type
        self.services.idle.needed(time.monotonic())
        if (error := name_error(command)) is not None:
            self._refuse_command(command, body_of(command).request_id, error)
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
        else:  # commands of transactions
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
        """Refuse all unanswered SUBSCRIBEs; return their number."""
        return self._client_consumers.cancel_subscribes()

    def drop_consumer(self, consumer: LinkedConsumer) -> None:
        """Remove a consumer, and close it on the owner."""
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
        self.spawn(watcher.start()).add_done_callback(partial(requests.on_answered, size))

    def _unwatch(self, command: BaseCommand) -> None:
        watcher = self._watchers.pop(command.watch_topic_list_close.watcher_id, None)
        if watcher is not None:
            watcher.close()
        self.succeed(command.watch_topic_list_close.request_id)

    def drop_watcher(self, watcher: TopicWatcher) -> None:
        """Remove a watcher that could not be created."""
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
        """Answer a PING. A client with a full write buffer gets one PONG for all PINGs, later."""
        self._pong_pending = not self.writable
        if self.writable:
            self.send(_PONG)

    def ping(self) -> None:
        """Send a PING."""
        self.send(_PING)

    def spawn(self, coroutine: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run a task that is cancelled with the connection."""
        task = self.services.spawn(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    @ends("abort")
    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """Close the connection after an unexpected error, because the client would wait for its answer."""
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.abort()
