"""Stock clients of the walk; runs in a pod, with nothing but the Python client of Apache Pulsar.

    clients_program.py publish URL TOPIC RATE
    clients_program.py consume URL TOPIC PLAN

`publish` sends the numbers from 0 on, RATE a second, until SIGTERM, and waits for all receipts. `consume` has the
consumers of PLAN until SIGTERM; PLAN is JSON, {subscription: [type, number of consumers]}. Both print lines of JSON:

    {"ready": true}                                  once
    {"sent": count, "failed": count, "ended": true}  each second, and with "ended" at the end
    {"subscription": name, "number": number}         for each message, before its ack
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from typing import Any

KEYS = 10
RECEIVE_MS = 200
TRIES_S = 60.0
TELL_S = 1.0

ended = threading.Event()
_lock = threading.Lock()


def line(**fields: Any) -> None:
    """Print a line; whole, whoever else prints."""
    with _lock:
        sys.stdout.write(f"{json.dumps(fields)}\n")
        sys.stdout.flush()


def publish(pulsar: Any, url: str, topic: str, rate: str) -> None:
    """Publish numbers at a steady pace."""
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    producer = client.create_producer(topic, block_if_queue_full=True, send_timeout_millis=0)
    failed: list[str] = []

    def receipt(result: Any, _message_id: Any) -> None:
        if result != pulsar.Result.Ok:
            failed.append(str(result))

    line(ready=True)
    began = told = time.monotonic()
    count = 0
    while not ended.wait(max(0.0, began + count / float(rate) - time.monotonic())):
        producer.send_async(b"%d" % count, receipt, partition_key=f"key-{count % KEYS}")
        count += 1
        if time.monotonic() - told > TELL_S:
            told = time.monotonic()
            line(sent=count, failed=len(failed))
    producer.flush()
    client.close()
    line(sent=count, failed=len(failed), ended=True)


class Consumer(threading.Thread):
    """A consumer on a client of its own."""

    def __init__(self, pulsar: Any, url: str, topic: str, subscription: str, kind: str) -> None:
        super().__init__()
        self._timeout = pulsar.Timeout
        self._subscription = subscription
        self._client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        deadline = time.monotonic() + TRIES_S
        while True:
            try:
                self._consumer = self._client.subscribe(
                    topic, subscription, consumer_type=getattr(pulsar.ConsumerType, kind), receiver_queue_size=50
                )
                break
            except pulsar.PulsarException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)  # a consumer that was closed a moment ago may still hold an Exclusive subscription

    def run(self) -> None:
        """Receive until the end."""
        while not ended.is_set():
            try:
                message = self._consumer.receive(RECEIVE_MS)
            except self._timeout:
                continue
            if message.data().isdigit():
                line(subscription=self._subscription, number=int(message.data()))
            self._consumer.acknowledge(message)
        self._client.close()


def consume(pulsar: Any, url: str, topic: str, plan: str) -> None:
    """Run all consumers of a plan."""
    consumers = [
        Consumer(pulsar, url, topic, subscription, kind)
        for subscription, (kind, count) in json.loads(plan).items()
        for _ in range(count)
    ]
    line(ready=True)
    for consumer in consumers:
        consumer.start()
    while not ended.wait(1.0):
        pass
    for consumer in consumers:
        consumer.join()


def main(argv: list[str]) -> None:
    """Run one of both."""
    import pulsar  # noqa: PLC0415 - installed in the pod

    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    {"publish": publish, "consume": consume}[argv[0]](pulsar, *argv[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
