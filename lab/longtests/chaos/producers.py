"""The producers: stock clients that publish through the pool at a steady rate, one of each kind per topic."""

from __future__ import annotations

import random
import threading
import time
import uuid
from typing import TYPE_CHECKING, Final

import pulsar

from devstack.pulsar.cluster import PulsarCluster
from longtests.chaos.stack import SPEC
from longtests.churn.history import Kind
from longtests.churn.stock import place_of
from tests.support.pulsar.java_client import JavaClient, JavaClientError

if TYPE_CHECKING:
    from longtests.chaos.workload import Topic
    from longtests.churn.history import History

SEND_TIMEOUT_MS: Final = 600_000
KEYS: Final = 12
MAX_PENDING: Final = 400
_RETRY_S: Final = 0.5
_BATCH_MS: Final = 200
_TRANSACTION_S: Final = 30
_ABORTED: Final = 0.25


def content(name: str) -> str:
    """Return a message's content: its name, and the time of its send in seconds of the monotonic clock."""
    return f"{name}@{time.monotonic():.3f}"


def parse(text: str) -> tuple[str, float]:
    """Return the name and time of a message.

    Raises:
        ValueError: the message is not from this test.
    """
    name, _, sent = text.rpartition("@")
    return name, float(sent)


def key_of(rng: random.Random) -> str:
    """Return a random key. Some keys are frequent, so that batches by key have more than one message."""
    return f"key-{int(KEYS * rng.random() ** 2)}"


class Publisher:
    """One producer in a thread, with retries of its creation.

    Args:
        history: receives sends and receipts.
        client: the stock client.
        topic: the topic.
        number: 0 publishes without batches, 1 in batches by key.
        rate: messages per second.
    """

    def __init__(self, history: History, client: pulsar.Client, topic: Topic, number: int, rate: float) -> None:
        self._history = history
        self._client = client
        self._topic = topic
        self._number = number
        self._rate = rate
        self._rng = random.Random(f"{topic.short} {number}")
        self._run_name = uuid.uuid4().hex[:6]
        self._stop = threading.Event()
        self._pending = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop publishing."""
        self._stop.set()

    def join(self, seconds: float) -> bool:
        """Wait for all receipts; return whether they arrived."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _note(self, text: str) -> None:
        self._history.add(Kind.NOTE, text=f"producer {self._topic.short} {self._number}: {text}")

    def _create(self) -> pulsar.Producer | None:
        while not self._stop.is_set():
            try:
                return self._client.create_producer(
                    self._topic.full,
                    # Deduplication goes by this name, which survives a restart of the process.
                    producer_name=f"{self._topic.short}-{self._number}",
                    block_if_queue_full=True,
                    max_pending_messages=MAX_PENDING,
                    send_timeout_millis=SEND_TIMEOUT_MS,
                    batching_enabled=bool(self._number),
                    batching_type=pulsar.BatchingType.KeyBased,
                    batching_max_publish_delay_ms=_BATCH_MS,
                )
            except pulsar.PulsarException as error:
                self._note(f"create: {error}")
                self._stop.wait(_RETRY_S)
        return None

    def _run(self) -> None:
        producer = self._create()
        sent = 0
        begin = time.monotonic()
        while producer is not None and not self._stop.wait(max(0.0, begin + sent / self._rate - time.monotonic())):
            sent += 1
            if time.monotonic() - begin > sent / self._rate + 1:
                begin = time.monotonic() - sent / self._rate  # after a delay, do not send faster to catch up
            if self._pending >= MAX_PENDING // 2:
                continue
            name = f"{self._topic.short}-{self._number}-{self._run_name}-{sent}"
            with self._lock:
                self._pending += 1
            try:
                producer.send_async(content(name).encode(), self._receipt(name), partition_key=key_of(self._rng))
            except pulsar.PulsarException as error:
                self._note(f"{name}: {error}")
        if producer is not None:
            try:
                producer.flush()
                producer.close()
            except pulsar.PulsarException as error:
                self._note(f"flush: {error}")

    def _receipt(self, name: str):
        def received(result: pulsar.Result, message_id: pulsar.MessageId) -> None:
            with self._lock:
                self._pending -= 1
            if result == pulsar.Result.Ok:
                self._history.add(Kind.PUBLISHED, "", "", [place_of(message_id)], text=f"{self._topic.short} {name}")
            else:
                self._note(f"{name}: {result}")

        return received


class Transactions:
    """Sequential transactions of the stock Java client: some messages each, most committed, some aborted.

    If the client fails a step, the transaction's end is unknown, and another one starts.

    Args:
        history: receives the ends of transactions.
        service: the pool's URL.
        topic: the topic.
        rate: messages per second.
    """

    def __init__(self, history: History, service: str, topic: Topic, rate: float) -> None:
        self._history = history
        self._service = service
        self._topic = topic
        self._rate = rate
        self._rng = random.Random(topic.short)
        self._run_name = uuid.uuid4().hex[:6]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Start no more transactions."""
        self._stop.set()

    def join(self, seconds: float) -> bool:
        """Wait for the end of the last transaction; return whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        with JavaClient(PulsarCluster(SPEC), self._service) as java:
            self._continue_producing(java)

    def _continue_producing(self, java: JavaClient) -> None:
        number = 0
        while not self._stop.wait(1 / self._rate):
            number += 1
            try:
                self._one(java, number)
            except (JavaClientError, OSError) as error:
                self._history.add(Kind.NOTE, text=f"transaction {number}: {error}"[:300])
                if isinstance(error, OSError):
                    return

    def _one(self, java: JavaClient, number: int) -> None:
        if self._rng.random() < 0.3:
            self._send(java, f"{number}-0", "-")
            return
        numbers = [f"{number}-{index}" for index in range(self._rng.randint(1, 4))]
        kind = Kind.UNCOMMITTED
        try:
            java.do("begin", "t", _TRANSACTION_S)
            for one in numbers:
                self._send(java, one, "t")
            if self._rng.random() < _ABORTED:
                java.do("abort", "t")
            else:
                java.do("commit", "t")
                kind = Kind.PUBLISHED
        finally:
            for one in numbers:
                self._history.add(kind, text=f"{self._topic.short} {self._name(one)}")

    def _name(self, number: str) -> str:
        return f"{self._topic.short}-t-{self._run_name}-{number}"

    def _send(self, java: JavaClient, number: str, transaction: str) -> None:
        name = self._name(number)
        java.do("send", self._topic.full, transaction, content(name), key_of(self._rng))
        if transaction == "-":
            self._history.add(Kind.PUBLISHED, text=f"{self._topic.short} {name}")
