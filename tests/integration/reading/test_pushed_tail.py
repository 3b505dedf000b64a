"""New entries that the owner pushes while they are few: the same as those of bookies, each once."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pulsar
import pytest
from readonly_engine.broker.tail.budget import SUBSCRIPTION_PREFIX

from devstack.pool import BrokerProcess, Pool
from devstack.pulsar.admin import PulsarAdmin
from tests.support.messages import publish_numbers
from tests.support.pulsar.fleet import Feed, Sink, backlog, quiet_client
from tests.support.waiting import wait_until

FEW = 20
UNLOADS = 3
UNACKED = 100


@pytest.fixture
def topic(admin: PulsarAdmin) -> str:
    """A topic of a namespace of its own, which may be unloaded and limited."""
    namespace = f"public/tail-{uuid.uuid4().hex[:8]}"
    admin.create_namespace(namespace)
    return f"persistent://{namespace}/t"


@pytest.fixture
def broker(own_pool: Callable[..., Pool], topic: str) -> BrokerProcess:
    return own_pool(1, "--topics", topic, "--tail", "auto").brokers[0]


@pytest.fixture
def reader(broker: BrokerProcess) -> Iterator[pulsar.Client]:
    with closing(quiet_client(broker.url)) as client:
        yield client


def tail_of(broker: BrokerProcess, topic: str) -> dict[str, Any]:
    return broker.stats()["topics"].get(topic, {}).get("tail", {"source": "none", "changes": 0})


def pushed(broker: BrokerProcess, topic: str) -> bool:
    return bool(tail_of(broker, topic)["source"] == "owner")


def at_owner(admin: PulsarAdmin, topic: str) -> list[dict[str, Any]]:
    """What the owner says of subscriptions of read-only brokers."""
    return [
        stats for name, stats in admin.stats(topic)["subscriptions"].items() if name.startswith(SUBSCRIPTION_PREFIX)
    ]


def test_few_messages_are_pushed_and_bookies_are_not_asked(
    broker: BrokerProcess, reader: pulsar.Client, pulsar_client: pulsar.Client, admin: PulsarAdmin, topic: str
) -> None:
    consumer = reader.subscribe(topic, "s")
    wait_until(lambda: pushed(broker, topic))
    publish_numbers(pulsar_client, topic, range(FEW))
    for number in range(FEW):
        message = consumer.receive(10_000)
        assert int(message.data()) == number
        consumer.acknowledge(message)
    (stats,) = at_owner(admin, topic)
    assert stats["msgOutCounter"] == FEW
    assert not stats["isDurable"]
    assert tail_of(broker, topic) == {"source": "owner", "changes": 1}
    consumer.close()
    wait_until(lambda: not at_owner(admin, topic), what="the subscription of the broker is closed")


def test_unloads_lose_nothing_and_repeat_only_what_was_not_acked(
    broker: BrokerProcess, reader: pulsar.Client, pulsar_client: pulsar.Client, admin: PulsarAdmin, topic: str
) -> None:
    sink = Sink(reader.subscribe(topic, "s"))
    feed = Feed(pulsar_client, topic, 0.01)
    try:
        for _ in range(UNLOADS):
            wait_until(lambda: pushed(broker, topic))
            before, sent = tail_of(broker, topic)["changes"], feed.sent
            admin.unload(topic)
            wait_until(lambda before=before: tail_of(broker, topic)["changes"] > before)
            wait_until(lambda sent=sent: feed.sent > sent + FEW)
    finally:
        sent = feed.stop()
    wait_until(lambda: len(set(sink.got)) >= sent)
    wait_until(lambda: backlog(admin, topic, "s") == 0)
    got = sink.stop()
    assert list(dict.fromkeys(got)) == list(range(sent))
    # A stock producer sends again what an unload left without a receipt. A stock consumer acks up to 0.1 s after a message.
    assert len(got) - sent <= UNLOADS * UNACKED


def test_a_binding_changes_the_source_of_an_open_topic(
    own_pool: Callable[..., Pool], tmp_path: Path, pulsar_client: pulsar.Client, admin: PulsarAdmin, topic: str
) -> None:
    bindings = tmp_path / "bindings.yaml"

    def write(revision: int, tail: str) -> None:
        bindings.write_text(
            f'revision: "{revision}"\nbindings: [{{name: a, topics: ["{topic}"], tail: {tail}}}]\n', encoding="utf-8"
        )

    write(1, "Bookies")
    (broker,) = own_pool(1, "--bindings", str(bindings), "--tail", "auto").brokers
    client = quiet_client(broker.url)
    sink = Sink(client.subscribe(topic, "s"))
    feed = Feed(pulsar_client, topic, 0.02)
    try:
        wait_until(lambda: len(sink.got) > FEW)
        assert not at_owner(admin, topic)
        write(2, "Auto")
        wait_until(lambda: pushed(broker, topic))
        wait_until(lambda: len(at_owner(admin, topic)) == 1)
        write(3, "Bookies")
        wait_until(lambda: not at_owner(admin, topic))
        received = len(sink.got)
        wait_until(lambda: len(sink.got) > received + FEW)
    finally:
        sent = feed.stop()
    wait_until(lambda: len(sink.got) >= sent)
    assert sink.stop() == list(range(sent))
    client.close()
