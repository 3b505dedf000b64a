"""What the owner keeps back or leaves out although the entries do not say so: the pool does as the owner.

Go's client writes a transaction's id into its SEND commands only. Here these are written by hand, and the transactions are ended
as a coordinator ends them.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import google_crc32c
import pytest
from readonly_engine.wire.commands import encode_command
from readonly_engine.wire.message_pb2 import MessageMetadata
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandProducer,
    CommandSend,
    CommandSubscribe,
    MessageIdData,
)

from devstack.pool import Pool
from devstack.pulsar.cluster import PulsarCluster
from tests.support.pulsar.raw_client import RawClient

pytestmark = [pytest.mark.nightly, pytest.mark.own_stack]

QUIET_S = 0.4
"""A message that must not come would have come by then."""

DEADLINE_S = 30.0

COORDINATOR = 99
"""No real one has this number."""

NO_METADATA = b"\xff\xff\xff\xff"

COMMIT, ABORT = 0, 1
END_ON_PARTITION, ENDED_ON_PARTITION = 58, 59
"""Commands that brokers say to each other (PulsarApi.proto); the engine has no use for them."""


def field(number: int, value: int | bytes) -> bytes:
    """A protobuf field."""
    kind, body = (2, varint(len(value)) + value) if isinstance(value, bytes) else (0, varint(value))
    return varint(number << 3 | kind) + body


def varint(value: int) -> bytes:
    """A protobuf varint."""
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


class Writer(RawClient):
    """Publishes at the owner, in transactions that its messages do not tell of."""

    topic = ""
    _sent = 0

    def begin(self, topic: str) -> None:
        """Become a producer of a topic."""
        self.topic = topic
        self.lookup(topic)
        command = CommandProducer(topic=topic, producer_id=0, producer_name="hand", user_provided_producer_name=True)
        self.request(BaseCommand(type=BaseCommand.PRODUCER, producer=command))

    def write(self, value: str, txn: int = 0) -> None:
        metadata = MessageMetadata(producer_name="hand", sequence_id=self._sent, publish_time=int(time.time() * 1000))
        self.write_bytes(metadata.SerializeToString(), value.encode(), txn)

    def write_bytes(self, metadata: bytes, body: bytes, txn: int = 0) -> None:
        """Publish, and wait for the receipt."""
        command = CommandSend(producer_id=0, sequence_id=self._sent)
        self._sent += 1
        if txn:
            command.txnid_most_bits, command.txnid_least_bits = COORDINATOR, txn
        content = len(metadata).to_bytes(4, "big") + metadata + body
        checked = b"\x0e\x01" + google_crc32c.value(content).to_bytes(4, "big") + content
        self._socket.sendall(encode_command(BaseCommand(type=BaseCommand.SEND, send=command), checked))
        self.wait(lambda answer: answer.type == BaseCommand.SEND_RECEIPT)

    def end(self, txn: int, action: int) -> None:
        """End a transaction on the topic, as a coordinator does."""
        fields: tuple[int | bytes, ...] = (txn, txn, COORDINATOR, self.topic.encode(), action, 0)
        command = b"".join(field(number, value) for number, value in enumerate(fields, 1))
        body = field(1, END_ON_PARTITION) + field(END_ON_PARTITION, command)
        self._socket.sendall((len(body) + 4).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body)
        self.wait(lambda answer: answer.type == ENDED_ON_PARTITION)


class Reader(RawClient):
    """A consumer that acks everything that it gets."""

    def begin(self, topic: str, subscription: str, kind: int) -> None:
        """Become a consumer of a topic."""
        self.lookup(topic)
        self.subscribe(topic, subscription, sub_type=kind, initial_position=CommandSubscribe.Earliest)
        self.flow(100)

    def values(self, count: int) -> list[str]:
        """The next values, in order; and the ack of each."""
        found = []
        for _ in range(count):
            command, payload = self.wait(lambda command: command.type == BaseCommand.MESSAGE)
            size = int.from_bytes(payload[6:10], "big")
            found.append(payload[10 + size :].decode())
            position = command.message.message_id
            ack = CommandAck(consumer_id=0, ack_type=CommandAck.Individual)
            ack.message_id.append(MessageIdData(ledger_id=position.ledger_id, entry_id=position.entry_id))
            self.send(BaseCommand(type=BaseCommand.ACK, ack=ack))
        return found


class Scene:
    """A writer and two readers: one at the owner, one at the pool."""

    def __init__(self, stack: PulsarCluster, pool: Pool, topic: str, kind: int, open_: ExitStack) -> None:
        self._admin, self._pool, self._topic, self._kind = stack.admin(), pool, topic, kind
        self._urls = {"owner": stack.endpoints.writer_url, "pool": pool.url.split(",", maxsplit=1)[0]}
        self._open = open_
        self.writer = open_.enter_context(Writer(self._urls["owner"]))
        self.writer.begin(topic)
        self.readers = {name: self.subscribe(name) for name in self._urls}

    def subscribe(self, name: str) -> Reader:
        """A new reader, at the owner or at the pool; each has its own subscription."""
        reader = self._open.enter_context(Reader(self._urls[name.partition("-")[0]]))
        reader.begin(self._topic, f"at-the-{name}", self._kind)
        return reader

    def both_get(self, *values: str) -> None:
        """All readers get these now, and nothing else."""
        seen = {name: reader.values(len(values)) for name, reader in self.readers.items()}
        assert seen == {name: list(values) for name in self.readers}
        time.sleep(QUIET_S)
        assert {name: reader.pending("MESSAGE") for name, reader in self.readers.items()} == dict.fromkeys(
            self.readers, 0
        )

    def all_is_acked(self) -> None:
        """Nothing is left of either backlog, markers and all."""
        deadline = time.monotonic() + DEADLINE_S
        while any(sub["msgBacklog"] for sub in self._admin.stats(self._topic)["subscriptions"].values()):
            assert time.monotonic() < deadline, self._admin.stats(self._topic)["subscriptions"]
            time.sleep(0.05)

    def served(self) -> int:
        """How many messages the pool itself has delivered."""
        return sum(broker.dispatched(self._topic) for broker in self._pool.brokers)


@pytest.fixture(params=[CommandSubscribe.Exclusive, CommandSubscribe.Shared], ids=["Exclusive", "Shared"])
def scene(request: pytest.FixtureRequest, txn_stack: PulsarCluster, txn_pool: Pool, topic: str) -> Iterator[Scene]:
    with ExitStack() as open_:
        yield Scene(txn_stack, txn_pool, topic, request.param, open_)


def test_messages_wait_for_the_end_of_a_transaction_that_they_do_not_tell_of(scene: Scene) -> None:
    for value, txn in (("0", 0), ("1", 1), ("2", 2), ("3", 0), ("4", 1)):
        scene.writer.write(value, txn)
    scene.both_get("0")
    scene.writer.end(1, COMMIT)
    scene.both_get("1")
    scene.writer.end(2, ABORT)
    scene.both_get("2", "3", "4")
    scene.all_is_acked()
    scene.writer.write("5")
    scene.both_get("5")
    scene.all_is_acked()
    assert scene.served() == 6


def test_readers_that_are_served_together_wait_for_such_a_transaction_and_go_on_together(scene: Scene) -> None:
    """Before and after it, each message comes alone, so that the pool's readers are at the tail."""
    for number in range(4):
        scene.readers[f"pool-{number}"] = scene.subscribe(f"pool-{number}")
    for txn, action in ((1, COMMIT), (2, ABORT)):
        for value in range(10):
            scene.writer.write(f"{txn}-{value}")
            assert {reader.values(1)[0] for reader in scene.readers.values()} == {f"{txn}-{value}"}
        scene.writer.write(f"{txn}-held", txn)
        scene.writer.write(f"{txn}-behind")
        scene.both_get()
        scene.writer.end(txn, action)
        scene.both_get(f"{txn}-held", f"{txn}-behind")
    scene.all_is_acked()
    assert scene.served() == 5 * 24


def test_an_owner_that_loads_the_topic_anew_has_forgotten_such_a_transaction(
    scene: Scene, txn_stack: PulsarCluster, topic: str
) -> None:
    scene.writer.write("0")
    scene.writer.write("1", 1)
    scene.both_get("0")
    txn_stack.admin().unload(topic)
    scene.readers["owner"] = scene.subscribe("owner")
    scene.both_get("1")
    assert scene.served() == 2


def test_an_entry_that_is_no_message_is_left_out_and_acked(scene: Scene) -> None:
    scene.writer.write("0")
    for metadata in (NO_METADATA, MessageMetadata(producer_name="hand").SerializeToString()):
        scene.writer.write_bytes(metadata, b"never")
    scene.writer.write("1")
    scene.both_get("0", "1")
    scene.all_is_acked()
    assert scene.served() == 2


def test_consumers_may_come_while_the_last_entry_is_no_message(
    txn_stack: PulsarCluster, txn_pool: Pool, topic: str
) -> None:
    with ExitStack() as open_:
        writer = open_.enter_context(Writer(txn_stack.endpoints.writer_url))
        writer.begin(topic)
        writer.write("0")
        writer.write_bytes(NO_METADATA, b"never")
        for url in (txn_stack.endpoints.writer_url, txn_pool.url):
            reader = open_.enter_context(Reader(url))
            reader.begin(topic, f"from-{url}", CommandSubscribe.Exclusive)
            assert reader.values(1) == ["0"]
