"""What becomes of acks that an owner had answered, and not stored, when it is killed."""

import dataclasses
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from readonly_engine.wire.pulsar_pb2 import CommandAck, CommandSubscribe

from devstack.errors import DevstackError
from devstack.pool import BrokerProcess, Pool
from devstack.pulsar.admin import AdminError, MessageId, PulsarAdmin
from devstack.pulsar.cluster import PulsarCluster
from tests.integration.ownership.test_owner_moves import Consumer, frozen, mark_delete, publish
from tests.support.pulsar.fleet import quiet_client
from tests.support.pulsar.stacks import broker_settings, fresh_stack
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.second_stack]

SESSION_TIMEOUT_MS: Final = 6_000
TYPES: Final = {
    "cumulative": (CommandSubscribe.Exclusive, CommandAck.Cumulative),
    "individual": (CommandSubscribe.Exclusive, CommandAck.Individual),
    "shared": (CommandSubscribe.Shared, CommandAck.Individual),
}


class Scene(NamedTuple):
    """A topic, its owner, and who is left when that one dies."""

    stack: PulsarCluster
    topic: str
    owner: int
    survivor: PulsarAdmin
    broker: BrokerProcess
    ids: list[tuple[int, int]]


@pytest.fixture(scope="module")
def stack() -> Iterator[PulsarCluster]:
    """A stack of its own, whose brokers are killed."""
    settings = broker_settings(metadataStoreSessionTimeoutMillis=SESSION_TIMEOUT_MS)
    with fresh_stack("owner-death", 28750, brokers=2, settings=settings) as stack:
        yield stack


@pytest.fixture
def scene(stack: PulsarCluster, tmp_path: Path) -> Iterator[Scene]:
    """A topic with 100 messages and a read-only broker; the way into the cluster is not the topic's owner."""
    namespace = f"public/dies-{uuid.uuid4().hex[:8]}"
    stack.admin().create_namespace(namespace)
    topic = f"persistent://{namespace}/t"
    client = quiet_client(stack.endpoints.writer_url, operation_timeout_seconds=90)
    ids = publish(client, topic, range(100))
    client.close()
    ends = stack.endpoints
    owner = ends.brokers.index(stack.admin().lookup(topic))
    other = 1 - owner
    entrance = dataclasses.replace(ends, writer_url=ends.brokers[other], admin_url=ends.admin_urls[other])
    pool = Pool(entrance, tmp_path, uuid.uuid4().hex, ["--topics", topic])
    try:
        pool.start()
        yield Scene(stack, topic, owner, stack.admin(other), pool.brokers[0], ids)
    finally:
        while Consumer.made:
            Consumer.made.pop().client.close()
        pool.close()
        stack.start_broker(owner)


def subscribe(scene: Scene, kind: CommandSubscribe.SubType, name: str = "") -> Consumer:
    position = CommandSubscribe.Earliest
    return Consumer(scene.broker.url, scene.topic, name, durable=True, sub_type=kind, initial_position=position)


def answers(ask: Callable[[], object]) -> bool:
    """Whether the cluster answers; it does not while nobody owns the topic."""
    try:
        ask()
    except (AdminError, DevstackError):
        return False
    return True


def stands(scene: Scene, name: str) -> tuple[int, int] | None:
    found = []
    return found[0] if answers(lambda: found.append(mark_delete(scene.survivor, scene.topic, name))) else None


@pytest.mark.parametrize("acks", TYPES)
def test_acks_that_a_killed_owner_had_answered_are_sent_again(scene: Scene, acks: str) -> None:
    """All but the first are answered and not stored: the owner stores a cursor once a second."""
    kind, how = TYPES[acks]
    consumer = subscribe(scene, kind)
    for _ in range(9):
        consumer.take(10, ack=how)
    wait_until(lambda: stands(scene, consumer.name) == scene.ids[89], 60)
    scene.stack.kill_broker(scene.owner)
    wait_until(lambda: stands(scene, consumer.name) == scene.ids[89], 90, what="it is acked at the new owner")
    assert sorted(consumer.take(10, ack=how)) == scene.ids[90:]
    wait_until(lambda: stands(scene, consumer.name) == scene.ids[99], 60)
    assert consumer.gets_nothing_more()
    assert not consumer.closed()


def test_a_reset_at_the_new_owner_is_not_taken_for_a_loss(scene: Scene) -> None:
    """The administrator is back before the read-only broker, and resets to where only a moment's acks are undone."""
    kind, how = TYPES["cumulative"]
    consumer = subscribe(scene, kind)
    for _ in range(9):
        consumer.take(10, ack=how)
    wait_until(lambda: stands(scene, consumer.name) == scene.ids[89], 60)
    with frozen(scene.broker):
        scene.stack.kill_broker(scene.owner)
        position = MessageId(*scene.ids[40])
        wait_until(lambda: answers(lambda: scene.survivor.reset_cursor(scene.topic, consumer.name, position)), 90)
    wait_until(consumer.closed, 60)
    again = subscribe(scene, kind, consumer.name)
    assert again.take(60, ack=None) == scene.ids[40:]
    assert stands(scene, consumer.name) == scene.ids[39]
