"""Split Key_Shared subscriptions: both brokers of a pool serve one, with stock clients and a real owner."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pulsar
import pytest

from tests.integration.subscriptions.test_split import SUBSCRIPTION, publish, roles, split_pool, urls, wait_split  # noqa: F401 - a fixture
from tests.support.pulsar.fleet import backlog, quiet_client
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from devstack.pool import BrokerProcess, Pool
    from devstack.pulsar.admin import PulsarAdmin

COUNT = 10_000
KEYS = 100
NEAR_S = 3.0
"""A message that was received earlier before a fault, and acked, does not come again."""


class Journal:
    """What all consumers received and acked, and each violation of the order of a key at its moment."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.received: set[int] = set()
        self.times: dict[str, list[float]] = defaultdict(list)  # by message id: a producer may publish twice in a move
        self.acked: set[int] = set()
        self.wrong: list[str] = []
        self._first_unacked = list(range(KEYS))  # by key: everything before it is acked

    def receive(self, number: int, message_id: str, worker: KeyWorker) -> None:
        """Note a message. Every earlier one of its key must be acked, or with the same consumer."""
        with self.lock:
            key = number % KEYS
            while self._first_unacked[key] in self.acked:
                self._first_unacked[key] += KEYS
            earlier = range(self._first_unacked[key], number, KEYS)
            open_ = [one for one in earlier if one not in self.acked and one not in worker.held]
            if open_:
                self.wrong.append(f"{number} came to {worker.name} before {open_[:5]} were acked")
            worker.held.add(number)
            self.received.add(number)
            self.times[message_id].append(time.monotonic())

    def ack(self, number: int, worker: KeyWorker) -> None:
        """Note an ack, before it is sent."""
        with self.lock:
            self.acked.add(number)
            worker.held.discard(number)

    @property
    def repeated(self) -> dict[str, float]:
        """The messages that came more than once, with the time at which each came first."""
        with self.lock:
            return {message_id: times[0] for message_id, times in self.times.items() if len(times) > 1}


class KeyWorker:
    """A Key_Shared consumer in a thread. It holds some messages, and acks them in any order of their keys."""

    def __init__(self, url: str, topic: str, name: str, journal: Journal, **options: Any) -> None:
        self.name, self.journal = name, journal
        self.held: set[int] = set()
        self._client = quiet_client(url)
        self._consumer = self._client.subscribe(
            topic,
            SUBSCRIPTION,
            pulsar.ConsumerType.KeyShared,
            consumer_name=name,
            initial_position=pulsar.InitialPosition.Earliest,
            receiver_queue_size=50,
            **options,
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        dice, waiting = random.Random(self.name), []
        while not self._stop.is_set():
            try:
                message = self._consumer.receive(50 if waiting else 200)
            except pulsar.Timeout:
                message = None
            except pulsar.PulsarException:
                return  # the test has ended
            if message is not None:
                self.journal.receive(int(message.data()), str(message.message_id()), self)
                waiting.append(message)
            while waiting and (message is None or len(waiting) > dice.randrange(8)):
                self._ack(waiting.pop(0))
        for one in waiting:
            self._ack(one)

    def _ack(self, message: pulsar.Message) -> None:
        self.journal.ack(int(message.data()), self)
        self._consumer.acknowledge(message)

    def close(self) -> None:
        """Ack everything, and close the client; do nothing the second time."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._thread.join()
        self._client.close()


class Publisher:
    """Publishes numbers in a thread, each with its key, at a pace."""

    def __init__(self, client: pulsar.Client, topic: str, per_second: float) -> None:
        self._producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
        self._pace = per_second
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        begun = time.monotonic()
        for number in range(COUNT):
            if (early := begun + number / self._pace - time.monotonic()) > 0.005:
                time.sleep(early)
            self._producer.send_async(b"%d" % number, lambda *_: None, partition_key=str(number % KEYS))
        self._producer.flush()

    def join(self) -> None:
        """Wait until all are stored."""
        self._thread.join()
        self._producer.close()


def subscription_state(broker: BrokerProcess, topic: str) -> dict[str, Any]:
    """The subscription on the status page of a broker."""
    (found,) = json.loads(broker.get(f"/status?{urlencode({'topic': topic})}"))["subscriptions"]
    return dict(found)


@pytest.fixture
def journal() -> Journal:
    """The journal of the workers."""
    return Journal()


@pytest.fixture
def work(split_pool: Pool, topic: str, journal: Journal) -> Iterator[Callable[..., KeyWorker]]:  # noqa: F811
    """Starts workers on a topic."""
    workers: list[KeyWorker] = []

    def start(**options: Any) -> KeyWorker:
        worker = KeyWorker(split_pool.url, topic, f"worker-{len(workers)}", journal, **options)
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        worker.close()


@pytest.mark.parametrize("order", [True, False], ids=["in order", "in any order"])
def test_each_key_comes_once_and_in_order_while_consumers_come_and_go(
    split_pool: Pool,  # noqa: F811
    pulsar_client: pulsar.Client,
    admin: PulsarAdmin,
    topic: str,
    work: Callable[..., KeyWorker],
    journal: Journal,
    order: bool,
) -> None:
    auto = pulsar.KeySharedMode.AutoSplit
    policy = pulsar.ConsumerKeySharedPolicy(auto, allow_out_of_order_delivery=not order)
    workers = [work(key_shared_policy=policy) for _ in range(4)]
    coordinator, member = wait_split(split_pool, topic)
    shown = [subscription_state(broker, topic) for broker in (coordinator, member)]
    assert [(one["kind"], one["split"], one["coordinator"], one["members"]) for one in shown] == [
        ("Key_Shared", "coordinating", "", 1),
        ("Key_Shared", "following", coordinator.url, 0),
    ]
    publisher = Publisher(pulsar_client, topic, per_second=1200)
    while len(journal.received) < COUNT * 0.8:
        done = len(journal.received)
        workers.pop(0).close()
        workers.append(work(key_shared_policy=policy))
        wait_until(lambda done=done: len(journal.received) >= done + 500, 30, what="500 more came")
    publisher.join()
    wait_until(lambda: len(journal.received) == COUNT, 60, what="all messages came")
    wait_until(lambda: backlog(admin, topic, SUBSCRIPTION) == 0, what="all messages are acked")
    assert journal.wrong == [] or not order
    assert journal.repeated == {}
    shares = [broker.dispatched(topic) for broker in split_pool.brokers]
    assert min(shares) > COUNT / 10, shares


def sticky(first: int, last: int) -> dict[str, Any]:
    """The options of a consumer with a range of hashes."""
    policy = pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky, sticky_ranges=[(first, last)])
    return {"key_shared_policy": policy}


def test_ranges_of_hashes_are_served_by_both_brokers_and_a_conflict_is_refused_as_at_the_owner(
    split_pool: Pool,  # noqa: F811
    pulsar_client: pulsar.Client,
    admin: PulsarAdmin,
    topic: str,
    work: Callable[..., KeyWorker],
    journal: Journal,
) -> None:
    quarters = [(first, first + (1 << 14) - 1) for first in range(0, 1 << 16, 1 << 14)]
    workers = {quarter: work(**sticky(*quarter)) for quarter in quarters}
    wait_split(split_pool, topic)
    refusals = []
    for client in (pulsar_client, *map(quiet_client, urls(split_pool))):
        for options in (sticky(16_000, 17_000), {}):
            with pytest.raises(pulsar.PulsarException) as refused:
                client.subscribe(topic, SUBSCRIPTION, pulsar.ConsumerType.KeyShared, **options)
            refusals.append((bool(options), type(refused.value)))
    assert refusals == refusals[:2] * 3
    publisher = Publisher(pulsar_client, topic, per_second=1200)
    for quarter in quarters:
        done = len(journal.received)
        workers[quarter].close()
        workers[quarter] = work(**sticky(*quarter))
        wait_until(lambda done=done: len(journal.received) >= done + 500, 30, what="500 more came")
    publisher.join()
    wait_until(lambda: len(journal.received) == COUNT, 60, what="all messages came")
    wait_until(lambda: backlog(admin, topic, SUBSCRIPTION) == 0, what="all messages are acked")
    assert journal.wrong == []
    assert journal.repeated == {}
    shares = [broker.dispatched(topic) for broker in split_pool.brokers]
    assert min(shares) > COUNT / 10, shares


@pytest.mark.parametrize("fault", ["the coordinator dies", "a member dies", "a member stands still", "unload"])
@pytest.mark.nightly
def test_keys_stay_in_order_and_nothing_is_lost_in_faults(
    split_pool: Pool,  # noqa: F811
    pulsar_client: pulsar.Client,
    admin: PulsarAdmin,
    topic: str,
    work: Callable[..., KeyWorker],
    journal: Journal,
    fault: str,
) -> None:
    for _ in range(4):
        work()
    coordinator, member = wait_split(split_pool, topic)
    publisher = Publisher(pulsar_client, topic, per_second=1200)
    wait_until(lambda: len(journal.received) > COUNT * 0.4, 60, what="some messages came")
    at = time.monotonic()
    if fault == "the coordinator dies":
        coordinator.kill()
    elif fault == "a member dies":
        member.kill()
    elif fault == "unload":
        admin.unload(topic)
    else:
        member.process.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: len(journal.received) == COUNT, 60, what="all messages came")
    finally:
        if fault == "a member stands still":
            member.process.send_signal(signal.SIGCONT)
    publisher.join()
    wait_until(lambda: backlog(admin, topic, SUBSCRIPTION) == 0, what="all messages are acked")
    assert journal.wrong == []
    repeated = journal.repeated
    assert [message_id for message_id, first in repeated.items() if first < at - NEAR_S] == []
    if fault == "unload":
        assert repeated == {}
        assert wait_split(split_pool, topic) == (coordinator, member)
    assert len(repeated) < COUNT / 4
