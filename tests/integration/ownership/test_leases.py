"""Brokers that believe in what they have lost: ZooKeeper goes silent for one of two, and keeps its connections open."""

import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pulsar as pulsar_lib
import pytest
from readonly_engine.metadata.lease import LEASE_SHARE, SESSION_TIMEOUT_S
from readonly_engine.metadata.url import MetadataUrl
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandSubscribe

from devstack.pool import BrokerProcess
from devstack.pulsar.status import Endpoints
from tests.integration.conftest import zookeeper_only
from tests.integration.ownership.watcher import Watcher, closing
from tests.support.pulsar.fleet import TESTS, Feed, claims_of
from tests.support.pulsar.raw_client import RawClient
from tests.support.pulsar.silent_proxy import SilentProxy
from tests.support.waiting import wait_until

FEED_S = 0.4
"""Slow enough for one ledger: without ZooKeeper the next one is not found, and nothing could be delivered anyway."""

OPEN_EVERY_S = 0.5
"""Something is always asked of ZooKeeper: kazoo pings only when nothing is."""


class Opener:
    """Has a broker open one topic after the other, which asks ZooKeeper each time."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._client = RawClient(broker.url)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(OPEN_EVERY_S):
            number += 1
            subscribe = CommandSubscribe(
                topic=f"persistent://public/default/test-open-{uuid.uuid4().hex[:12]}",
                subscription="s",
                sub_type=CommandSubscribe.Exclusive,
                consumer_id=number,
                request_id=number,
                durable=False,
            )
            self._client.send(BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=subscribe))


class Split:
    """A pool of two brokers, of which the first reaches ZooKeeper through a relay."""

    def __init__(self, pulsar: Endpoints, folder: Path) -> None:
        self.relay = SilentProxy(MetadataUrl.parse(pulsar.pool_store).hosts)
        through = replace(pulsar, pool_store=f"zk:127.0.0.1:{self.relay.port}")
        options = ["--pool", uuid.uuid4().hex, "--topics", TESTS]
        self.brokers: list[BrokerProcess] = []
        try:
            for index, endpoints in enumerate((through, pulsar)):
                self.brokers.append(BrokerProcess(endpoints, folder / f"broker-{index}.log", options))
            for broker in self.brokers:
                broker.wait_ready()
            wait_until(lambda: all(len(broker.stats()["brokers"]) == 2 for broker in self.brokers))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for broker in self.brokers:
            broker.kill()
        self.relay.close()


# A proxy stands before the store, and Oxia's client goes past it to the leaders of shards.
pytestmark = [pytest.mark.nightly, pytest.mark.second_stack, zookeeper_only]


@pytest.fixture
def split(pulsar: Endpoints, tmp_path: Path) -> Iterator[Split]:
    made = Split(pulsar, tmp_path)
    yield made
    made.close()


def alone(broker: BrokerProcess) -> bool:
    """Whether a broker sees no other in its pool: the other's session has ended."""
    return len(broker.stats()["brokers"]) == 1


@pytest.mark.parametrize("kind", [CommandSubscribe.Shared, CommandSubscribe.Key_Shared], ids=["Shared", "Key_Shared"])
def test_a_broker_for_which_zookeeper_is_silent_delivers_nothing_once_another_may_have_its_claim(
    split: Split, pulsar_client: pulsar_lib.Client, topic: str, kind: int
) -> None:
    cut, whole = split.brokers
    feed = Feed(pulsar_client, topic, pause=FEED_S)
    try:
        first = Watcher(cut.url, topic, acks=False, sub_type=kind)
        opener = Opener(cut)
        with closing(first, opener):
            assert claims_of(cut, topic)
            wait_until(lambda: len(first.came) > 2)
            split.relay.silence()
            silent = time.monotonic()
            wait_until(lambda: alone(whole), 60, "the session of the broker that is cut off has ended")
            second = Watcher(whole.url, topic, acks=False, sub_type=kind)
            with closing(second):
                wait_until(lambda: len(second.came) > 2)
                assert first.last < silent + SESSION_TIMEOUT_S * LEASE_SHARE + 1
                assert first.last < second.subscribed_at
                split.relay.heal()
                wait_until(lambda: first.closed_at is not None, 60, "the consumer is sent where the claim is")
                assert first.last < second.subscribed_at
                assert not claims_of(cut, topic)
                assert claims_of(whole, topic)
    finally:
        feed.stop()
