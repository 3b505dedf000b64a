"""Stock Python clients in threads: consumers that connect and disconnect, and the producers."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

import pulsar

from longtests.churn.history import Id, Kind

if TYPE_CHECKING:
    import random

    from longtests.churn.history import History
    from longtests.churn.plan import SubscriptionPlan

SEND_TIMEOUT_MS: Final = 180_000
KEYS: Final = 20
_RECEIVE_MS: Final = 200
_RETRY_S: Final = 0.5
_NACKED: Final = 0.02
_NACK_DELAY_MS: Final = 300
_RECEIVER_QUEUE: Final = 20
_BATCH_MS: Final = 500

TYPES: Final = {
    "Exclusive": pulsar.ConsumerType.Exclusive,
    "Failover": pulsar.ConsumerType.Failover,
    "Shared": pulsar.ConsumerType.Shared,
    "Key_Shared": pulsar.ConsumerType.KeyShared,
}


def place_of(message_id: pulsar.MessageId) -> Id:
    """Return the position of a message."""
    return Id(message_id.ledger_id(), message_id.entry_id(), message_id.batch_index())


class StockConsumer:
    """A consumer of the stock client in its own thread, until it is closed. It acks each message, or returns it.

    Args:
        history: receives its events.
        plan: its subscription.
        number: number of the consumer in its subscription.
        topic: the topic's name.
        client: the stock client.
        rng: decides its actions on messages.
        name: its name in the subscription; default: from its number.
    """

    def __init__(
        self,
        history: History,
        plan: SubscriptionPlan,
        number: int,
        topic: str,
        client: pulsar.Client,
        rng: random.Random,
        name: str = "",
    ) -> None:
        self._name = name or f"p{number}"
        self.plan = plan
        self.number = number
        self.steady = False
        self.open = False
        self._history = history
        self._topic = topic
        self._client = client
        self._rng = rng
        self._session = f"{plan.name} {self._name}"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def settle(self) -> None:
        """Return no more messages for redelivery."""
        self.steady = True

    def close(self) -> None:
        """Close the consumer, and block until this is done. One that is still subscribing closes by itself after that."""
        self._stop.set()
        if self.open:
            self._thread.join()

    def _run(self) -> None:
        consumer = self._subscribe()
        if consumer is None:
            return
        self._history.add(Kind.OPENED, self.plan.name, self._session, text="stock client")
        self.open = True
        while not self._stop.is_set():
            try:
                message = consumer.receive(_RECEIVE_MS)
            except pulsar.Timeout:
                continue
            except pulsar.PulsarException as error:
                self._history.add(Kind.NOTE, self.plan.name, self._session, text=f"receive: {error}")
                self._stop.wait(_RETRY_S)
                continue
            self._take(consumer, message)
        self.open = False
        self._history.add(Kind.ENDED, self.plan.name, self._session)
        try:
            consumer.close()
        except pulsar.PulsarException as error:
            self._history.add(Kind.NOTE, self.plan.name, self._session, text=f"close: {error}")

    def _subscribe(self) -> pulsar.Consumer | None:
        while not self._stop.is_set():
            try:
                return self._client.subscribe(
                    self._topic,
                    self.plan.name.rpartition("/")[2],
                    consumer_type=TYPES[self.plan.type],
                    consumer_name=self._name,
                    receiver_queue_size=_RECEIVER_QUEUE,
                    negative_ack_redelivery_delay_ms=_NACK_DELAY_MS,
                    initial_position=pulsar.InitialPosition.Earliest,
                )
            except pulsar.PulsarException as error:
                self._history.add(Kind.NOTE, self.plan.name, text=f"{self._name}: {error}")
                self._stop.wait(_RETRY_S)
        return None

    def _take(self, consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        place = [place_of(message.message_id())]
        self._history.add(Kind.DELIVERED, self.plan.name, self._session, place, text=f"{message.redelivery_count()}")
        if not self.steady and self._rng.random() < _NACKED:
            consumer.negative_acknowledge(message)
            self._history.add(Kind.NACKED, self.plan.name, self._session, place)
            return
        self._history.add(Kind.ACKING, self.plan.name, self._session, place)
        try:
            consumer.acknowledge(message)
        except pulsar.PulsarException as error:
            self._history.add(Kind.NOTE, self.plan.name, self._session, place, text=f"ack: {error}")


class Producers:
    """Publishes to a topic at a steady rate from a thread, with keys; one producer without batches, one in batches by key.

    Args:
        history: receives the receipts.
        clients: clients of the two producers.
        topic: the topic's name.
        rate: messages per second.
        rng: chooses keys and producers.
    """

    def __init__(
        self,
        history: History,
        clients: tuple[pulsar.Client, pulsar.Client],
        topic: str,
        rate: float,
        rng: random.Random,
    ) -> None:
        self.places: list[Id] = []
        self.failures: list[str] = []
        self._history = history
        self._topic = topic
        self._rate = rate
        self._rng = rng
        self._producers = [
            client.create_producer(
                topic,
                producer_name=f"{topic.rpartition('/')[2]}-{number}",
                block_if_queue_full=True,
                send_timeout_millis=SEND_TIMEOUT_MS,
                batching_enabled=bool(number),
                batching_type=pulsar.BatchingType.KeyBased,
                batching_max_publish_delay_ms=_BATCH_MS,
            )
            for number, client in enumerate(clients)
        ]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop publishing, and wait for all receipts."""
        self._stop.set()
        self._thread.join()
        for producer in self._producers:
            producer.flush()
            producer.close()

    def _run(self) -> None:
        begin, sent = time.monotonic(), 0
        while not self._stop.wait(max(0.0, begin + sent / self._rate - time.monotonic())):
            number = self._rng.randrange(len(self._producers))
            name = f"{number}-{sent}"
            key = f"key-{int(KEYS * self._rng.random() ** 3)}"  # frequent keys: batches of more than one message
            self._producers[number].send_async(name.encode(), self._receipt(name), partition_key=key)
            sent += 1

    def _receipt(self, name: str):
        def received(result: pulsar.Result, message_id: pulsar.MessageId) -> None:
            if result == pulsar.Result.Ok:
                place = place_of(message_id)
                self.places.append(place)
                self._history.add(Kind.PUBLISHED, "", "", [place], text=f"{self._topic.rpartition('/')[2]} {name}")
            else:
                self.failures.append(f"{name}: {result}")

        return received
