"""A subscription that goes from one broker to another while acks are on their way to its owner."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from readonly_engine.broker.consumer import SETTLE_S
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

from devstack.pool import BrokerProcess
from tests.integration.apart import Apart
from tests.integration.fleet import TESTS, claims_of, consumers_at, wait_for
from tests.integration.raw_client import RawClient
from tests.integration.watcher import Watcher, closing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pulsar as pulsar_lib

    from devstack.pulsar.admin import PulsarAdmin
    from devstack.pulsar.status import Endpoints
    from tests.integration.silent_proxy import SilentProxy

MESSAGES = 10


class Pair:
    """Two brokers of one pool, of which the first reaches owners through relays."""

    def __init__(self, pulsar: Endpoints, folder: Path) -> None:
        self.apart = Apart(pulsar, folder, folder.name)
        self.first = self.apart.broker
        self.second = BrokerProcess(pulsar, folder / "second.log", ["--pool", folder.name, "--topics", TESTS])
        try:
            self.second.wait_ready()
            wait_for(lambda: all(len(one.stats()["brokers"]) == 2 for one in (self.first, self.second)))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.second.kill()
        self.apart.close()


@pytest.fixture
def pair(pulsar: Endpoints, tmp_path: Path) -> Iterator[Pair]:
    made = Pair(pulsar, tmp_path)
    yield made
    made.close()


def leave_with_acks_under_way(
    pair: Pair, pulsar: Endpoints, client: pulsar_lib.Client, topic: str
) -> tuple[SilentProxy, Watcher]:
    """Have a consumer ack everything and leave, while its broker's words do not reach the owner."""
    producer = client.create_producer(topic, batching_enabled=False)
    watcher = Watcher(pair.first, topic, acks=True, sub_type=CommandSubscribe.Shared)
    with closing(watcher), RawClient(pulsar.writer_url) as owner:
        assert claims_of(pair.first, topic)
        relay = pair.apart.relays[owner.lookup(topic)]
        relay.silence(back=False)
        for number in range(MESSAGES):
            producer.send(b"%d" % number)
        wait_for(lambda: len(watcher.came) == MESSAGES)
    wait_for(lambda: not consumers_at(pair.first, topic))
    return relay, watcher


def test_what_was_acked_right_before_the_last_consumer_left_does_not_come_again_elsewhere(
    pair: Pair, pulsar: Endpoints, pulsar_client: pulsar_lib.Client, admin: PulsarAdmin, topic: str
) -> None:
    relay, before = leave_with_acks_under_way(pair, pulsar, pulsar_client, topic)
    after: list[Watcher] = []

    def subscribe() -> None:
        after.append(Watcher(pair.second, topic, acks=True, sub_type=CommandSubscribe.Shared))

    coming = threading.Thread(target=subscribe)
    coming.start()
    coming.join(SETTLE_S / 2)  # it would be served by now, were the claim free
    relay.heal()
    coming.join(60)
    with closing(*after):
        pulsar_client.create_producer(topic).send(b"the end")
        wait_for(lambda: bool(after[0].came))
        wait_for(lambda: admin.stats(topic)["subscriptions"]["s"]["msgBacklog"] == 0)
        assert not set(after[0].entries) & set(before.entries)
        assert len(after[0].came) == 1


def test_an_owner_that_does_not_answer_is_waited_for_some_seconds(
    pair: Pair, pulsar: Endpoints, pulsar_client: pulsar_lib.Client, topic: str
) -> None:
    relay, _ = leave_with_acks_under_way(pair, pulsar, pulsar_client, topic)
    left = time.monotonic()
    wait_for(lambda: not claims_of(pair.first, topic), SETTLE_S + 5)
    assert time.monotonic() - left > SETTLE_S - 2
    relay.heal()


def test_an_owner_whose_connection_has_broken_is_not_waited_for(
    pair: Pair, pulsar: Endpoints, pulsar_client: pulsar_lib.Client, topic: str
) -> None:
    relay, _ = leave_with_acks_under_way(pair, pulsar, pulsar_client, topic)
    assert claims_of(pair.first, topic)
    relay.die()
    wait_for(lambda: not claims_of(pair.first, topic), SETTLE_S / 2)
    relay.revive()
