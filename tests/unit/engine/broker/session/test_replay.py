"""What a broker of a replay answers itself, and what it refuses: nothing of its clients reaches the source cluster."""

from types import SimpleNamespace

import pytest
from readonly_engine.broker.pool.bindings import Bindings
from readonly_engine.broker.replay.replay import Replay
from readonly_engine.broker.session.client_producers import ClientProducers
from readonly_engine.broker.session.lookup import answer_lookup
from readonly_engine.broker.session.requests import relay_to_any_broker, relay_to_schema_owner
from readonly_engine.config.settings import Unbound
from readonly_engine.metadata.errors import MetadataUnavailableError
from readonly_engine.topic.replay.clock import ReplayClock
from readonly_engine.topic.replay.shared import SharedClock
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandPartitionedTopicMetadataResponse, ServerError

ORDERS = "persistent://public/default/orders"


class Client:
    """A client of a broker without connections to the source cluster."""

    def __init__(self, partitions=None):
        self.refused, self.answers = [], []

        async def partitions_of(_):
            if partitions is None:
                raise MetadataUnavailableError("the store does not answer")
            return partitions

        shared = SharedClock(ReplayClock.started(0, None, 1.0, 0.0))
        self.identity, self.peer = SimpleNamespace(anonymous=False), "10.0.0.5"
        self.listener, self.tls = "", False
        self.services = SimpleNamespace(
            replay=Replay(shared, SimpleNamespace(partitions=partitions_of)),
            bindings=Bindings(),
            unbound=Unbound.REJECT,
            pool=SimpleNamespace(name="p", members={}),
            choose_broker=lambda **_: None,
        )

    def refuse(self, request_id, code, text):
        self.refused.append((request_id, code, text))

    def respond(self, command, request_id):
        self.answers.append((request_id, command))


def partition_metadata(topic=ORDERS):
    made = BaseCommand(type=BaseCommand.PARTITIONED_METADATA)
    made.partition_metadata.topic, made.partition_metadata.request_id = topic, 7
    return made


@pytest.mark.parametrize("partitions", [0, 3])
async def test_the_metadata_store_has_the_partitions_so_that_no_broker_makes_the_topic(partitions):
    client = Client(partitions)
    await relay_to_any_broker(client, partition_metadata())
    ((request_id, answer),) = client.answers
    found = answer.partition_metadata_response
    assert (request_id, found.partitions) == (7, partitions)
    assert found.response == CommandPartitionedTopicMetadataResponse.Success


@pytest.mark.parametrize(
    ("topic", "code", "says"),
    [
        (ORDERS, ServerError.MetadataError, "the store does not answer"),
        ("http://x", ServerError.InvalidTopicName, "it must start with persistent://"),
    ],
)
async def test_partitions_that_are_not_known_are_an_error(topic, code, says):
    client = Client()
    await relay_to_any_broker(client, partition_metadata(topic))
    found = client.answers[0][1].partition_metadata_response
    assert (found.response, found.error) == (CommandPartitionedTopicMetadataResponse.Failed, code)
    assert says in found.message


async def test_a_schema_is_not_created():
    client = Client()
    command = BaseCommand(type=BaseCommand.GET_OR_CREATE_SCHEMA)
    command.get_or_create_schema.topic, command.get_or_create_schema.request_id = ORDERS, 7
    await relay_to_schema_owner(client, command)
    assert [one[:2] for one in client.refused] == [(7, ServerError.NotAllowedError)]


async def test_a_producer_is_refused_with_the_reason():
    client = Client()
    command = BaseCommand(type=BaseCommand.PRODUCER)
    command.producer.topic, command.producer.request_id = ORDERS, 7
    producers = ClientProducers(client)
    producers.create(command, 100)
    ((request_id, code, text),) = client.refused
    assert (request_id, code, producers.all) == (7, ServerError.NotAllowedError, [])
    assert text.startswith("publishing is not possible here: this pool replays past messages")


async def test_a_topic_that_is_not_bound_leads_to_no_owner():
    client = Client()
    command = BaseCommand(type=BaseCommand.LOOKUP)
    command.lookup_topic.topic, command.lookup_topic.request_id = ORDERS, 7
    await answer_lookup(client, command)
    found = client.answers[0][1].lookup_topic_response
    assert found.error == ServerError.NotAllowedError
    assert "is not bound to pool p, which serves bound topics only" in found.message
