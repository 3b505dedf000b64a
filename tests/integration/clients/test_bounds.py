"""What one client may have going on at once, tried at the bound, at a broker whose owners do not answer."""

import itertools
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from readonly_engine.broker.session.bounds import (
    MAX_CONCURRENT_CLOSES,
    MAX_CONCURRENT_PRODUCERS,
    MAX_CONCURRENT_REQUESTS,
    MAX_REQUEST_BYTES,
    MAX_TOPIC_WATCHERS,
)
from readonly_engine.wire.commands import body_of, encode_command, has_request_id
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandConsumerStats,
    CommandGetLastMessageId,
    CommandGetOrCreateSchema,
    CommandGetSchema,
    CommandGetTopicsOfNamespace,
    CommandLookupTopic,
    CommandPartitionedTopicMetadata,
    CommandProducer,
    CommandSeek,
    CommandSubscribe,
    CommandUnsubscribe,
    CommandWatchTopicList,
    Schema,
    ServerError,
)

from devstack.pool import BrokerProcess
from tests.support.innocent_client import InnocentClient
from tests.support.pulsar.apart import Apart
from tests.support.pulsar.raw_client import RawClient
from tests.support.waiting import wait_until

SLOW_PING_S: Final = 1.5
MUCH_BYTES: Final = 600 << 20
"""More memory than a broker takes for anything that is tried here; without bounds it would take gigabytes."""

FIRST: Final = 1000
"""Request ids below it are those of RawClient itself."""


def silence(apart: Apart) -> None:
    for relay in apart.relays.values():
        relay.silence()


def heal(apart: Apart) -> None:
    for relay in apart.relays.values():
        relay.heal()


def resident_bytes(broker: BrokerProcess) -> int:
    """The memory of a broker."""
    status = Path(f"/proc/{broker.process.pid}/status").read_text(encoding="utf-8")
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) << 10


class Neighbour(InnocentClient):
    """A consumer of the same broker, which pings and looks up all the time."""

    def __init__(self, broker: BrokerProcess, topic: str) -> None:
        super().__init__(RawClient(broker.url))
        self.client.subscribe(topic, "neighbour")
        self._topic = topic

    def after_ping(self) -> None:
        """Look the topic up."""
        self.client.lookup(self._topic)

    def unharmed(self) -> bool:
        assert self.failure is None, self.failure
        assert "CLOSE_CONSUMER" not in self.client.seen
        assert self.slowest < SLOW_PING_S, f"a PING took {self.slowest:.2f} s"
        return True


def answer_to(client: RawClient, request_id: int, seconds: float = 30) -> BaseCommand:
    """The answer to a request, before that to any other."""

    def answers(command: BaseCommand) -> bool:
        return has_request_id(command) and body_of(command).request_id == request_id

    return client.wait(answers, seconds)[0]


def error_of(answer: BaseCommand) -> str:
    """What a request was refused for; empty where it was not."""
    body = body_of(answer)
    if "error" not in body.DESCRIPTOR.fields_by_name or not body.HasField("error"):
        return ""
    return ServerError.Name(body.error)


def requests(topic: str) -> Iterator[BaseCommand]:
    """Of each kind that waits for an owner one, and again, numbered from FIRST on; there is a consumer 0."""
    kinds = BaseCommand
    for number in itertools.count(FIRST, 9):
        numbers = iter(range(number, number + 9))
        yield kinds(type=kinds.LOOKUP, lookup_topic=CommandLookupTopic(topic="not-bound", request_id=next(numbers)))
        partitions = CommandPartitionedTopicMetadata(topic=topic, request_id=next(numbers))
        yield kinds(type=kinds.PARTITIONED_METADATA, partition_metadata=partitions)
        names = CommandGetTopicsOfNamespace(namespace="public/default", request_id=next(numbers))
        yield kinds(type=kinds.GET_TOPICS_OF_NAMESPACE, get_topics_of_namespace=names)
        yield kinds(type=kinds.GET_SCHEMA, get_schema=CommandGetSchema(topic=topic, request_id=next(numbers)))
        schema = Schema(name="s", schema_data=b"", type=Schema.String)
        made = CommandGetOrCreateSchema(topic=topic, request_id=next(numbers), schema=schema)
        yield kinds(type=kinds.GET_OR_CREATE_SCHEMA, get_or_create_schema=made)
        last = CommandGetLastMessageId(consumer_id=0, request_id=next(numbers))
        yield kinds(type=kinds.GET_LAST_MESSAGE_ID, get_last_message_id=last)
        stats = CommandConsumerStats(consumer_id=0, request_id=next(numbers))
        yield kinds(type=kinds.CONSUMER_STATS, consumer_stats=stats)
        seek = CommandSeek(consumer_id=0, request_id=next(numbers), message_publish_time=0)
        yield kinds(type=kinds.SEEK, seek=seek)
        unsubscribe = CommandUnsubscribe(consumer_id=0, request_id=next(numbers), force=True)
        yield kinds(type=kinds.UNSUBSCRIBE, unsubscribe=unsubscribe)


@pytest.mark.nightly
def test_requests_of_one_client_that_no_owner_answers_are_bounded(apart: Apart, topic: str) -> None:
    """As at a stock broker, the first one too many is refused, and what was asked before is answered in the end."""
    with RawClient(apart.broker.url) as client, Neighbour(apart.broker, topic + "-n") as neighbour:
        client.subscribe(topic, "s")
        silence(apart)
        kinds = requests(topic)
        flood = b"".join(encode_command(command) for command in itertools.islice(kinds, MAX_CONCURRENT_REQUESTS))
        client.socket.sendall(flood)
        for command in itertools.islice(kinds, 9):
            client.send(command)
            answer = answer_to(client, body_of(command).request_id)
            assert error_of(answer) == "TooManyRequests"
            expected = {
                BaseCommand.LOOKUP: BaseCommand.LOOKUP_RESPONSE,
                BaseCommand.PARTITIONED_METADATA: BaseCommand.PARTITIONED_METADATA_RESPONSE,
            }.get(command.type, BaseCommand.ERROR)
            assert answer.type == expected
        assert client.pending("ERROR") == 0, "something was refused before"
        client.ping()
        assert resident_bytes(apart.broker) < MUCH_BYTES
        heal(apart)
        for _ in range(MAX_CONCURRENT_REQUESTS):
            client.wait(lambda command: has_request_id(command) and body_of(command).request_id >= FIRST)
        assert client.partitions(topic) == 0
        assert neighbour.unharmed()


@pytest.mark.nightly
def test_topic_list_watchers_of_one_client_are_bounded(apart: Apart, topic: str) -> None:
    def watch(number: int) -> BaseCommand:
        asked = CommandWatchTopicList(
            request_id=FIRST + number, watcher_id=number, namespace="public/default", topics_pattern="none"
        )
        return BaseCommand(type=BaseCommand.WATCH_TOPIC_LIST, watch_topic_list=asked)

    with RawClient(apart.broker.url) as client, Neighbour(apart.broker, topic) as neighbour:
        client.socket.sendall(b"".join(encode_command(watch(number)) for number in range(MAX_TOPIC_WATCHERS + 1)))
        assert error_of(answer_to(client, FIRST + MAX_TOPIC_WATCHERS)) == "TooManyRequests"
        for number in range(MAX_TOPIC_WATCHERS):
            assert answer_to(client, FIRST + number).type == BaseCommand.WATCH_TOPIC_LIST_SUCCESS
        assert neighbour.unharmed()


def producer(topic: str, number: int, **fields: Any) -> BaseCommand:
    made = CommandProducer(topic=topic, producer_id=number, request_id=FIRST + number, **fields)
    return BaseCommand(type=BaseCommand.PRODUCER, producer=made)


def consumer(topic: str, number: int, **fields: Any) -> BaseCommand:
    made = CommandSubscribe(topic=topic, subscription="s", consumer_id=number, request_id=FIRST + number, **fields)
    return BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=made)


@pytest.mark.nightly
def test_producers_of_one_client_that_no_owner_answers_are_bounded(apart: Apart, topic: str) -> None:
    broker = apart.broker
    with Neighbour(broker, topic + "-n") as neighbour:
        with RawClient(broker.url) as client:
            client.partitions(topic)
            before = broker.stats()["tasks"]
            silence(apart)
            client.socket.sendall(
                b"".join(encode_command(producer(topic, number)) for number in range(MAX_CONCURRENT_PRODUCERS + 1))
            )
            assert error_of(answer_to(client, FIRST + MAX_CONCURRENT_PRODUCERS)) == "ServiceNotReady"
            assert client.pending("ERROR") == 0
            assert broker.stats()["producers"] == MAX_CONCURRENT_PRODUCERS
            assert resident_bytes(broker) < MUCH_BYTES
        wait_until(lambda: broker.stats()["tasks"] <= before, what="nothing is left of the client")
        assert broker.stats()["producers"] == 0
        heal(apart)
        assert neighbour.unharmed()


MUCH: Final = 4 << 20
SCHEMA: Final = Schema(name="s", schema_data=bytes(MUCH), type=Schema.Json)


def schema(topic: str, number: int) -> BaseCommand:
    made = CommandGetOrCreateSchema(topic=topic, request_id=FIRST + number, schema=SCHEMA)
    return BaseCommand(type=BaseCommand.GET_OR_CREATE_SCHEMA, get_or_create_schema=made)


@pytest.mark.parametrize(
    ("create", "error"),
    [
        pytest.param(schema, "TooManyRequests", id="requests"),
        pytest.param(partial(producer, schema=SCHEMA), "ServiceNotReady", marks=pytest.mark.nightly, id="producers"),
        pytest.param(
            partial(consumer, sub_type=0, schema=SCHEMA), "ServiceNotReady", marks=pytest.mark.nightly, id="consumers"
        ),
    ],
)
def test_requests_and_creations_of_one_client_are_bounded_in_bytes(
    apart: Apart, topic: str, create: Callable[[str, int], BaseCommand], error: str
) -> None:
    with RawClient(apart.broker.url) as client, Neighbour(apart.broker, topic + "-n") as neighbour:
        client.partitions(topic)  # the broker is connected
        silence(apart)
        most = MAX_REQUEST_BYTES // MUCH - 1  # with the commands around
        for number in range(most + 1):
            client.send(create(topic, number))
        assert error_of(answer_to(client, FIRST + most)) == error
        assert client.pending("ERROR") == 0
        assert resident_bytes(apart.broker) < MUCH_BYTES
        assert neighbour.unharmed()


@pytest.mark.nightly
@pytest.mark.parametrize("what", ["consumers", "producers"])
def test_closings_of_one_client_that_no_owner_answers_are_bounded(apart: Apart, topic: str, what: str) -> None:
    """Above the bound the broker reads no more from the client, until owners have answered or are given up."""
    each = 1000

    def create(number: int) -> BaseCommand:
        return producer(topic, number) if what == "producers" else consumer(topic, number, sub_type=1)

    def close(number: int) -> BaseCommand:
        if what == "producers":
            closing = CommandCloseProducer(producer_id=number, request_id=FIRST + number)
            return BaseCommand(type=BaseCommand.CLOSE_PRODUCER, close_producer=closing)
        left = CommandCloseConsumer(consumer_id=number, request_id=FIRST + number)
        return BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=left)

    broker = apart.broker
    with Neighbour(broker, topic + "-n") as neighbour:
        with RawClient(broker.url) as client:
            client.request(create(0))  # so that the connection to the owner is there
            before = broker.stats()["tasks"]
            silence(apart)
            for start in range(1, 3 * MAX_CONCURRENT_CLOSES, each):
                numbers = range(start, start + each)
                try:
                    for commands in (create, close):
                        client.socket.sendall(b"".join(encode_command(commands(number)) for number in numbers))
                        client.ping(3)
                except TimeoutError:
                    break  # it is not read any more
            assert broker.stats()["tasks"] <= before + MAX_CONCURRENT_CLOSES + 2 * each
            assert resident_bytes(broker) < MUCH_BYTES
            assert neighbour.unharmed()
            heal(apart)
        wait_until(lambda: broker.stats()["tasks"] <= before, 60, "nothing is left of the client")
