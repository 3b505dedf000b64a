"""Topics that an owner pushes: real parts from the owner's connection to the clients' sockets, without a broker and a cluster."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Final

from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.bookkeeper.pool import BookiePool
from readonly_engine.broker.dispatch.latency import LatencySampler
from readonly_engine.broker.dispatch.make import make_consumer_state
from readonly_engine.broker.dispatch.rate import RateLimit
from readonly_engine.broker.session.connection import ClientConnection
from readonly_engine.broker.session.idle import IdleClock
from readonly_engine.broker.subscription.served_topic import ServedTopic
from readonly_engine.broker.subscription.subscription import Subscription
from readonly_engine.broker.tail.budget import TailSettings
from readonly_engine.broker.tail.owner_probes import OwnerProbes
from readonly_engine.broker.tail.splicing import Splicing
from readonly_engine.broker.tail.tail_consumer import TailConsumer
from readonly_engine.lease_guard import LeaseGuard
from readonly_engine.metadata.cluster import ClusterMetadata, ledger_path
from readonly_engine.metadata.store import Versioned
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.net.half_open import HalfOpenConnections
from readonly_engine.net.write_coalescer import WriteCoalescer
from readonly_engine.owner.connection import OwnerConnection
from readonly_engine.owner.identity import ANONYMOUS
from readonly_engine.topic.cache import EntryCache
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.topic.log import TopicLog
from readonly_engine.topic.position import Position
from readonly_engine.topic.transactions import TopicTransactions
from readonly_engine.wire.bookkeeper_pb2 import LedgerMetadataFormat
from readonly_engine.wire.commands import decode_command, encode_command, encode_message_frame
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.framing import FrameSplitter
from readonly_engine.wire.message_pb2 import MarkerType, MessageMetadata
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandConnected, CommandPong, CommandSubscribe, CommandSuccess
from readonly_engine.wire.varint import encode_varint

from tests.support.ledgers import ledger_list
from tests.support.subscription_parts import subscription_parts
from tests.support.waiting import until

SETTINGS: Final = TailSettings("tail")


def stored_entry(sequence_id: int, body: bytes = b"", **fields: object) -> bytes:
    """Return an entry as an owner stores it; `marker=True` for a marker, other fields as in MessageMetadata."""
    if fields.pop("marker", False):
        fields["marker_type"] = MarkerType.TXN_COMMIT
    metadata = MessageMetadata(producer_name="p", sequence_id=sequence_id, publish_time=1, **fields)  # type: ignore[arg-type]
    encoded = metadata.SerializeToString()
    return len(encoded).to_bytes(4, "big") + encoded + body


class Owner:
    """The owner's end of one connection: it accepts every subscription, and pushes what it is told to."""

    def __init__(self) -> None:
        self.connection = OwnerConnection("pulsar://owner:6650", ANONYMOUS)
        self.received: list[BaseCommand] = []
        self._splitter = FrameSplitter()
        self.connection.connection_made(self)  # type: ignore[arg-type]
        self._answer(BaseCommand(type=BaseCommand.CONNECTED, connected=CommandConnected(server_version="4.0.8")))

    def permits(self, consumer_id: int) -> int:
        """Permits that a consumer has sent."""
        flows = [one.flow for one in self.received if one.type == BaseCommand.FLOW]
        return sum(flow.message_permits for flow in flows if flow.consumer_id == consumer_id)

    def write(self, data: bytes) -> None:
        """Receive bytes of the read-only broker (asyncio.Transport)."""
        for frame in self._splitter.receive_data(data):
            command, _ = decode_command(frame)
            self.received.append(command)
            if command.type == BaseCommand.SUBSCRIBE:
                success = CommandSuccess(request_id=command.subscribe.request_id)
                answer = BaseCommand(type=BaseCommand.SUCCESS, success=success)
                asyncio.get_running_loop().call_soon(self._answer, answer)
            elif command.type == BaseCommand.PING:
                asyncio.get_running_loop().call_soon(
                    self._answer, BaseCommand(type=BaseCommand.PONG, pong=CommandPong())
                )

    def is_closing(self) -> bool:
        """Tell that nothing waits to be closed (asyncio.Transport)."""
        return True

    def _answer(self, command: BaseCommand) -> None:
        self.connection.data_received(encode_command(command))


class Clients:
    """A broker's services for connections of clients, as far as they are used."""

    def __init__(self) -> None:
        nothing = SimpleNamespace(add=lambda _: None, discard=lambda _: None)
        self.write_coalescer = WriteCoalescer()
        self.connections: set[ClientConnection] = set()
        self.keep_alive = nothing
        self.half_open: HalfOpenConnections[ClientConnection] = HalfOpenConnections()
        self.idle = IdleClock(0.0)
        self.limits = SimpleNamespace(connect=lambda _: "", disconnect=lambda _: None)
        self.slow_clients = 0
        self.under_memory_pressure = False

    async def connect(self) -> tuple[ClientConnection, socket.socket]:
        """Open a connection; return both ends, the client's as a socket that does not block."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            client = socket.create_connection(listening.getsockname())
            accepted, _ = listening.accept()
        client.setblocking(False)
        accepted.setblocking(False)
        loop = asyncio.get_running_loop()
        _, protocol = await loop.connect_accepted_socket(lambda: ClientConnection(self), accepted)  # type: ignore[arg-type]
        protocol.connected = True
        return protocol, client


class IgnoredAcks:
    """A consumer at the owner that ignores its acks."""

    def share_acks(self, acks: object) -> None:
        """As OwnerConsumer."""

    def ack_entries(self, ids: bytes) -> None:
        """As OwnerConsumer."""

    def send_acks(self, ids: bytes, on_response: object) -> None:
        """As OwnerConsumer."""


class Consumer:
    """The only consumer of an Exclusive subscription, as the subscription sees it."""

    def __init__(
        self, connection: ClientConnection, consumer_id: int, subscribe: CommandSubscribe, permits: int
    ) -> None:
        self.connection = connection
        self.consumer_id = consumer_id
        self.dispatch_state = make_consumer_state(subscribe, writable=True)
        self.dispatch_state.permits = permits
        self.lease_valid = True
        self.owner_consumer = IgnoredAcks()
        self.messages = self.bytes = 0

    def deliver(self, frame: bytes, messages: int) -> None:
        """As ServedConsumer.deliver."""
        self.messages += messages
        self.bytes += len(frame)
        self.connection.send(frame)


class Links:
    """As TailLinks, with one connection for all topics."""

    def __init__(self, stage: Stage, topic: Topic) -> None:
        self._stage, self._topic = stage, topic

    def connection(self, _: OwnerConnection | None) -> OwnerConnection:
        """Return the connection."""
        return self._stage.owner.connection

    async def push_obstacle(self) -> str:
        """Allow pushes."""
        return ""

    def count_tail_change(self) -> None:
        """Count nothing."""

    def poll_delay(self, _now: float) -> float:
        """Let the topic poll at once."""
        return 0.0

    def guarding(self) -> bool:
        """Return False."""
        return False

    def subscriptions(self) -> int:
        """Return the number of subscriptions."""
        return len(self._topic.served.subscriptions)


class Topic:
    """One topic with an open ledger, whose owner pushes."""

    def __init__(self, stage: Stage, number: int) -> None:
        self._stage = stage
        self.name = parse_topic_name(f"persistent://public/default/pushed-{number}")
        self.ledger_id = 1000 + number
        self.next = 0
        self.stored: list[TopicEntry] = []
        self.consumer_id = 0
        self.log = TopicLog(self.name, stage.cluster, stage.pool, stage.cache, stage.last_message)
        self._tell(self.name.managed_ledger_path, self._node())
        self._tell(ledger_path("/ledgers", self.ledger_id), _ledger_node())
        self.transactions = TopicTransactions(self.log, stage)
        self.served = ServedTopic(self.log, self.transactions, stage.guard)
        self.tail = self.served.tail = TailConsumer(
            self.log,
            Links(stage, self),
            self.transactions,
            stage.probes,
            stage.settings,
            self.served.fanout if stage.splices else None,
            stage.splicing,
        )

    async def start(self) -> None:
        """Let the owner push."""
        self.tail.start()
        await until(lambda: self.tail.pushed)
        flows = [one.flow for one in self._stage.owner.received if one.type == BaseCommand.FLOW]
        self.consumer_id = flows[-1].consumer_id

    def subscribe(
        self,
        connection: ClientConnection,
        consumer_id: int = 0,
        permits: int = 1 << 30,
        rates: tuple[RateLimit, ...] = (),
    ) -> tuple[Subscription, Consumer]:
        """Add a subscription with one consumer at the topic's end."""
        name = str(len(self.served.subscriptions))
        command = CommandSubscribe(topic=str(self.name), subscription=name, consumer_id=consumer_id, durable=False)
        end = self.log.limit or Position(self.ledger_id, -1)
        given = {"rates": rates, "fanout": self.served.fanout, "guard": self._stage.guard}
        parts = subscription_parts(self.log, command, self.transactions, end, end, **given)
        made = Subscription(parts, lambda *_: None)
        self.served.subscriptions[name] = made
        made.start()
        consumer = Consumer(connection, consumer_id, command, permits)
        made.add(consumer)  # type: ignore[arg-type]
        return made, consumer

    def frame(self, stored: bytes | None = None, *, skip: int = 0, redelivery_count: int = 0) -> bytes:
        """Return the owner's MESSAGE of the next entry, or of one that is some entries later."""
        self.next += skip
        entry_id, self.next = self.next, self.next + 1
        payload = stored_entry(entry_id, b"%d" % entry_id) if stored is None else stored
        self.stored.append(TopicEntry(Entry(self.ledger_id, entry_id, entry_id, 0, payload)))
        partition = self.name.partition
        return encode_message_frame(self.consumer_id, self.ledger_id, entry_id, partition, payload, redelivery_count)

    def _node(self) -> bytes:
        return ledger_list(self.ledger_id).SerializeToString()

    def make_readable(self) -> None:
        """Let the cache have all entries: it stands for the bookies, which there are none of here."""
        for entry in self.stored:
            self._stage.cache.put(entry)

    def _tell(self, path: str, value: bytes) -> None:
        self._stage.watches[path](Versioned(value, 0))


class Stage:
    """One owner, its topics, and clients."""

    connected = True

    def __init__(self, *, splices: bool = True, settings: TailSettings = SETTINGS, cache_bytes: int = 64 << 20) -> None:
        self.splices = splices
        self.settings = settings
        self.watches: dict[str, Callable[[Versioned | None], None]] = {}
        self.cluster = ClusterMetadata(self)  # type: ignore[arg-type]
        self.pool = BookiePool(self.no_bookie)
        self.cache = EntryCache(cache_bytes)
        self.guard = LeaseGuard()
        self.splicing = Splicing(self.guard, LatencySampler())
        self.probes = OwnerProbes()
        self.owner = Owner()
        self.clients = Clients()
        self.topics: list[Topic] = []
        self._sockets: list[socket.socket] = []

    async def topic(self) -> Topic:
        """Make a topic that the owner pushes."""
        topic = Topic(self, len(self.topics))
        self.topics.append(topic)
        await topic.start()
        return topic

    async def client(self) -> tuple[ClientConnection, socket.socket]:
        """Connect a client."""
        connection, client = await self.clients.connect()
        self._sockets.append(client)
        return connection, client

    def push(self, *frames: bytes) -> None:
        """Let frames of the owner arrive in one read."""
        self.owner.connection.data_received(b"".join(frames))

    def close(self) -> None:
        """Close everything."""
        for topic in self.topics:
            for subscription in topic.served.subscriptions.values():
                subscription.close()
            topic.served.close()
        self.owner.connection.connection_lost(None)
        for connection in list(self.clients.connections):
            connection.abort()
        for client in self._sockets:
            client.close()

    async def last_message(self) -> None:
        """Answer nothing (TransactionOwner)."""

    async def max_read_position(self) -> None:
        """Answer nothing."""

    async def transaction(self, _: object) -> None:
        """Answer nothing."""

    async def no_bookie(self, bookie_id: str) -> tuple[str, int]:
        """Know no bookie."""
        raise BookKeeperError(bookie_id)

    async def get(self, path: str) -> None:
        """Store nothing (MetadataStore)."""

    def watch(self, path: str, changed: Callable[[Versioned | None], None]) -> SimpleNamespace:
        """Keep a watch (MetadataStore)."""
        self.watches[path] = changed
        return SimpleNamespace(stop=lambda: self.watches.pop(path, None))


def received(client: socket.socket) -> bytes:
    """Return what a client has received and not read."""
    data = b""
    try:
        while piece := client.recv(1 << 20):
            data += piece
    except BlockingIOError:
        pass
    return data


def _ledger_node() -> bytes:
    message = LedgerMetadataFormat(quorum_size=1, state=LedgerMetadataFormat.OPEN)
    message.segment.add(first_entry_id=0, ensemble_member=["nowhere"])
    encoded = message.SerializeToString()
    return b"BookieMetadataFormatVersion\t3\n" + encode_varint(len(encoded)) + encoded
