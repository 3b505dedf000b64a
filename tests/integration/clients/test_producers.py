"""Producers on the pool's URL: what they send is stored once, in order, at the owner, and nothing of them stays there."""

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pulsar
import pytest
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandCloseProducer, CommandProducer, ProducerAccessMode

from devstack.pool import Pool
from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.status import Endpoints
from tests.support.pulsar.fleet import quiet_client
from tests.support.pulsar.raw_client import RawClient, RefusedError
from tests.support.waiting import wait_until

pytestmark = pytest.mark.second_stack

BOUND = "persistent://public/test-producers-.*"


AHEAD = 200
CHUNKED_BYTES = 11 << 20
QUIET_MS = 700
"""A message that must not come would have come by then."""


@pytest.fixture(scope="module")
def namespaces(admin: PulsarAdmin) -> dict[bool, str]:
    """Two namespaces of this file: without and with deduplication."""
    tag = uuid.uuid4().hex[:8]
    names = {on: f"public/test-producers-{'dedup' if on else 'plain'}-{tag}" for on in (False, True)}
    for on, name in names.items():
        admin.create_namespace(name)
        admin.set_deduplication(name, enabled=on)
    return names


@pytest.fixture(scope="module")
def producers_pool(pulsar_stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """Two brokers that serve these namespaces."""
    folder = tmp_path_factory.mktemp("producers")
    with closing(Pool(pulsar_stack.endpoints, folder, uuid.uuid4().hex, ["--topics", BOUND])) as pool:
        pool.start(2)
        yield pool


def new_topic(namespaces: dict[bool, str], *, deduplication: bool) -> str:
    return f"persistent://{namespaces[deduplication]}/{uuid.uuid4().hex[:12]}"


class Receipts:
    """Counts what became of messages that were sent asynchronously."""

    def __init__(self) -> None:
        self.good = 0
        self.bad: list[pulsar.Result] = []

    def wait(self, count: int) -> None:
        """Wait until so many are stored."""
        wait_until(lambda: self.good >= count, what=f"{count} receipts")

    def __call__(self, result: pulsar.Result, _: pulsar.MessageId) -> None:
        """Called by the client."""
        if result == pulsar.Result.Ok:
            self.good += 1
        else:
            self.bad.append(result)


class SendLoop:
    """Publishes numbers until it is stopped, without waiting for receipts; at most AHEAD are unconfirmed."""

    def __init__(
        self, client: pulsar.Client, topic: str, producer: pulsar.Producer | None = None, **options: Any
    ) -> None:
        self.sent = 0
        self._producer = producer or client.create_producer(topic, **options)
        self._receipts = Receipts()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def confirmed(self) -> int:
        """How many are stored, as the client says."""
        return self._receipts.good

    def _run(self) -> None:
        while not self._stop.wait(0.001):
            if self.sent - self.confirmed < AHEAD:
                self._producer.send_async(b"%d" % self.sent, self._receipts)
                self.sent += 1

    def stop(self) -> int:
        """Publish no more; returns how many there are, all confirmed."""
        self._stop.set()
        self._thread.join()
        self._receipts.wait(self.sent)
        assert not self._receipts.bad
        return self.sent


def stored(client: pulsar.Client, topic: str) -> list[int]:
    """The numbers that the owner has stored in a topic."""
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    numbers = []
    while reader.has_message_available():
        numbers.append(int(reader.read_next(10_000).data()))
    reader.close()
    return numbers


@pytest.mark.parametrize(
    "deduplication", [pytest.param(False, marks=pytest.mark.nightly), True], ids=["plain", "deduplication"]
)
@pytest.mark.parametrize("batching", [pytest.param(False, marks=pytest.mark.nightly), True], ids=["single", "batches"])
def test_a_broker_that_leaves_loses_and_doubles_nothing(
    own_pool, pulsar_client: pulsar.Client, namespaces: dict[bool, str], deduplication: bool, batching: bool
) -> None:
    """Producers publish all the time, and others their first messages, while the broker that relays them leaves."""
    pool = own_pool(2, "--topics", BOUND)
    client = quiet_client(pool.url)
    options: dict[str, Any] = {"batching_enabled": batching, "batching_max_publish_delay_ms": 1}
    topics = [new_topic(namespaces, deduplication=deduplication) for _ in range(12)]
    flows = [SendLoop(client, topic, **options) for topic in topics[:6]]
    wait_until(lambda: all(flow.sent > 20 for flow in flows), what="they publish")
    late = [client.create_producer(topic, **options) for topic in topics[6:]]
    through = max(pool.brokers, key=lambda broker: broker.stats()["producers"])
    through.process.terminate()
    left = [broker for broker in pool.brokers if broker is not through]
    flows += [SendLoop(client, topic, producer) for topic, producer in zip(topics[6:], late, strict=True)]
    assert through.process.wait(40) == 0
    marks = [flow.sent for flow in flows]
    wait_until(
        lambda: all(flow.sent > mark + 20 for flow, mark in zip(flows, marks, strict=True)),
        what="they go on through the other broker",
    )
    counts = [flow.stop() for flow in flows]
    assert left[0].stats()["producers"] == len(flows)
    for topic, count in zip(topics, counts, strict=True):
        assert stored(pulsar_client, topic) == list(range(count))
    client.close()


@pytest.mark.nightly
def test_what_is_sent_before_the_first_receipt_while_the_owner_moves_is_stored_once(
    producers_pool: Pool, pulsar_client: pulsar.Client, admin: PulsarAdmin, namespaces: dict[bool, str]
) -> None:
    """A C++ client would number the messages after it like those before, as it does at the owner."""
    client = quiet_client(producers_pool.url)
    topic = new_topic(namespaces, deduplication=True)
    producer = client.create_producer(topic, batching_enabled=False)
    receipts = Receipts()
    admin.unload(topic)
    wait_until(lambda: not producer.is_connected(), what="it is closed")
    for number in range(20):
        producer.send_async(b"%d" % number, receipts)
    wait_until(producer.is_connected, what="it is back")
    for number in range(20, 40):
        producer.send_async(b"%d" % number, receipts)
    receipts.wait(40)
    assert producer.last_sequence_id() >= 39
    assert stored(pulsar_client, topic) == list(range(40))
    client.close()


def test_one_client_that_is_throttled_holds_up_no_other(
    producers_pool: Pool, pulsar_client: pulsar.Client, admin: PulsarAdmin, namespaces: dict[bool, str]
) -> None:
    """An owner stops reading the connection of a producer that publishes faster than its namespace allows."""
    slow_namespace = f"{namespaces[False]}-slow"
    admin.create_namespace(slow_namespace)
    admin.set_publish_rate(slow_namespace, messages=20)
    throttled, innocent = quiet_client(producers_pool.url), quiet_client(producers_pool.url)
    slow = throttled.create_producer(
        f"persistent://{slow_namespace}/slow", batching_enabled=False, send_timeout_millis=0
    )
    receipts = Receipts()
    for _ in range(160):
        slow.send_async(b"0", receipts)
    wait_until(lambda: receipts.good > 0, what="the owner takes some")
    producer = innocent.create_producer(new_topic(namespaces, deduplication=False), batching_enabled=False)
    worst = 0.0
    while receipts.good < 100:
        begin = time.monotonic()
        producer.send(b"1")
        worst = max(worst, time.monotonic() - begin)
    assert worst < 0.5, "while the other one waits for a second and more"
    receipts.wait(160)
    throttled.close()
    innocent.close()


@pytest.mark.parametrize("deduplication", [False, True], ids=["plain", "deduplication"])
def test_chunked_messages_are_stored_once_in_order(
    producers_pool: Pool,
    pulsar_client: pulsar.Client,
    admin: PulsarAdmin,
    namespaces: dict[bool, str],
    deduplication: bool,
) -> None:
    """Of three chunks each, with small ones between; the owner moves in the middle. The pool delivers them too."""
    topic = new_topic(namespaces, deduplication=deduplication)
    client = quiet_client(producers_pool.url)
    producer = client.create_producer(topic, batching_enabled=False, chunking_enabled=True)
    payloads = [(b"%d " % number).ljust(CHUNKED_BYTES if number % 2 else 10) for number in range(6)]
    for number, payload in enumerate(payloads):
        producer.send(payload)
        if number == 2:
            admin.unload(topic)
    assert producer.last_sequence_id() == len(payloads) - 1
    for url in (producers_pool.url, ""):
        consumer = (quiet_client(url) if url else pulsar_client).subscribe(
            topic, f"s{len(url)}", initial_position=pulsar.InitialPosition.Earliest
        )
        for payload in payloads:
            message = consumer.receive(60_000)
            assert (len(message.data()), message.data()[:2]) == (len(payload), payload[:2])
            consumer.acknowledge(message)
        with pytest.raises(pulsar.Timeout):
            consumer.receive(QUIET_MS)
        consumer.close()
    client.close()


# On the wire: what a client may not do is answered as by the owner


@pytest.mark.nightly
def test_an_id_that_is_taken_is_answered_with_the_producer_that_has_it(
    producers_pool: Pool, admin: PulsarAdmin, namespaces: dict[bool, str]
) -> None:
    topic = new_topic(namespaces, deduplication=False)
    with RawClient(producers_pool.brokers[0].url) as client:
        first = client.produce(topic, 3)
        assert client.produce(topic, 3).producer_name == first.producer_name
        assert len(admin.stats(topic)["publishers"]) == 1
        client.publish(b"0", 0, producer_id=3)
        assert client.receipt().producer_id == 3


@pytest.mark.nightly
def test_a_producer_that_is_closed_before_it_is_there_leaves_nothing(
    producers_pool: Pool, admin: PulsarAdmin, namespaces: dict[bool, str]
) -> None:
    topic = new_topic(namespaces, deduplication=False)
    admin.create_topic(topic)
    with RawClient(producers_pool.brokers[0].url) as client:
        for number in range(50):
            producer = CommandProducer(topic=topic, producer_id=number, request_id=1000 + number)
            client.send(BaseCommand(type=BaseCommand.PRODUCER, producer=producer))
            client.request(
                BaseCommand(type=BaseCommand.CLOSE_PRODUCER, close_producer=CommandCloseProducer(producer_id=number))
            )
        wait_until(lambda: not admin.stats(topic)["publishers"], what="nothing is left at the owner")
        assert producers_pool.brokers[0].stats()["producers"] == 0


@pytest.mark.nightly
def test_messages_on_their_way_to_a_producer_that_was_closed_are_ignored(
    producers_pool: Pool, admin: PulsarAdmin, namespaces: dict[bool, str]
) -> None:
    topic = new_topic(namespaces, deduplication=False)
    with RawClient(producers_pool.brokers[0].url) as client:
        name = client.produce(topic).producer_name
        admin.unload(topic)
        client.wait(lambda command: command.type == BaseCommand.CLOSE_PRODUCER)
        client.publish(b"0", 0)
        client.produce(topic, producer_name=name, epoch=1)
        client.publish(b"1", 0)
        assert client.receipt().message_id.entry_id == 0


@pytest.mark.nightly
@pytest.mark.parametrize("where", ["owner", "pool"])
@pytest.mark.parametrize("leaving", ["close", "disconnect"])
def test_a_producer_that_waits_for_exclusive_access_and_leaves_is_forgotten(
    pool: Pool, pulsar: Endpoints, admin: PulsarAdmin, topic: str, where: str, leaving: str
) -> None:
    admin.create_topic(topic)
    with RawClient(pulsar.writer_url) as entrance:
        owner = entrance.lookup(topic)
    url = owner if where == "owner" else pool.brokers[0].url
    with RawClient(owner) as holder, RawClient(url) as waiter, RawClient(owner) as next_one:
        name = holder.produce(topic, producer_access_mode=ProducerAccessMode.AccessExclusive).producer_name
        waits = ProducerAccessMode.AccessWaitForExclusive
        waiting = CommandProducer(topic=topic, producer_id=0, request_id=5, producer_access_mode=waits)
        waiter.send(BaseCommand(type=BaseCommand.PRODUCER, producer=waiting))
        first, _ = waiter.wait(lambda command: command.type == BaseCommand.PRODUCER_SUCCESS)
        assert not first.producer_success.producer_ready
        if leaving == "close":
            close = CommandCloseProducer(producer_id=0)
            waiter.request(BaseCommand(type=BaseCommand.CLOSE_PRODUCER, close_producer=close))
        else:
            waiter.close()
        if where == "pool":
            wait_until(lambda: pool.brokers[0].stats()["producers"] == 0)
        assert [one["producerName"] for one in admin.stats(topic)["publishers"]] == [name]
        holder.close()
        wait_until(lambda: not admin.stats(topic)["publishers"], what="the topic is free")

        def let_in() -> bool:
            """Whether the topic is free: the owner gives one that is gone its turn, for some ms."""
            with suppress(RefusedError):
                return next_one.produce(topic, producer_access_mode=ProducerAccessMode.AccessExclusive).producer_ready
            return False

        wait_until(let_in, 10, "another producer gets exclusive access")
        next_one.publish(b"0", 0)
        assert next_one.receipt().producer_id == 0
