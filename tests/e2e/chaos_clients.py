"""Stock clients that run in a pod while something is away: one producer, and consumers at the pool and at the topic's owner.

    python chaos_clients.py WRITER_URL TOPIC NAME=SERVICE_URL...

It ends when the file /tmp/stop is there and every consumer has everything, and prints one line of JSON: when each message was
published (its number is its place in the list), and which numbers each consumer got when. Times are seconds since the epoch.
"""

import json
import pathlib
import sys
import threading
import time
from typing import Any

import pulsar

PER_SECOND = 20
RECEIVE_MS = 500
PATIENCE_SECONDS = 120.0
STOP = pathlib.Path("/tmp/stop")
QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Producer(threading.Thread):
    """Publishes the numbers from 0 on, each once; what has no receipt in time is published again."""

    def __init__(self, url: str, topic: str) -> None:
        super().__init__()
        self._client = pulsar.Client(url, logger=QUIET)
        self._producer = self._client.create_producer(topic, send_timeout_millis=0, batching_enabled=False)
        self.sent: list[float] = []

    def run(self) -> None:
        pause = threading.Event()
        while not STOP.exists():
            self.sent.append(time.time())
            self._producer.send_async(b"%d" % (len(self.sent) - 1), lambda *_: None)
            pause.wait(1 / PER_SECOND)
        self._producer.flush()
        self._client.close()


class Consumer(threading.Thread):
    """Reads and acks a subscription of its own, from the start."""

    def __init__(self, name: str, url: str, topic: str, producer: Producer) -> None:
        super().__init__()
        self._client = pulsar.Client(url, logger=QUIET)
        self._consumer = self._client.subscribe(topic, name, initial_position=pulsar.InitialPosition.Earliest)
        self._producer = producer
        self.got: list[tuple[int, float]] = []

    def run(self) -> None:
        deadline = None
        while deadline is None or time.monotonic() < deadline:
            if deadline is None and not self._producer.is_alive():
                deadline = time.monotonic() + PATIENCE_SECONDS
            try:
                message = self._consumer.receive(RECEIVE_MS)
            except pulsar.Timeout:
                if deadline and len({number for number, _ in self.got}) == len(self._producer.sent):
                    break
                continue
            self.got.append((int(message.data()), time.time()))
            self._consumer.acknowledge(message)
        self._client.close()


def main(writer: str, topic: str, *consumers: str) -> dict[str, Any]:
    producer = Producer(writer, topic)
    readers = {}
    for one in consumers:
        name, _, url = one.partition("=")
        readers[name] = Consumer(name, url, topic, producer)
    for thread in (producer, *readers.values()):
        thread.start()
    say("messages flow")
    for thread in (producer, *readers.values()):
        thread.join()
    return {"sent": producer.sent, "got": {name: reader.got for name, reader in readers.items()}}


if __name__ == "__main__":
    say(json.dumps(main(*sys.argv[1:])))
