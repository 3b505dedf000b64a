"""Rates that swing over the bound of pushes, while topics are unloaded, owners die and transactions end: each message once."""

import random
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pulsar
import pytest

from devstack.pool import Pool
from devstack.pulsar.cluster import PulsarCluster
from tests.support.pulsar.fleet import quiet_client
from tests.support.pulsar.java_client import JavaClient, JavaClientError
from tests.support.pulsar.stacks import broker_settings, fresh_stack, kept_ledgers
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.second_stack]

RATES: Final = (0, 5, 100, 400, 5_000)
"""Messages per second; the owner pushes up to 1,500 for long, and 3,000 at once."""

PHASES: Final = 8
LONG_PHASES: Final = 80
PHASE_S: Final = (2.0, 5.0)
TICK_S: Final = 0.02
READERS: Final = 2
SESSION_TIMEOUT_MS: Final = 6_000
Id = tuple[int, int, int]


@pytest.fixture(scope="module")
def stack() -> Iterator[PulsarCluster]:
    """A stack of its own, with transactions, whose brokers are killed."""
    timeout = broker_settings(metadataStoreSessionTimeoutMillis=SESSION_TIMEOUT_MS)
    settings = (*timeout, *kept_ledgers(500))
    with fresh_stack("pushed-rates", 30750, bookies=2, brokers=2, transactions=True, settings=settings) as stack:
        yield stack


class Publisher:
    """Publishes numbers at a rate that may change; a message without a receipt is in the topic or not."""

    def __init__(self, url: str, topic: str) -> None:
        self.rate = 0
        self._client = quiet_client(url, operation_timeout_seconds=90)
        self._producer = self._client.create_producer(
            topic, block_if_queue_full=True, batching_max_publish_delay_ms=5, send_timeout_millis=0
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number, owed = 0, 0.0
        while not self._stop.wait(TICK_S):
            owed = owed + self.rate * TICK_S if self.rate else 0.0
            for _ in range(int(owed)):
                self._producer.send_async(b"%d" % number, None)
                number += 1
            owed -= int(owed)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush()
        self._client.close()


class Listener:
    """Reads a topic from its beginning."""

    def __init__(self, url: str, topic: str) -> None:
        self.got: list[tuple[Id, bytes]] = []
        self._client = quiet_client(url)
        self._reader = self._client.create_reader(topic, pulsar.MessageId.earliest)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                message = self._reader.read_next(200)
            except pulsar.Timeout:
                continue
            where = message.message_id()
            self.got.append(((where.ledger_id(), where.entry_id(), where.batch_index()), message.data()))

    def wait(self, count: int, what: str) -> None:
        wait_until(lambda: len(self.got) >= count, 90, what=what)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()


def stored(url: str, topic: str) -> list[tuple[Id, bytes]]:
    """What a stock reader gets at the owner."""
    client, found = quiet_client(url), []
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    while reader.has_message_available():
        message = reader.read_next(30_000)
        where = message.message_id()
        found.append(((where.ledger_id(), where.entry_id(), where.batch_index()), message.data()))
    client.close()
    return found


def transact(java: JavaClient, topic: str, rng: random.Random, number: int) -> None:
    """Publish in a transaction, which is committed or aborted."""
    try:
        java.do("begin", "a", 60)
        for part in range(rng.randint(1, 5)):
            java.do("send", topic, "a", f"{number}-{part}")
        java.do(rng.choice(("commit", "abort")), "a")
    except JavaClientError:
        pass  # the owner has died; the transaction times out


@pytest.mark.parametrize("phases", [PHASES, pytest.param(LONG_PHASES, marks=pytest.mark.slow)])
def test_readers_get_what_the_log_holds_once_whoever_brings_it(
    stack: PulsarCluster, tmp_path: Path, phases: int
) -> None:
    seed = random.SystemRandom().randrange(1 << 31)
    rng = random.Random(seed)
    topic = f"persistent://public/default/swing-{uuid.uuid4().hex[:8]}"
    admin, url = stack.admin(), stack.endpoints.writer_url
    admin.create_topic(topic)
    pool = Pool(stack.endpoints, tmp_path, uuid.uuid4().hex, ["--topics", topic, "--tail", "auto"])
    disturbances = ["kill", "unload", "unload", "", "", "", "", ""] * (phases // PHASES)
    rng.shuffle(disturbances)
    try:
        broker = pool.start(1)[0]
        listeners = [Listener(broker.url, topic) for _ in range(READERS)]
        publisher = Publisher(url, topic)
        with JavaClient(stack, url) as java:
            for number, disturbance in enumerate(disturbances):
                publisher.rate = rng.choice(RATES)
                transact(java, topic, rng, number)
                if disturbance == "unload":
                    admin.unload(topic)
                elif disturbance == "kill":
                    owner = stack.endpoints.brokers.index(admin.lookup(topic))
                    stack.kill_broker(owner)
                    stack.start_broker(owner)
                time.sleep(rng.uniform(*PHASE_S))  # the phase itself, not a wait for something
            publisher.rate = 0
        publisher.close()
        changes = broker.stats()["topics"][topic]["tail"]["changes"]
        wait_until(lambda: no_open_transaction(stack, topic), 90)
        expected = stored(url, topic)
        for listener in listeners:
            listener.wait(len(expected), f"all messages, seed {seed}")
            listener.close()
            assert listener.got == expected, f"seed {seed}"
    finally:
        pool.close()
    assert expected, f"seed {seed}"
    assert changes >= 1, f"seed {seed}"


def no_open_transaction(stack: PulsarCluster, topic: str) -> bool:
    return int(stack.admin().transaction_buffer_stats(topic)["ongoingTxnSize"]) == 0
