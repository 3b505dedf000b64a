"""A source cluster without explicit LAC, Pulsar's default: the last message of an idle topic is found all the same."""

import json
import uuid
from collections.abc import Iterator

import pulsar
import pytest

from devstack.pool import Pool
from devstack.pulsar.cluster import PulsarCluster
from tests.support.pulsar.fleet import quiet_client
from tests.support.pulsar.stacks import fresh_stack

pytestmark = [pytest.mark.nightly, pytest.mark.own_stack]


@pytest.fixture
def stock_pulsar() -> Iterator[PulsarCluster]:
    with fresh_stack("stock-lac", 27650, explicit_lac_ms=0) as stack:
        yield stack


def test_the_owner_is_asked_for_the_last_entry_when_the_topic_rests(stock_pulsar, tmp_path) -> None:
    assert stock_pulsar.admin().runtime_configuration()["bookkeeperExplicitLacIntervalInMills"] == "0"
    pool = Pool(stock_pulsar.endpoints, tmp_path, uuid.uuid4().hex, ["--topics", "persistent://public/default/.*"])
    topic = "persistent://public/default/resting"
    writer = quiet_client(stock_pulsar.endpoints.writer_url)
    try:
        pool.start()
        reader = quiet_client(pool.url)
        producer = writer.create_producer(topic, batching_enabled=False)
        consumer = reader.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
        for number in range(5):  # the first entry of a ledger, and later ones, each followed by a rest
            producer.send(b"%d" % number)
            message = consumer.receive(3000)
            assert message.data() == b"%d" % number
            consumer.acknowledge(message)
        found = json.loads(pool.brokers[0].get(f"/explicit-lac?topic={topic}"))
        assert (found["lastEntry"], found["lac"], found["explicit"]) == (4, 3, False)
        reader.close()
    finally:
        writer.close()
        pool.close()
