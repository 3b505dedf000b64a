"""Owners that go silent for a read-only broker, and may give its subscriptions to others meanwhile."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pulsar as pulsar_lib
import pytest
from readonly_engine.owner.lease import OWNER_LEASE_S
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.status import Endpoints
from tests.integration.ownership.watcher import Watcher, closing
from tests.support.pulsar.apart import Apart
from tests.support.pulsar.fleet import Feed
from tests.support.pulsar.raw_client import RawClient, RefusedError
from tests.support.waiting import wait_until

pytestmark = pytest.mark.second_stack

FEED_S = 0.25
"""Slow enough for one ledger in most tests."""

LATE_S = 1.0
"""What was sent before the lease ended may come so much later, on a busy machine."""


@contextmanager
def fed(client: pulsar_lib.Client, topic: str) -> Iterator[Feed]:
    feed = Feed(client, topic, pause=FEED_S)
    try:
        yield feed
    finally:
        feed.stop()


def owner_of(pulsar: Endpoints, topic: str) -> str:
    with RawClient(pulsar.writer_url) as client:
        return client.lookup(topic)


def subscribe_in_the_end(url: str, topic: str) -> Watcher:
    """An Exclusive consumer straight at the owner, who lets it in once the one before is silent."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return Watcher(url, topic, acks=False)
        except RefusedError:
            assert time.monotonic() < deadline, "the owner keeps the consumer that says nothing"


@pytest.mark.nightly
@pytest.mark.parametrize(("there", "back"), [(True, True), (True, False)], ids=["both ways", "only towards the owner"])
def test_an_exclusive_consumer_gets_nothing_once_the_owner_may_have_let_in_another(
    pulsar: Endpoints, apart: Apart, pulsar_client: pulsar_lib.Client, topic: str, *, there: bool, back: bool
) -> None:
    with fed(pulsar_client, topic):
        first = Watcher(apart.broker.url, topic, acks=True)
        with closing(first):
            wait_until(lambda: len(first.came) > 5)
            owner = owner_of(pulsar, topic)
            apart.relays[owner].silence(there=there, back=back)
            silent = time.monotonic()
            second = subscribe_in_the_end(owner, topic)
            with closing(second):
                wait_until(lambda: second.last > second.subscribed_at + 3)
                assert first.last < min(silent + OWNER_LEASE_S + LATE_S, second.subscribed_at)
                mark = len(first.came)
                apart.relays[owner].heal()
                wait_until(lambda: first.closed_at is not None, 60, "the first consumer is told")
                assert len(first.came) == mark


@pytest.mark.parametrize(
    "kind",
    [
        CommandSubscribe.Exclusive,
        pytest.param(CommandSubscribe.Failover, marks=pytest.mark.nightly),
        pytest.param(CommandSubscribe.Shared, marks=pytest.mark.nightly),
    ],
    ids=["Exclusive", "Failover", "Shared"],
)
def test_a_silent_owner_suspends_delivery_and_one_that_is_back_costs_nothing(
    pulsar: Endpoints, apart: Apart, pulsar_client: pulsar_lib.Client, topic: str, kind: int
) -> None:
    with fed(pulsar_client, topic) as feed:
        watcher = Watcher(apart.broker.url, topic, acks=False, sub_type=kind)
        with closing(watcher):
            wait_until(lambda: len(watcher.came) > 5)
            relay = apart.relays[owner_of(pulsar, topic)]
            relay.silence()
            silent = time.monotonic()
            sent = feed.sent
            wait_until(lambda: feed.sent > sent + 2 * OWNER_LEASE_S / FEED_S, 60)
            assert silent + OWNER_LEASE_S - LATE_S - 1 < watcher.last < silent + OWNER_LEASE_S + LATE_S
            relay.heal()
            wait_until(lambda: watcher.last > time.monotonic() - 1 and len(watcher.came) >= sent, 60)
            sent = feed.stop()
            wait_until(lambda: len(watcher.came) >= sent)
            assert len(set(watcher.entries)) == len(watcher.entries) == sent


@pytest.mark.nightly
def test_a_reader_goes_on_while_its_owner_is_silent(
    pulsar: Endpoints, apart: Apart, pulsar_client: pulsar_lib.Client, topic: str
) -> None:
    with fed(pulsar_client, topic):
        watcher = Watcher(apart.broker.url, topic, acks=False, durable=False)
        with closing(watcher):
            wait_until(lambda: len(watcher.came) > 5)
            apart.relays[owner_of(pulsar, topic)].silence()
            silent = time.monotonic()
            wait_until(lambda: watcher.last > silent + 2 * OWNER_LEASE_S)


@pytest.mark.nightly
def test_a_dead_owner_whose_topic_is_loaded_elsewhere_is_no_reason_to_go_on(
    pulsar: Endpoints, apart: Apart, pulsar_client: pulsar_lib.Client, admin: PulsarAdmin, topic: str
) -> None:
    """Nobody listens where the owner was, and the topic has one more ledger: somebody has loaded it."""
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    producer.send(b"first")
    watcher = Watcher(apart.broker.url, topic, acks=True)
    with closing(watcher):
        wait_until(lambda: len(watcher.came) == 1)
        relay = apart.relays[owner_of(pulsar, topic)]
        relay.die()
        died = time.monotonic()
        admin.unload(topic)
        while time.monotonic() < died + 2 * OWNER_LEASE_S:
            producer.send(b"more")
        assert watcher.last < died + OWNER_LEASE_S + LATE_S
        relay.revive()
