"""Clients that harm: what they send is not taken, what they hold is freed, and others at the same broker do not notice."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterable
from typing import Any, Self
from urllib.parse import urlsplit

import pulsar as pulsar_lib
import pytest
from readonly_engine.broker.session.name_bounds import MAX_NAME_BYTES
from readonly_engine.wire.commands import encode_command
from readonly_engine.wire.list_bounds import MAX_LIST_BYTES
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandGetTopicsOfNamespace,
    CommandSubscribe,
    CommandWatchTopicList,
    IntRange,
    KeySharedMeta,
    KeySharedMode,
    Schema,
)

from devstack.pool import Pool
from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.status import Endpoints
from tests.support.innocent_client import InnocentClient
from tests.support.pulsar.raw_client import ClosedError, RawClient, RefusedError

pytestmark = pytest.mark.second_stack

HUGE_BYTES = 60 << 20
FRAME_BYTES = (5 << 20) + (10 << 10)
SLOW_PING_S = 1.0

FREED_S = 15.0
"""A stock owner takes 6 s; machines that run much else take longer."""

GIVEN_UP_S = 40.0
RETRY_S = 0.3


def connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=30)


def sent_until_closed(sock: socket.socket, size: int) -> int:
    """Send so many bytes, or fewer where the server ends the connection; returns how many."""
    piece, sent = bytes(1 << 16), 0
    try:
        while sent < size:
            sent += sock.send(piece[: size - sent])
        assert sock.recv(1) == b"", "the server answers"
    except ConnectionError:
        pass
    return sent


def serving(url: str, topic: str) -> str:
    """Where a topic is served, of a broker of the pool or of its owner."""
    with RawClient(url) as client:
        return client.lookup(topic)


def seconds_until_free(url: str, topic: str, **fields: Any) -> float:
    """How long others try to get an Exclusive subscription, or ranges of hashes."""
    begin = time.monotonic()
    while True:
        with RawClient(url) as client:
            try:
                client.subscribe(topic, "s", **fields)
            except RefusedError as error:
                if (
                    error.args[1] not in {"ConsumerBusy", "ConsumerAssignError"}
                    or time.monotonic() - begin > GIVEN_UP_S
                ):
                    raise
            else:
                return time.monotonic() - begin
        time.sleep(RETRY_S)


def freeze(url: str, topic: str, **fields: Any) -> RawClient:
    """A client that has an Exclusive subscription, or ranges of hashes, and reads nothing of what comes."""
    client = RawClient(url)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
    client.subscribe(topic, "s", initial_position=CommandSubscribe.Earliest, **fields)
    client.flow(10_000)
    return client


@pytest.mark.nightly
@pytest.mark.parametrize("where", ["owner", "pool", "pool and owner", "two brokers of the pool"])
def test_a_frozen_client_loses_its_exclusive_subscription(
    pool: Pool, pulsar: Endpoints, pulsar_client: pulsar_lib.Client, topic: str, where: str
) -> None:
    """It has much to read still: more than sockets take."""
    urls = {
        "owner": (None, None),
        "pool": (pool.brokers[0].url, pool.brokers[0].url),
        "pool and owner": (pool.brokers[0].url, None),
        "two brokers of the pool": (pool.brokers[0].url, pool.brokers[1].url),
    }[where]
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    for _ in range(300):
        producer.send_async(bytes(100_000), lambda *_: None)
    producer.flush()
    quiet = topic + "-quiet"  # one for which nothing waits is frozen as well
    for name in (topic, quiet):
        pulsar_client.create_producer(
            name
        ).close()  # its owner has loaded it: a lookup alone may name a broker that has not
        owner = serving(pulsar.writer_url, name)
        first, second = (url or owner for url in urls)
        with freeze(first, name):
            assert seconds_until_free(second, name) < FREED_S


def sticky(first: int, last: int) -> dict[str, Any]:
    """Fields of a SUBSCRIBE for a range of hashes."""
    meta = KeySharedMeta(key_shared_mode=KeySharedMode.STICKY, hash_ranges=[IntRange(start=first, end=last)])
    return {"sub_type": CommandSubscribe.Key_Shared, "key_shared_meta": meta}


def test_a_frozen_client_loses_its_ranges_of_hashes(pool: Pool, topic: str) -> None:
    url = pool.brokers[0].url
    with freeze(url, topic, **sticky(0, 40_000)), freeze(url, topic, **sticky(40_001, 65_535)):
        assert seconds_until_free(url, topic, **sticky(30_000, 50_000)) < FREED_S


def test_a_living_client_keeps_its_exclusive_subscription(pool: Pool, topic: str) -> None:
    with RawClient(pool.brokers[0].url) as first, RawClient(pool.brokers[0].url) as second:
        first.subscribe(topic, "s")
        stop, answered = time.monotonic() + 8, threading.Event()

        def answer() -> None:
            """Answer the broker's questions for as long as the second client asks for the subscription."""
            while not answered.is_set():
                first.pending("MESSAGE")

        while time.monotonic() < stop:
            answered.clear()
            answering = threading.Thread(target=answer)
            answering.start()
            try:
                with pytest.raises(RefusedError, match="ConsumerBusy"):
                    second.subscribe(topic, "s", consumer_id=1)
            finally:
                answered.set()
                answering.join()
        first.ping()


@pytest.mark.parametrize("where", ["owner", "pool"])
def test_a_huge_frame_of_somebody_unknown_is_not_taken(pool: Pool, pulsar: Endpoints, where: str) -> None:
    url = pool.brokers[0].url if where == "pool" else pulsar.writer_url
    with InnocentClient(RawClient(url)) as innocent, connect(url) as sock:
        sock.sendall(HUGE_BYTES.to_bytes(4, "big"))
        assert sent_until_closed(sock, HUGE_BYTES) < HUGE_BYTES // 4
    assert innocent.failure is None
    assert innocent.slowest < SLOW_PING_S


class Neighbour:
    """A consumer through the pool. At the owner it shares a connection with those of all clients without credentials."""

    def __init__(self, url: str, topic: str, admin: PulsarAdmin) -> None:
        self._client = RawClient(url)
        self._topic = topic
        self._admin = admin
        self._client.subscribe(topic, "neighbour")
        self._at = self._address()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def _address(self) -> list[str]:
        consumers = self._admin.stats(self._topic)["subscriptions"]["neighbour"]["consumers"]
        return [consumer["address"] for consumer in consumers]

    def unharmed(self) -> bool:
        """Whether its consumer is still on the connection that it came by."""
        self._client.ping()
        return self._at == self._address() != []


def _ack(entries: Iterable[tuple[int, int]], **fields: Any) -> BaseCommand:
    ack = CommandAck(consumer_id=0, ack_type=CommandAck.Individual, **fields)
    for ledger_id, entry_id in entries:
        ack.message_id.add(ledger_id=ledger_id, entry_id=entry_id)
    return BaseCommand(type=BaseCommand.ACK, ack=ack)


@pytest.mark.nightly
def test_acks_of_many_clients_never_come_to_a_frame_that_the_owner_does_not_take(
    pool: Pool, admin: PulsarAdmin, topic: str
) -> None:
    """Each is as long as a client may send it. Together they are three times as long as the owner takes."""
    url = pool.brokers[0].url
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(RawClient(url)) for _ in range(3)]
        for client in clients:
            client.subscribe(topic, "s", sub_type=CommandSubscribe.Shared)
        neighbour = stack.enter_context(Neighbour(url, topic, admin))
        ack = _ack(((1 << 40) + number % 7, (1 << 40) + number) for number in range(320_000))
        assert 4 << 20 < ack.ByteSize() < 5 << 20
        for client in clients:
            client.send(ack)
        for client in clients:
            client.ping()
        receipt = _ack([(1, 1)], request_id=77)
        clients[0].send(receipt)
        clients[0].wait(lambda command: command.type == BaseCommand.ACK_RESPONSE)
        assert neighbour.unharmed()


def test_an_ack_whose_id_is_as_long_as_a_frame_is_refused_and_costs_nobody_a_connection(
    pool: Pool, admin: PulsarAdmin, topic: str
) -> None:
    """It cannot be split, and its owner would refuse it: the id of the consumer is longer there."""
    url = pool.brokers[0].url
    with RawClient(url) as client, Neighbour(url, topic, admin) as neighbour:
        client.subscribe(topic, "s", sub_type=CommandSubscribe.Shared)
        ack = _ack([(1, 1)], request_id=5)
        ack.ack.message_id[0].ack_set.extend([1] * ((FRAME_BYTES - 40) // 2))
        while len(encode_command(ack)) - 4 < FRAME_BYTES:
            ack.ack.message_id[0].ack_set.append(1)
        while len(encode_command(ack)) - 4 > FRAME_BYTES:
            ack.ack.message_id[0].ack_set.pop()
        client.send(ack)
        answer, _ = client.wait(lambda command: command.type in {BaseCommand.ERROR, BaseCommand.ACK_RESPONSE})
        assert answer.type == BaseCommand.ERROR
        assert f"send at most {MAX_LIST_BYTES:,} bytes" in answer.error.message
        client.ping()
        assert neighbour.unharmed()


@pytest.mark.nightly
def test_names_as_long_as_a_frame_are_refused_and_not_shown(pool: Pool, admin: PulsarAdmin, topic: str) -> None:
    """At the bound, the metadata store of the owner has the names too."""
    broker, longest = pool.brokers[0], "n" * MAX_NAME_BYTES
    before = len(broker.get("/stats")) + len(broker.get("/metrics"))
    with RawClient(broker.url) as client, Neighbour(broker.url, topic, admin) as neighbour:
        for size in (MAX_NAME_BYTES + 1, 5 << 20):
            name = "n" * size
            with pytest.raises(RefusedError, match=f"name of the subscription has {size:,} bytes"):
                client.subscribe(topic, name, consumer_id=1)
            with pytest.raises(RefusedError, match=f"name of the consumer has {size:,} bytes"):
                client.subscribe(topic, "s", consumer_id=1, consumer_name=name)
            for request in (client.lookup, client.partitions, client.produce):
                with pytest.raises(RefusedError, match=r"InvalidTopicName.*name of the topic has"):
                    request(f"{topic}{name}")
        client.subscribe(topic, longest, consumer_id=2, consumer_name=longest)
        assert client.partitions(topic + "n" * (MAX_NAME_BYTES - len(topic))) == 0
        assert longest in admin.stats(topic)["subscriptions"]
        assert len(broker.get("/stats")) + len(broker.get("/metrics")) < before + 40 * MAX_NAME_BYTES
        assert neighbour.unharmed()


@pytest.mark.parametrize("what", ["namespace", "watched namespace", "subscription", "schema"])
def test_a_command_that_an_owner_closes_connections_for_costs_its_own_client_the_connection(
    pool: Pool, admin: PulsarAdmin, topic: str, what: str
) -> None:
    command = {
        "namespace": BaseCommand(
            type=BaseCommand.GET_TOPICS_OF_NAMESPACE,
            get_topics_of_namespace=CommandGetTopicsOfNamespace(request_id=1, namespace="not/a/name/space"),
        ),
        "watched namespace": BaseCommand(
            type=BaseCommand.WATCH_TOPIC_LIST,
            watch_topic_list=CommandWatchTopicList(
                request_id=1, watcher_id=1, namespace="not/a/name/space", topics_pattern=".*"
            ),
        ),
        "subscription": BaseCommand(
            type=BaseCommand.SUBSCRIBE,
            subscribe=CommandSubscribe(topic=topic, sub_type=CommandSubscribe.Shared, consumer_id=1, request_id=1),
        ),
        "schema": BaseCommand(
            type=BaseCommand.SUBSCRIBE,
            subscribe=CommandSubscribe(
                topic=topic, subscription="s", sub_type=0, consumer_id=1, request_id=1, schema=Schema(name="s")
            ),
        ),
    }[what]
    url = pool.brokers[0].url
    with Neighbour(url, topic, admin) as neighbour, RawClient(url) as client:
        client.send(command)
        with contextlib.suppress(TimeoutError):
            client.wait_closed(10)
        assert neighbour.unharmed()
        with pytest.raises((ClosedError, OSError)):
            client.ping(2)
