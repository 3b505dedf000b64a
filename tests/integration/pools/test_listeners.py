"""Named listeners: clients that name one, or come to its port, are sent to its addresses."""

import pulsar
import pytest

from devstack.common.ports import free_port
from tests.support.pulsar.fleet import TESTS, quiet_client
from tests.support.pulsar.raw_client import RawClient, RefusedError

pytestmark = pytest.mark.nightly

OUTSIDE = "127.0.0.2"
"""Another address of this machine, which stands for what clients outside of a cluster reach."""


@pytest.fixture
def external(own_pool):
    """A pool of one broker, and the URL of its external listener."""
    url = f"pulsar://{OUTSIDE}:{free_port()}"
    options = ("--advertised-listeners", f"external:{url}", "--bind-addresses", f"external:{url}")
    return own_pool(1, "--topics", TESTS, *options), url


def test_a_lookup_is_answered_with_the_addresses_of_its_listener(external, pulsar_client, topic) -> None:
    pool, url = external
    pulsar_client.create_producer(topic).send(b"0")
    with RawClient(pool.url) as client:
        assert client.lookup(topic) == pool.url
        assert client.lookup(topic, "external") == url
        with pytest.raises(RefusedError, match="no broker of the pool has a listener outer: it has external"):
            client.lookup(topic, "outer")
    with RawClient(url) as client:
        assert client.lookup(topic) == url  # it came to the listener's port, and need not name it
        assert client.lookup(topic, "external") == url


def test_the_stock_client_reads_through_a_listener(external, pulsar_client, topic) -> None:
    pool, url = external
    producer = pulsar_client.create_producer(topic)
    for number in range(20):
        producer.send(b"%d" % number)
    named = quiet_client(pool.url, listener_name="external")
    came = quiet_client(url)
    for client in (named, came):
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        assert [int(reader.read_next(10_000).data()) for _ in range(20)] == list(range(20))
        client.close()
