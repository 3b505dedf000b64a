"""Where a subscription continues after its owner has moved, and what of its acks the owner is told again."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, ClassVar, Final

import pulsar
import pytest
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck, CommandSeek, CommandSubscribe, MessageIdData

from devstack.pool import BrokerProcess, Pool
from devstack.pulsar.admin import MessageId, PulsarAdmin
from tests.support.messages import publish_numbers
from tests.support.pulsar.fleet import quiet_client
from tests.support.pulsar.raw_client import RawClient
from tests.support.waiting import wait_until

pytestmark = pytest.mark.second_stack

RECEIVE_MS: Final = 30_000
BEFORE: Final = 40
AFTER: Final = 60
TAKEN: Final = 10
LATEST: Final = (1 << 63) - 1
EARLIEST: Final = -1
QUIET_S: Final = 1.0


@pytest.fixture
def topic(admin: PulsarAdmin) -> str:
    """A topic of a namespace of its own, which may be unloaded."""
    namespace = f"public/moves-{uuid.uuid4().hex[:8]}"
    admin.create_namespace(namespace)
    return f"persistent://{namespace}/t"


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """What is left of a test's connections is closed."""
    yield
    while Consumer.made:
        Consumer.made.pop().client.close()


@pytest.fixture
def broker(own_pool: Callable[..., Pool], topic: str) -> BrokerProcess:
    """A read-only broker of the topic, which a test may stop."""
    return own_pool(1, "--topics", topic).brokers[0]


def publish(client: pulsar.Client, topic: str, numbers: range, **options: Any) -> list[tuple[int, int]]:
    """Publish numbers; return their positions."""
    return [(each.ledger_id(), each.entry_id()) for each in publish_numbers(client, topic, numbers, **options)]


@contextmanager
def frozen(broker: BrokerProcess) -> Iterator[None]:
    """A broker that hears nothing meanwhile."""
    os.kill(broker.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.process.pid, signal.SIGCONT)


class Consumer:
    """A consumer, by default of a non-durable subscription, which acks what it takes."""

    made: ClassVar[list[Consumer]] = []

    def __init__(self, url: str, topic: str, name: str = "", *, durable: bool = False, **fields: Any) -> None:
        self.client = RawClient(url)
        self.made.append(self)
        self.topic = topic
        self.name = name or f"s-{uuid.uuid4().hex[:8]}"
        self.fields = {"durable": durable, **fields}
        self.client.subscribe(topic, self.name, **self.fields)

    def seek(self, **where: Any) -> None:
        """Seek, and subscribe again as a client would."""
        self.client.request(BaseCommand(type=BaseCommand.SEEK, seek=CommandSeek(consumer_id=0, **where)))
        self.client.wait(lambda command: command.type == BaseCommand.CLOSE_CONSUMER)
        self.client.subscribe(self.topic, self.name, **self.fields)

    def take(self, count: int, *, ack: CommandAck.AckType | None = CommandAck.Cumulative) -> list[tuple[int, int]]:
        self.client.flow(count)
        found = []
        for _ in range(count):
            command, _ = self.client.wait(lambda command: command.type == BaseCommand.MESSAGE)
            message_id = command.message.message_id
            found.append((message_id.ledger_id, message_id.entry_id))
        if ack is not None:
            made = CommandAck(consumer_id=0, ack_type=ack)
            for ledger_id, entry_id in found if ack == CommandAck.Individual else found[-1:]:
                made.message_id.add(ledger_id=ledger_id, entry_id=entry_id)
            self.client.send(BaseCommand(type=BaseCommand.ACK, ack=made))
        return found

    def gets_nothing_more(self) -> bool:
        self.client.flow(1000)
        try:
            self.client.wait(lambda command: command.type == BaseCommand.MESSAGE, QUIET_S)
        except TimeoutError:
            return True
        return False

    def closed(self) -> bool:
        return self.client.pending("CLOSE_CONSUMER") > 0


def mark_delete(admin: PulsarAdmin, topic: str, name: str) -> tuple[int, int] | None:
    """Where the owner has the cursor; None where it has none."""
    cursor = admin.internal_stats(topic)["cursors"].get(name)
    if cursor is None:
        return None
    ledger_id, entry_id = cursor["markDeletePosition"].split(":")
    return int(ledger_id), int(entry_id)


def stored(admin: PulsarAdmin, topic: str, name: str) -> bool:
    """Whether the owner has stored the cursor in a ledger."""
    cursor = admin.internal_stats(topic)["cursors"][name]
    return cursor["state"] == "Open" and int(cursor["cursorLedgerLastEntry"]) >= 0


def at(position: tuple[int, int], **fields: Any) -> MessageIdData:
    return MessageIdData(ledger_id=position[0], entry_id=position[1], **fields)


STARTS: Final = {
    "latest": lambda _: {"start_message_id": at((LATEST, LATEST))},
    "no start": lambda _: {},
    "earliest": lambda _: {"start_message_id": at((EARLIEST, EARLIEST))},
    "message id": lambda ids: {"start_message_id": at(ids[7])},
    "batch position": lambda ids: {"start_message_id": at(ids[7], batch_index=3)},
    "time ago": lambda _: {"start_message_id": at((EARLIEST, EARLIEST)), "start_message_rollback_duration_sec": 3600},
}
FIRST: Final = {
    "latest": BEFORE,
    "no start": BEFORE,
    "earliest": 0,
    "message id": 7,
    "batch position": 7,
    "time ago": 0,
}


@pytest.mark.nightly
@pytest.mark.parametrize("start", STARTS)
def test_a_reader_goes_on_where_it_stands_wherever_it_began(
    broker: BrokerProcess, admin: PulsarAdmin, pulsar_client: pulsar.Client, topic: str, start: str
) -> None:
    ids = publish(pulsar_client, topic, range(BEFORE))
    reader = Consumer(broker.url, topic, **STARTS[start](ids))
    ids += publish(pulsar_client, topic, range(BEFORE, BEFORE + AFTER))
    due = ids[FIRST[start] :]
    assert reader.take(TAKEN) == due[:TAKEN]
    wait_until(lambda: mark_delete(admin, topic, reader.name) == due[TAKEN - 1], 60)
    _moves_on(reader, admin, topic, due)


def _moves_on(reader: Consumer, admin: PulsarAdmin, topic: str, due: Sequence[tuple[int, int]]) -> None:
    """The owner moves, twice; the reader continues at `due[TAKEN]`, here and at the owner."""
    for _ in range(2):
        admin.unload(topic)
        wait_until(lambda: mark_delete(admin, topic, reader.name) is not None, 60)
        assert mark_delete(admin, topic, reader.name) == due[TAKEN - 1]
    assert reader.take(len(due) - TAKEN) == due[TAKEN:]
    wait_until(lambda: mark_delete(admin, topic, reader.name) == due[-1], 60)
    assert reader.gets_nothing_more()
    assert not reader.closed()


def test_a_reader_at_latest_with_a_backlog_gets_all_of_it(
    broker: BrokerProcess, admin: PulsarAdmin, pulsar_client: pulsar.Client, topic: str
) -> None:
    with closing(quiet_client(broker.url)) as client:
        reader = client.create_reader(topic, pulsar.MessageId.latest, receiver_queue_size=50, reader_name="r")
        publish(pulsar_client, topic, range(3000), batching_enabled=True, batching_max_messages=10)
        assert [int(reader.read_next(RECEIVE_MS).data()) for _ in range(1000)] == list(range(1000))
        admin.unload(topic)
        wait_until(lambda: bool(admin.stats(topic)["subscriptions"]), 60)
        assert [int(reader.read_next(RECEIVE_MS).data()) for _ in range(2000)] == list(range(1000, 3000))
        assert not reader.has_message_available()


TYPES: Final = {
    "cumulative": (CommandSubscribe.Exclusive, CommandAck.Cumulative),
    "individual": (CommandSubscribe.Exclusive, CommandAck.Individual),
    "failover": (CommandSubscribe.Failover, CommandAck.Cumulative),
    "shared": (CommandSubscribe.Shared, CommandAck.Individual),
}


@pytest.mark.nightly
@pytest.mark.parametrize("back", [30, 95], ids=["far", "near"])
@pytest.mark.parametrize("acks", TYPES)
def test_a_reset_that_coincides_with_an_unload_is_not_undone(
    broker: BrokerProcess, admin: PulsarAdmin, pulsar_client: pulsar.Client, topic: str, acks: str, back: int
) -> None:
    """The consumer comes back to a topic that was reset and unloaded, all of whose acks were answered a moment ago."""
    ids = publish(pulsar_client, topic, range(100))
    kind, how = TYPES[acks]
    consumer = _durable(broker, topic, kind)
    assert sorted(consumer.take(98, ack=how)) == ids[:98]
    wait_until(lambda: mark_delete(admin, topic, consumer.name) == ids[97], 60)
    # Owners of 5.0 answer acks after they have stored them: the first ones when the cursor's first ledger is there.
    wait_until(lambda: stored(admin, topic, consumer.name), 60)
    with frozen(broker):
        admin.reset_cursor(topic, consumer.name, MessageId(*ids[back]))
        admin.unload(topic)
    wait_until(consumer.closed, 60, what="the client is told to come back, as it is at the owner")
    again = _durable(broker, topic, kind, consumer)
    assert sorted(again.take(100 - back, ack=None)) == ids[back:]
    assert mark_delete(admin, topic, consumer.name) == ids[back - 1]
    assert again.gets_nothing_more()


@pytest.mark.parametrize("acks", TYPES)
@pytest.mark.parametrize("reset", [False, True], ids=["unloaded", "reset and unloaded"])
def test_acks_under_way_at_an_unload_reach_the_owner_and_do_not_undo_a_reset(
    broker: BrokerProcess, admin: PulsarAdmin, pulsar_client: pulsar.Client, topic: str, acks: str, reset: bool
) -> None:
    """The client acks while the consumer is on its way back."""
    ids = publish(pulsar_client, topic, range(100))
    kind, how = TYPES[acks]
    consumer = _durable(broker, topic, kind)
    assert sorted(consumer.take(50, ack=how)) == ids[:50]
    # An unload loses acks that wait for the cursor's first ledger (ManagedCursorImpl.pendingMarkDeleteOps): a stock owner's gap.
    wait_until(lambda: mark_delete(admin, topic, consumer.name) == ids[49], 60)
    wait_until(lambda: stored(admin, topic, consumer.name), 60)
    more = consumer.take(40, ack=None)
    with frozen(broker):
        if reset:
            admin.reset_cursor(topic, consumer.name, MessageId(*ids[20]))
        admin.unload(topic)
        _ack(consumer, more, how)
    if reset:
        wait_until(consumer.closed, 60)
        again = _durable(broker, topic, kind, consumer)
        assert sorted(again.take(80, ack=None)) == ids[20:]
        assert mark_delete(admin, topic, consumer.name) == ids[19]
        return
    wait_until(lambda: mark_delete(admin, topic, consumer.name) == ids[89], 60)
    assert sorted(consumer.take(10, ack=how)) == ids[90:]
    wait_until(lambda: mark_delete(admin, topic, consumer.name) == ids[99], 60)
    assert consumer.gets_nothing_more(), "nothing comes twice"
    assert not consumer.closed()


def _durable(
    broker: BrokerProcess, topic: str, kind: CommandSubscribe.SubType, before: Consumer | None = None
) -> Consumer:
    """A consumer of a durable subscription: a new one, or the one of another consumer, which has been closed."""
    name = "" if before is None else before.name
    position = CommandSubscribe.Earliest
    return Consumer(broker.url, topic, name, durable=True, sub_type=kind, initial_position=position)


def _ack(consumer: Consumer, ids: Sequence[tuple[int, int]], how: CommandAck.AckType) -> None:
    ack = CommandAck(consumer_id=0, ack_type=how)
    for position in ids if how == CommandAck.Individual else ids[-1:]:
        ack.message_id.append(at(position))
    consumer.client.send(BaseCommand(type=BaseCommand.ACK, ack=ack))
