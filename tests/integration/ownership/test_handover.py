"""A subscription that goes from one broker to another while acks are on their way to its owner."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pulsar as pulsar_lib
import pytest
from readonly_engine.broker.consumer.client_consumer import CLAIM_RELEASE_TIMEOUT_S
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck, CommandSubscribe, MessageIdData

from devstack.pool import BrokerProcess
from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.status import Endpoints
from tests.integration.ownership.watcher import Watcher, closing
from tests.support.pulsar.apart import Apart
from tests.support.pulsar.fleet import TESTS, Feed, Sink, backlog, claims_of, consumers_at, quiet_client
from tests.support.pulsar.raw_client import RawClient
from tests.support.pulsar.silent_proxy import SilentProxy
from tests.support.waiting import wait_until

MESSAGES = 10


class Pair:
    """Two brokers of one pool, of which the first reaches owners through relays."""

    def __init__(self, pulsar: Endpoints, folder: Path) -> None:
        self.apart = Apart(pulsar, folder, folder.name)
        self.first = self.apart.broker
        self.second = BrokerProcess(pulsar, folder / "second.log", ["--pool", folder.name, "--topics", TESTS])
        try:
            self.second.wait_ready()
            wait_until(lambda: all(len(one.stats()["brokers"]) == 2 for one in (self.first, self.second)))
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
    watcher = Watcher(pair.first.url, topic, acks=True, sub_type=CommandSubscribe.Shared)
    with closing(watcher), RawClient(pulsar.writer_url) as owner:
        assert claims_of(pair.first, topic)
        relay = pair.apart.relays[owner.lookup(topic)]
        relay.silence(back=False)
        for number in range(MESSAGES):
            producer.send(b"%d" % number)
        wait_until(lambda: len(watcher.came) == MESSAGES)
    wait_until(lambda: not consumers_at(pair.first, topic))
    return relay, watcher


def test_what_was_acked_right_before_the_last_consumer_left_does_not_come_again_elsewhere(
    pair: Pair, pulsar: Endpoints, pulsar_client: pulsar_lib.Client, admin: PulsarAdmin, topic: str
) -> None:
    relay, before = leave_with_acks_under_way(pair, pulsar, pulsar_client, topic)
    after: list[Watcher] = []

    def subscribe() -> None:
        after.append(Watcher(pair.second.url, topic, acks=True, sub_type=CommandSubscribe.Shared))

    coming = threading.Thread(target=subscribe)
    coming.start()
    coming.join(CLAIM_RELEASE_TIMEOUT_S / 2)  # it would be served by now, were the claim free
    relay.heal()
    coming.join(60)
    with closing(*after):
        pulsar_client.create_producer(topic).send(b"the end")
        wait_until(lambda: bool(after[0].came))
        wait_until(lambda: admin.stats(topic)["subscriptions"]["s"]["msgBacklog"] == 0)
        assert not set(after[0].entries) & set(before.entries)
        assert len(after[0].came) == 1


@pytest.mark.nightly
def test_an_owner_that_does_not_answer_is_waited_for_some_seconds(
    pair: Pair, pulsar: Endpoints, pulsar_client: pulsar_lib.Client, topic: str
) -> None:
    relay, _ = leave_with_acks_under_way(pair, pulsar, pulsar_client, topic)
    left = time.monotonic()
    wait_until(lambda: not claims_of(pair.first, topic), CLAIM_RELEASE_TIMEOUT_S + 5)
    assert time.monotonic() - left > CLAIM_RELEASE_TIMEOUT_S - 2
    relay.heal()


def test_an_owner_whose_connection_has_broken_is_not_waited_for(
    pair: Pair, pulsar: Endpoints, pulsar_client: pulsar_lib.Client, topic: str
) -> None:
    relay, _ = leave_with_acks_under_way(pair, pulsar, pulsar_client, topic)
    assert claims_of(pair.first, topic)
    relay.die()
    wait_until(lambda: not claims_of(pair.first, topic), CLAIM_RELEASE_TIMEOUT_S / 2)
    relay.revive()


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [CommandSubscribe.Exclusive, CommandSubscribe.Failover], ids=["Exclusive", "Failover"])
def test_what_another_consumer_acked_while_the_connection_was_broken_does_not_come_again(
    apart: Apart, pulsar: Endpoints, pulsar_client: pulsar_lib.Client, admin: PulsarAdmin, topic: str, kind: int
) -> None:
    """The lease holds all the time, and the mark-delete position stays where it is."""
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    for number in range(5):
        producer.send(b"%d" % number)
    with RawClient(apart.broker.url) as client, RawClient(pulsar.writer_url) as entrance:
        owner_url = entrance.lookup(topic)
        client.subscribe(topic, "s", sub_type=kind, initial_position=CommandSubscribe.Earliest)
        client.flow(1)
        first = entry_of(client)
        relay = apart.relays[owner_url]
        relay.die()
        wait_until(lambda: not admin.stats(topic)["subscriptions"]["s"]["consumers"])
        with RawClient(owner_url) as other:
            other.subscribe(topic, "s", sub_type=kind)
            other.flow(5)
            entries = [entry_of(other) for _ in range(5)]
            assert entries[0] == first
            message_id = MessageIdData(ledger_id=entries[2][0], entry_id=entries[2][1])
            ack = CommandAck(consumer_id=0, ack_type=CommandAck.Individual, message_id=[message_id])
            other.request(BaseCommand(type=BaseCommand.ACK, ack=ack))
        wait_until(lambda: not admin.stats(topic)["subscriptions"]["s"]["consumers"])
        relay.revive()
        wait_until(lambda: bool(admin.stats(topic)["subscriptions"]["s"]["consumers"]))
        producer.send(b"the end")
        client.flow(5)
        last = (entries[-1][0], entries[-1][1] + 1)
        came = [first]
        while came[-1] != last:
            came.append(entry_of(client))
        assert came == [first, entries[1], entries[3], entries[4], last]


@pytest.mark.nightly
@pytest.mark.parametrize("places", ["the owner", "one broker", "two brokers"])
def test_a_failover_consumer_that_takes_over_gets_nothing_that_is_about_to_be_acked(
    pair: Pair, pulsar: Endpoints, pulsar_client: pulsar_lib.Client, admin: PulsarAdmin, topic: str, places: str
) -> None:
    """A stock client acks up to 0.1 s after a message has come."""
    admin.create_partitioned_topic(topic, 1)
    partition = f"{topic}-partition-0"  # of which the consumer with the first name is the active one
    with RawClient(pulsar.writer_url) as entrance:
        owner_url = entrance.lookup(partition)
    urls = {
        "the owner": (owner_url, owner_url),
        "one broker": (pair.second.url, pair.second.url),
        "two brokers": (pair.first.url, pair.second.url),
    }[places]
    with ExitStack() as stack:
        sinks = []

        def join(name: str, url: str) -> None:
            client = quiet_client(url)
            stack.callback(client.close)
            consumer = client.subscribe(
                partition, "s", consumer_type=pulsar_lib.ConsumerType.Failover, consumer_name=name
            )
            sinks.append(Sink(consumer))
            stack.callback(sinks[-1].stop)

        join("b", urls[0])
        feed = Feed(pulsar_client, partition, 0.005)
        stack.callback(feed.stop)
        wait_until(lambda: len(sinks[0].got) > MESSAGES)
        # Owners of 5.0 answer acks after they have stored them, the first ones after the cursor's ledger is made.
        wait_until(lambda: backlog(admin, partition, "s") < len(sinks[0].got))
        join("a", urls[1])
        wait_until(lambda: len(sinks[1].got) > MESSAGES)
        sent = feed.stop()
        wait_until(lambda: backlog(admin, partition, "s") == 0)
    assert sinks[0].got + sinks[1].got == list(range(sent))


@pytest.mark.nightly
def test_a_consumer_that_is_on_its_way_in_is_refused_by_a_broker_that_leaves(apart: Apart, topic: str) -> None:
    with RawClient(apart.broker.url) as client:
        for relay in apart.relays.values():
            relay.silence()
        subscribe = CommandSubscribe(
            topic=topic, subscription="s", sub_type=CommandSubscribe.Shared, consumer_id=1, request_id=1
        )
        client.send(BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=subscribe))
        client.ping()  # it has come, and waits for the owner
        apart.broker.process.terminate()
        refusal, _ = client.wait(lambda command: command.type == BaseCommand.ERROR)
        assert refusal.error.request_id == 1
        assert "leaves the pool" in refusal.error.message


def entry_of(client: RawClient) -> tuple[int, int]:
    """The entry of the next message."""
    place = client.wait(lambda command: command.type == BaseCommand.MESSAGE)[0].message.message_id
    return place.ledger_id, place.entry_id
