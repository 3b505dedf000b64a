"""Split subscriptions: one Shared subscription that both brokers of a pool serve, with stock clients and a real owner."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from devstack.pool import BrokerProcess, Pool
from devstack.pulsar.admin import PulsarAdmin
from tests.support.pulsar.fleet import SHARED, backlog, quiet_client
from tests.support.waiting import wait_until

SUBSCRIPTION = "work"
COUNT = 10_000


class Worker:
    """A consumer at one broker, which receives and acks in a thread until it is stopped."""

    def __init__(self, url: str, topic: str, **options: Any) -> None:
        self.got: list[int] = []
        self._client = quiet_client(url)
        self._consumer = self._client.subscribe(
            topic,
            SUBSCRIPTION,
            SHARED,
            initial_position=pulsar.InitialPosition.Earliest,
            receiver_queue_size=100,
            **options,
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                message = self._consumer.receive(200)
            except pulsar.Timeout:
                continue
            except pulsar.PulsarException:
                return  # the test has ended
            self.got.append(int(message.data()))
            self._consumer.acknowledge(message)

    def close(self) -> None:
        """Stop, and close the client."""
        self._stop.set()
        self._thread.join()
        self._client.close()


@pytest.fixture
def work(topic: str) -> Iterator[Callable[..., Worker]]:
    """Starts workers on a topic."""
    workers: list[Worker] = []

    def start(url: str, **options: Any) -> Worker:
        worker = Worker(url, topic, **options)
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        worker.close()


def bind(tmp_path: Path, topic: str, **fields: str) -> tuple[str, str]:
    """Return the option of brokers for a binding that splits the topic's subscriptions."""
    bindings = tmp_path / "bindings.json"
    binding = {"name": "team/split", "topics": [topic], "dispatch": "Split"} | fields
    bindings.write_text(json.dumps({"revision": "1", "bindings": [binding]}))
    return "--bindings", str(bindings)


@pytest.fixture
def split_pool(own_pool: Callable[..., Pool], tmp_path: Path, topic: str) -> Pool:
    """Two brokers, and a binding that splits the topic's Shared subscriptions."""
    return own_pool(2, *bind(tmp_path, topic))


@pytest.fixture
def local_split_pool(own_pool: Callable[..., Pool], tmp_path: Path, topic: str) -> Pool:
    """The same with cursors that the pool keeps itself."""
    return own_pool(2, *bind(tmp_path, topic, cursors="Local"), "--cursor-partitions", "4")


def split(broker: BrokerProcess, topic: str) -> dict[str, Any]:
    """What a broker says about its part in the subscription; empty for none."""
    stats = broker.stats()["topics"].get(topic, {"subscriptions": {}})
    found: dict[str, Any] = stats["subscriptions"].get(SUBSCRIPTION, {}).get("split", {})
    return found


def publish(client: pulsar.Client, topic: str, numbers: range, padding: bytes = b"", **options: Any) -> None:
    """Publish numbers, and wait until they are stored."""
    producer = client.create_producer(topic, **({"batching_enabled": False, "block_if_queue_full": True} | options))
    for number in numbers:
        producer.send_async(b"%d" % number + padding, lambda *_: None)
    producer.flush()
    producer.close()


def roles(pool: Pool, topic: str) -> dict[str, str]:
    """The state of each live broker."""
    live = [broker for broker in pool.brokers if broker.process.poll() is None]
    return {broker.url: split(broker, topic).get("state", "") for broker in live}


def served_by(pool: Pool, topic: str) -> set[str]:
    """What serves the subscription by each live broker: empty for the broker itself."""
    found = [broker.stats()["topics"].get(topic, {"subscriptions": {}})["subscriptions"] for broker in pool.brokers]
    return {one[SUBSCRIPTION].get("servedBy", "") for one in found if SUBSCRIPTION in one}


def urls(pool: Pool) -> set[str]:
    """The URLs of the brokers."""
    return {broker.url for broker in pool.brokers}


def numbers(workers: list[Worker]) -> list[int]:
    """What the workers have received."""
    return [number for worker in workers for number in list(worker.got)]


def wait_split(pool: Pool, topic: str) -> tuple[BrokerProcess, BrokerProcess]:
    """Wait until both brokers serve the subscription; return the coordinator and the member."""
    wait_until(
        lambda: sorted(roles(pool, topic).values()) == ["coordinating", "following"],
        what=f"both brokers serve it: {roles(pool, topic)}",
    )
    first, second = pool.brokers
    return (first, second) if split(first, topic)["state"] == "coordinating" else (second, first)


def test_both_brokers_serve_a_share_and_each_message_comes_once(
    split_pool: Pool, pulsar_client: pulsar.Client, admin: PulsarAdmin, topic: str, work: Callable[..., Worker]
) -> None:
    workers = [work(split_pool.url) for _ in range(4)]
    coordinator, member = wait_split(split_pool, topic)
    assert split(member, topic) == {"state": "following", "coordinator": coordinator.url, "members": []}
    assert split(coordinator, topic)["members"] == [member.url]
    publish(pulsar_client, topic, range(COUNT))
    wait_until(lambda: sum(len(worker.got) for worker in workers) >= COUNT, 60, what="all messages came")
    wait_until(lambda: backlog(admin, topic, SUBSCRIPTION) == 0, what="all messages are acked")
    assert Counter(numbers(workers)) == Counter(range(COUNT))
    shares = [broker.dispatched(topic) for broker in split_pool.brokers]
    assert sum(shares) == COUNT
    assert min(shares) > COUNT / 10, shares


def read_from_bookies(broker: BrokerProcess) -> float:
    """Return the bytes that a broker has received from bookies."""
    lines = broker.get("/metrics").splitlines()
    return sum(
        float(line.split()[-1]) for line in lines if line.startswith("pulsar_readonly_bookie_received_bytes_total")
    )


@pytest.mark.nightly
def test_a_broker_reads_from_bookies_what_it_dispatches_and_little_more(
    split_pool: Pool, pulsar_client: pulsar.Client, admin: PulsarAdmin, topic: str, work: Callable[..., Worker]
) -> None:
    def expect_all(last: int) -> None:
        wait_until(lambda: len(set(numbers(workers))) == last, 60, what="all messages came")

    def share(broker: BrokerProcess) -> float:
        """Return the parts of all messages that it has dispatched, and read from bookies, one by the other."""
        return (read_from_bookies(broker) - before[broker.url]) / (broker.dispatched(topic) * bytes_of_one)

    count = COUNT // 3
    padding = b" " * 1000
    bytes_of_one = len(padding) + 100  # with its metadata and what bookies add, about
    publish(pulsar_client, topic, range(count), padding=padding)
    before = {broker.url: read_from_bookies(broker) for broker in split_pool.brokers}
    workers = [work(split_pool.url) for _ in range(4)]
    expect_all(count)
    coordinator, member = wait_split(split_pool, topic)
    assert max(share(coordinator), share(member)) <= 1.1, "of a backlog"
    publish(pulsar_client, topic, range(count, 2 * count), padding=padding)
    expect_all(2 * count)
    assert share(member) <= 1.1, "at the tail, which it does not follow"
    wait_until(lambda: backlog(admin, topic, SUBSCRIPTION) == 0, what="all messages are acked")
    assert Counter(numbers(workers)) == Counter(range(2 * count))


def test_the_death_of_the_coordinator_loses_nothing_and_repeats_only_what_came_shortly_before(
    split_pool: Pool, pulsar_client: pulsar.Client, admin: PulsarAdmin, topic: str, work: Callable[..., Worker]
) -> None:
    workers = [work(split_pool.url) for _ in range(4)]
    coordinator, member = wait_split(split_pool, topic)
    publish(pulsar_client, topic, range(COUNT // 2))
    wait_until(lambda: len(set(numbers(workers))) == COUNT // 2, 60, what="the first half came")
    publish(pulsar_client, topic, range(COUNT // 2, COUNT))
    wait_until(lambda: len(numbers(workers)) > COUNT * 0.6, what="some of the second half came")
    coordinator.kill()
    wait_until(lambda: len(set(numbers(workers))) == COUNT, 60, what="all messages came")
    wait_until(lambda: backlog(admin, topic, SUBSCRIPTION) == 0, what="all messages are acked")
    wait_until(lambda: split(member, topic).get("state") == "coordinating", what="the other one coordinates")
    repeated = [number for number, times in Counter(numbers(workers)).items() if times > 1]
    assert all(number >= COUNT // 2 for number in repeated)
    assert len(repeated) < COUNT / 4


@pytest.mark.nightly
def test_a_move_of_the_owner_closes_no_consumer(
    split_pool: Pool, pulsar_client: pulsar.Client, admin: PulsarAdmin, topic: str, work: Callable[..., Worker]
) -> None:
    workers = [work(split_pool.url) for _ in range(4)]
    before = wait_split(split_pool, topic)
    for round_ in range(4):
        publish(pulsar_client, topic, range(round_ * 1000, round_ * 1000 + 1000))
        wait_until(lambda end=round_ * 1000 + 500: len(numbers(workers)) > end, what="some messages came")
        admin.unload(topic)
    wait_until(lambda: set(numbers(workers)) == set(range(4000)), 60, what="all messages came")
    wait_until(lambda: backlog(admin, topic, SUBSCRIPTION) == 0, what="all messages are acked")
    assert wait_split(split_pool, topic) == before
    assert not any("begins again" in broker.log.read_text() for broker in split_pool.brokers)
    assert len(numbers(workers)) == 4000, "nothing came twice"


@pytest.mark.nightly
def test_a_consumer_at_the_owner_means_passthrough_for_all(
    split_pool: Pool, pulsar_client: pulsar.Client, topic: str, work: Callable[..., Worker]
) -> None:
    workers = [work(split_pool.url) for _ in range(4)]
    wait_split(split_pool, topic)
    direct = pulsar_client.subscribe(topic, SUBSCRIPTION, SHARED, receiver_queue_size=1)
    wait_until(lambda: served_by(split_pool, topic) <= {"owner"} | urls(split_pool), what="both pass through")
    publish(pulsar_client, topic, range(1000))
    got: list[int] = []

    def received() -> bool:
        try:
            message = direct.receive(1)
        except pulsar.Timeout:
            return len(numbers(workers)) + len(got) >= 1000
        got.append(int(message.data()))
        direct.acknowledge(message)
        return False

    wait_until(received, what="all messages came")
    assert Counter(numbers(workers) + got) == Counter(range(1000))


# Cursors that the pool keeps


def publish_meanwhile(client: pulsar.Client, topic: str, numbers: range) -> threading.Thread:
    """Publish in a thread."""
    publishing = threading.Thread(target=publish, args=(client, topic, numbers))
    publishing.start()
    return publishing


def stored_backlog(holder: BrokerProcess, topic: str) -> int:
    """The backlog of a local subscription at its holder; -1 while acks are not stored."""
    stats = holder.stats()
    if any(one["unstored"] for one in stats["localCursors"]):
        return -1
    found: int = stats["topics"][topic]["subscriptions"][SUBSCRIPTION]["msgBacklog"]
    return found


@pytest.mark.nightly
def test_the_holder_of_a_local_cursor_leases_and_its_death_repeats_only_what_came_shortly_before(
    local_split_pool: Pool, pulsar_client: pulsar.Client, admin: PulsarAdmin, topic: str, work: Callable[..., Worker]
) -> None:
    pool = local_split_pool
    workers = [work(pool.url) for _ in range(4)]
    holder, member = wait_split(pool, topic)
    publish(pulsar_client, topic, range(COUNT // 2))
    wait_until(lambda: len(set(numbers(workers))) == COUNT // 2, 60, what="the first half came")
    assert Counter(numbers(workers)) == Counter(range(COUNT // 2))
    shares = [broker.dispatched(topic) for broker in pool.brokers]
    assert sum(shares) == COUNT // 2
    assert min(shares) > COUNT / 20, shares
    wait_until(lambda: stored_backlog(holder, topic) == 0, what="the holder has stored all acks")
    assert SUBSCRIPTION not in admin.stats(topic)["subscriptions"], "the owner has guards only"
    publishing = publish_meanwhile(pulsar_client, topic, range(COUNT // 2, COUNT))
    wait_until(lambda: len(numbers(workers)) > COUNT * 0.6, what="some of the second half came")
    holder.kill()
    publishing.join()
    wait_until(lambda: len(set(numbers(workers))) == COUNT, 60, what="all messages came")
    wait_until(lambda: split(member, topic).get("state") == "coordinating", what="the other one has the cursor")
    wait_until(lambda: stored_backlog(member, topic) == 0, what="all messages are acked")
    repeated = [number for number, times in Counter(numbers(workers)).items() if times > 1]
    assert all(number >= COUNT // 2 for number in repeated)
    assert len(repeated) < COUNT / 4


def test_a_seek_at_any_broker_moves_a_local_cursor_and_the_last_consumer_deletes_it(
    local_split_pool: Pool, pulsar_client: pulsar.Client, topic: str
) -> None:
    publish(pulsar_client, topic, range(20))
    clients = [quiet_client(broker.url) for broker in local_split_pool.brokers for _ in range(2)]
    consumers = [
        client.subscribe(
            topic, SUBSCRIPTION, SHARED, initial_position=pulsar.InitialPosition.Earliest, receiver_queue_size=5
        )
        for client in clients
    ]
    wait_split(local_split_pool, topic)

    def take_all() -> Counter[int]:
        got: Counter[int] = Counter()

        def took() -> bool:
            for consumer in consumers:
                try:
                    message = consumer.receive(50)
                except pulsar.Timeout:
                    continue
                got[int(message.data())] += 1
                consumer.acknowledge(message)
            return len(got) == 20

        wait_until(took, 60, what="all messages came")
        return got

    take_all()
    for consumer in consumers[:3]:  # of both brokers
        consumer.seek(pulsar.MessageId.earliest)
        take_all()
    for client in clients[1:]:
        client.close()
    del consumers[1:]
    consumers[0].unsubscribe()
    consumers[0] = clients[0].subscribe(
        topic, SUBSCRIPTION, SHARED, initial_position=pulsar.InitialPosition.Earliest, receiver_queue_size=5
    )
    assert take_all() == Counter(range(20)), "it was deleted, and begins anew"
    clients[0].close()


@pytest.mark.nightly
def test_the_holder_of_a_local_cursor_drains_and_little_comes_twice(
    local_split_pool: Pool, pulsar_client: pulsar.Client, topic: str, work: Callable[..., Worker]
) -> None:
    pool = local_split_pool
    workers = [work(pool.url) for _ in range(4)]
    holder, member = wait_split(pool, topic)
    publishing = publish_meanwhile(pulsar_client, topic, range(COUNT))
    wait_until(lambda: len(numbers(workers)) > 1000, what="some messages came")
    assert holder.stop() == 0
    publishing.join()
    wait_until(lambda: len(set(numbers(workers))) == COUNT, 60, what="all messages came")
    wait_until(lambda: split(member, topic).get("state") == "coordinating", what="the other one has the cursor")
    wait_until(lambda: stored_backlog(member, topic) == 0, what="all messages are acked")
    assert len(numbers(workers)) - COUNT < COUNT / 100


def receive_from(consumers: list[pulsar.Consumer]) -> Iterator[tuple[pulsar.Consumer, pulsar.Message]]:
    """Receive a message from each consumer that has one now."""
    for consumer in consumers:
        try:
            message = consumer.receive(50)
        except pulsar.Timeout:
            continue
        yield consumer, message


@pytest.mark.nightly
def test_one_broker_serves_a_local_subscription_with_chunked_messages(
    local_split_pool: Pool, pulsar_client: pulsar.Client, topic: str
) -> None:
    pool = local_split_pool
    clients = [quiet_client(broker.url) for broker in pool.brokers for _ in range(2)]
    consumers = [client.subscribe(topic, SUBSCRIPTION, SHARED, receiver_queue_size=5) for client in clients]
    wait_split(pool, topic)
    producer = pulsar_client.create_producer(topic, chunking_enabled=True, batching_enabled=False)
    got: list[bytes] = []

    def took() -> bool:
        for consumer, message in receive_from(consumers):
            got.append(message.data()[:1])
            consumer.acknowledge(message)
        return set(got) == {b"a", b"b", b"c"}

    for letter in (b"a", b"b", b"c"):
        producer.send(letter * (6 << 20))  # above the limit of one message
    wait_until(took, 60, what="all messages came")
    wait_until(lambda: set(roles(pool, topic).values()) == {""}, what="no broker splits it")
    for client in clients:
        client.close()


@pytest.mark.nightly
def test_one_broker_serves_a_local_subscription_with_acks_of_single_messages_of_a_batch(
    local_split_pool: Pool, pulsar_client: pulsar.Client, topic: str
) -> None:
    pool = local_split_pool
    clients = [quiet_client(broker.url) for broker in pool.brokers for _ in range(2)]
    consumers = [
        client.subscribe(topic, SUBSCRIPTION, SHARED, batch_index_ack_enabled=True, receiver_queue_size=20)
        for client in clients
    ]
    wait_split(pool, topic)
    publish(pulsar_client, topic, range(10), batching_enabled=True, batching_max_publish_delay_ms=1000)
    got: list[int] = []

    def took() -> bool:
        for consumer, message in receive_from(consumers):
            got.append(int(message.data()))
            if got[-1] == 0:
                consumer.acknowledge(message)
        return got.count(1) > 1 and got[-1] == 9 and set(roles(pool, topic).values()) == {""}

    wait_until(took, what="the whole batch came from one broker")
    assert got[-9:] == list(range(1, 10)), "the ack counts at the broker that serves it alone"
    assert got.count(0) == 1
    for client in clients:
        client.close()
