"""What tests of pools share: feeds and sinks, and what a broker says of its consumers."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pulsar

from devstack.pool import BrokerProcess
from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.cluster import PulsarCluster
from longtests.chaos.net import Network

SHARED = pulsar.ConsumerType.Shared
TESTS = "persistent://public/default/test-.*"


def quiet_client(url: str, **options: Any) -> pulsar.Client:
    """A client that logs errors only."""
    return pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error), **options)


@contextmanager
def running_in(network: Network, stack: PulsarCluster, pool: Mapping[str, BrokerProcess]) -> Iterator[None]:
    """Make a network and start a cluster in it; at the end kill the brokers of the pool, and remove all."""
    try:
        network.make()
        network.inside(lambda: stack.up(renew=True))
        yield
    finally:
        for broker in pool.values():
            if broker.process.poll() is None:
                broker.kill()
        stack.down(purge=True)
        network.remove()


def backlog(admin: PulsarAdmin, topic: str, subscription: str) -> int:
    """The owner's backlog of a subscription."""
    return int(admin.stats(topic)["subscriptions"][subscription]["msgBacklog"])


def consumers_at(broker: BrokerProcess, topic: str) -> int:
    """How many consumers of a topic a broker has, be they served there or brought to another one."""
    stats = broker.stats()["topics"].get(topic)
    return 0 if stats is None else sum(len(one["consumers"]) for one in stats["subscriptions"].values())


def claims_of(broker: BrokerProcess, topic: str) -> list[str]:
    """The subscriptions of a topic that a broker has claimed."""
    return [claim["subscription"] for claim in broker.stats()["claims"] if claim["topic"] == topic]


class Feed:
    """Publishes numbers until it is stopped."""

    def __init__(self, client: pulsar.Client, topic: str, pause: float = 0.002, **options: Any) -> None:
        self.sent = 0
        self._producer = client.create_producer(topic, batching_enabled=False, **options)
        self._pause = pause
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._pause):
            self._producer.send(b"%d" % self.sent)
            self.sent += 1

    def stop(self) -> int:
        """Publish no more; returns how many there are."""
        self._stop.set()
        self._thread.join()
        return self.sent


class Sink:
    """Receives and acks until it is stopped."""

    def __init__(self, consumer: pulsar.Consumer) -> None:
        self.got: list[int] = []
        self._consumer = consumer
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                message = self._consumer.receive(200)
                self.got.append(int(message.data()))
                self._consumer.acknowledge(message)
            except pulsar.Timeout:
                continue
            except pulsar.AlreadyClosed:
                return  # by the test, or after a failure elsewhere in it

    def stop(self) -> list[int]:
        """Receive no more; returns what came."""
        self._stop.set()
        self._thread.join()
        return self.got
