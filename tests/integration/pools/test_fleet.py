"""What happens when brokers, owners and bookies come and go, and when bindings change."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pulsar
import pytest
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck, CommandMessage, CommandProducer, CommandSubscribe

from devstack.common.ports import free_port
from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.status import Endpoints
from tests.support.pulsar.fleet import SHARED, TESTS, Feed, Sink, backlog, claims_of, quiet_client
from tests.support.pulsar.raw_client import RawClient, RefusedError
from tests.support.waiting import wait_until

pytestmark = pytest.mark.second_stack

EARLIEST = pulsar.InitialPosition.Earliest


def test_bindings_are_taken_up_within_five_seconds_without_a_restart(
    own_pool, pulsar_client, admin: PulsarAdmin, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "bindings.yaml"
    file.write_text('revision: "1"\nbindings: []\n')
    pool = own_pool(2, "--bindings", str(file))
    pids = [broker.process.pid for broker in pool.brokers]
    client = quiet_client(pool.url)
    producer = pulsar_client.create_producer(topic)
    producer.send(b"0")
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    consumer.acknowledge(consumer.receive(10_000))
    assert sum(broker.dispatched() for broker in pool.brokers) == 0  # not bound: the owner serves it

    file.write_text(f'revision: "2"\nbindings: [{{name: ns/one, topics: ["{topic}"]}}]\n')
    held = [lambda b=broker: json.loads(b.get("/bindings"))["revision"] == "2" for broker in pool.brokers]
    wait_until(lambda: all(check() for check in held), 5, "every broker has the new bindings")
    consumer.close()
    consumer = client.subscribe(topic, "s")
    producer.send(b"1")
    assert consumer.receive(10_000).data() == b"1"
    assert sum(broker.dispatched(topic) for broker in pool.brokers) == 1

    file.write_text("revision: 3\nbindings: what\n")
    broken = [
        lambda b=broker: "revision must be a text" in (json.loads(b.get("/bindings"))["error"] or "")
        for broker in pool.brokers
    ]
    wait_until(lambda: all(check() for check in broken))
    producer.send(b"2")
    assert consumer.receive(10_000).data() == b"2"  # the last good bindings stay in force

    file.write_text('revision: "4"\nbindings: []\n')
    wait_until(
        lambda: all(not broker.stats()["topics"] for broker in pool.brokers), what="unbound topics leave the pool"
    )
    producer.send(b"3")
    consumer.acknowledge_cumulative(_last(consumer, b"3"))
    wait_until(lambda: backlog(admin, topic, "s") == 0)
    assert [broker.process.pid for broker in pool.brokers] == pids
    client.close()


def _last(consumer: pulsar.Consumer, data: bytes) -> pulsar.Message:
    """Receives up to this message: earlier ones that were not acked come again from the owner."""
    while True:
        message = consumer.receive(10_000)
        if message.data() == data:
            return message


@pytest.mark.parametrize(
    "how", [pytest.param(signal.SIGTERM, marks=pytest.mark.nightly), signal.SIGKILL], ids=["SIGTERM", "SIGKILL"]
)
def test_another_broker_takes_over(own_pool, pulsar_client, admin: PulsarAdmin, topic: str, how: int) -> None:
    pool = own_pool(2, "--topics", TESTS)
    client = quiet_client(pool.url)
    feed = Feed(pulsar_client, topic)
    sink = Sink(client.subscribe(topic, "s", consumer_type=SHARED, initial_position=EARLIEST))
    wait_until(lambda: len(sink.got) > 100)
    serving = next(broker for broker in pool.brokers if topic in broker.stats()["topics"])
    serving.process.send_signal(how)
    assert serving.process.wait(30) == (0 if how == signal.SIGTERM else -signal.SIGKILL)
    pool.wait_members(1)
    wait_until(lambda: any(topic in broker.stats()["topics"] for broker in pool.brokers if broker is not serving))
    mark = len(sink.got)
    wait_until(lambda: len(sink.got) > mark + 100, what="messages flow from the other broker")
    sent = feed.stop()
    wait_until(lambda: set(sink.got) == set(range(sent)), what="every message has arrived")
    wait_until(lambda: backlog(admin, topic, "s") == 0)
    got = sink.stop()
    if how == signal.SIGTERM:
        assert sorted(got) == list(range(sent)), "a broker that leaves in order causes no duplicates"
    client.close()


@pytest.mark.nightly
def test_a_consumer_that_is_relayed_gets_nothing_twice_when_its_broker_leaves(
    own_pool, pulsar_client, admin: PulsarAdmin, topic: str
) -> None:
    """Its messages come through two brokers; what it has got and not acked is waited for before it is sent elsewhere."""
    pool = own_pool(2, "--topics", TESTS)
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    for number in range(10):
        producer.send(b"%d" % number)
    options = {"sub_type": CommandSubscribe.Shared, "initial_position": CommandSubscribe.Earliest}
    clients = [RawClient(broker.url) for broker in pool.brokers]
    for client in clients:
        client.subscribe(topic, "s", **options)
    claimed = [bool(claims_of(broker, topic)) for broker in pool.brokers]
    serving, relaying = clients[claimed.index(True)], clients[claimed.index(False)]
    leaving = pool.brokers[claimed.index(False)]

    relaying.flow(5)
    first = [_message(relaying) for _ in range(5)]
    leaving.process.terminate()
    wait_until(
        lambda: not any(leaving.url in broker.stats()["brokers"] for broker in pool.brokers if broker is not leaving)
    )
    publishing = CommandProducer(topic=topic, producer_id=1, request_id=99)
    with pytest.raises(RefusedError, match="this broker leaves the pool; look the topic up again"):
        relaying.request(BaseCommand(type=BaseCommand.PRODUCER, producer=publishing))
    ack = CommandAck(
        consumer_id=0, ack_type=CommandAck.Individual, message_id=[message.message_id for message in first]
    )
    relaying.send(BaseCommand(type=BaseCommand.ACK, ack=ack))
    relaying.wait(lambda command: command.type == BaseCommand.CLOSE_CONSUMER)
    assert relaying.lookup(topic) != leaving.url, "where to go can be asked over the same connection"
    relaying.close()
    assert leaving.process.wait(30) == 0

    serving.flow(100)
    rest = [_message(serving) for _ in range(5)]
    entries = [(message.message_id.ledger_id, message.message_id.entry_id) for message in first + rest]
    assert len(set(entries)) == 10
    assert not any(message.redelivery_count for message in rest)
    wait_until(lambda: backlog(admin, topic, "s") == 5)
    for client in clients:
        client.close()


def _message(client: RawClient) -> CommandMessage:
    command, _ = client.wait(lambda command: command.type == BaseCommand.MESSAGE)
    return command.message


def _serve(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "readonly_engine.command", "serve", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def right_options(pulsar: Endpoints) -> dict[str, str]:
    return {
        "--metadata-store-url": pulsar.metadata_store,
        "--service-url": pulsar.writer_url,
        "--admin-url": pulsar.admin_url,
        "--listen": f"127.0.0.1:{free_port()}",
        "--http": f"127.0.0.1:{free_port()}",
        "--topics": TESTS,
    }


def _words(options: dict[str, str]) -> list[str]:
    return [word for pair in options.items() for word in pair]


@pytest.mark.nightly
@pytest.mark.parametrize("option", ["--listen", "--http"])
def test_a_port_in_use_is_named(right_options: dict[str, str], option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = _serve(*_words(right_options | {option: address}))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"pulsar-readonly serve: {option} {address}: ")
    assert done.stderr.splitlines()[-1].endswith("choose a free address of this machine")
    assert "Traceback" not in done.stderr
