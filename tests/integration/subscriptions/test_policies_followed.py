"""Policies of the owner that change while clients are connected: a pool follows them within 10 s, as the owner does at once."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pulsar
import pytest

from devstack.pool import BrokerProcess, Pool
from devstack.pulsar.admin import PulsarAdmin
from tests.support.pulsar.fleet import quiet_client
from tests.support.waiting import wait_until

FOLLOWED_S = 10.0
SOON_MS = 1500
"""A message that does not come within this time is held back."""
LIMIT = 5
SHARED, KEY_SHARED = pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared


@pytest.fixture
def topic(admin: PulsarAdmin) -> str:
    """A topic of a namespace of its own."""
    namespace = f"public/policies-{uuid.uuid4().hex[:8]}"
    admin.create_namespace(namespace)
    topic = f"persistent://{namespace}/t"
    admin.create_topic(topic)
    return topic


@pytest.fixture
def broker(own_pool: Callable[..., Pool], topic: str, request: pytest.FixtureRequest) -> BrokerProcess:
    keeper = ["--cursors", "local", "--cursor-partitions", "1"] if getattr(request, "param", "owner") == "local" else []
    return own_pool(1, "--topics", topic, *keeper).brokers[0]


@pytest.fixture
def reader(broker: BrokerProcess) -> Iterator[pulsar.Client]:
    with closing(quiet_client(broker.url)) as client:
        yield client


def namespace_of(topic: str) -> str:
    return topic.removeprefix("persistent://").rpartition("/")[0]


def set_policy(admin: PulsarAdmin, topic: str, level: str, names: tuple[str, str], value: Any) -> None:
    """Set a policy of a topic or of its namespace, which has another name there."""
    if level == "topic":
        admin.set_topic_policy(topic, names[0], value)
    else:
        admin.set_namespace_policy(namespace_of(topic), names[1], value)


def received(consumer: pulsar.Consumer) -> pulsar.Message | None:
    try:
        return consumer.receive(SOON_MS)
    except pulsar.Timeout:
        return None


ON_CONSUMER = ("maxUnackedMessagesOnConsumer", "maxUnackedMessagesPerConsumer")
ON_SUBSCRIPTION = ("maxUnackedMessagesOnSubscription", "maxUnackedMessagesPerSubscription")


@pytest.mark.parametrize("broker", [pytest.param("owner", marks=pytest.mark.nightly), "local"], indirect=True)
@pytest.mark.parametrize(
    ("kind", "level", "names"),
    [
        pytest.param(SHARED, "topic", ON_CONSUMER, marks=pytest.mark.nightly),
        (KEY_SHARED, "namespace", ON_CONSUMER),
        pytest.param(SHARED, "namespace", ON_SUBSCRIPTION, marks=pytest.mark.nightly),
    ],
)
def test_a_limit_of_unacked_messages(
    reader: pulsar.Client, pulsar_client: pulsar.Client, admin: PulsarAdmin, topic: str, kind: pulsar.ConsumerType,
    level: str, names: tuple[str, str],
) -> None:  # fmt: skip
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    consumer = reader.subscribe(topic, "s", kind)
    producer.send(b"", partition_key="k")
    assert received(consumer)
    set_policy(admin, topic, level, names, LIMIT)
    got, deadline = [], time.monotonic() + FOLLOWED_S
    while True:
        producer.send(b"", partition_key="k")
        message = received(consumer)
        if message is None:
            break
        got.append(message)
        assert time.monotonic() < deadline, "the limit is not followed"
    assert len(got) >= LIMIT - 1
    set_policy(admin, topic, level, names, 0)
    assert wait_until(lambda: received(consumer), FOLLOWED_S + SOON_MS / 1000, "the end of the limit is followed")
