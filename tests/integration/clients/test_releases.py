"""Releases of Pulsar that the tests do not run on by default, in short: all types of subscriptions read and ack.

`make test PULSAR=RELEASE` runs all tests on one of them.
"""

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from devstack.pool import Pool
from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.assembled import assembled_versions
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import OXIA
from tests.support.java import need_java
from tests.support.messages import numbers_of, publish_numbers
from tests.support.pulsar.fleet import quiet_client
from tests.support.pulsar.stacks import LEDGER_ENTRIES, fresh_stack, kept_ledgers
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nightly

TYPES = ("Exclusive", "Failover", "Shared", "KeyShared")
RECEIVE_MS = 20_000
COUNT = 2 * LEDGER_ENTRIES + 10


def backlogs(admin: PulsarAdmin, topic: str) -> dict[str, int]:
    """The backlog of each durable subscription at the owner."""
    found = admin.stats(topic)["subscriptions"]
    return {name: one["msgBacklog"] for name, one in found.items() if one["isDurable"]}


@pytest.fixture(scope="module")
def on_oxia() -> Iterator[PulsarCluster]:
    """The newest release on Oxia as by Pulsar's Helm chart: brokers and bookies have a namespace each."""
    newest = assembled_versions()[-1]
    need_java(newest)
    with fresh_stack("on-oxia", 24700, version=newest, metadata=OXIA, apart=True, settings=kept_ledgers()) as stack:
        yield stack


@pytest.mark.parametrize("cursors", ["owner", "local"])
def test_all_types_read_through_a_pool(release: PulsarCluster, tmp_path: Path, topic: str, cursors: str) -> None:
    read_all_types(release, tmp_path, topic, cursors)


@pytest.mark.parametrize("cursors", ["owner", "local"])
def test_all_types_read_through_a_pool_on_oxia(
    on_oxia: PulsarCluster, tmp_path: Path, topic: str, cursors: str
) -> None:
    read_all_types(on_oxia, tmp_path, topic, cursors)


def test_the_topic_tool_reads_ledgers_from_the_bookies_own_store(on_oxia: PulsarCluster, topic: str) -> None:
    owner = quiet_client(on_oxia.endpoints.writer_url)
    publish_numbers(owner, topic, range(COUNT), batching_enabled=False)
    owner.close()
    stores = [
        *("--metadata-store-url", on_oxia.endpoints.metadata_store),
        *("--bookkeeper-metadata-store-url", on_oxia.endpoints.bookkeeper_metadata_store),
    ]
    words = [sys.executable, "-m", "readonly_engine.command", "topic", "read", topic, "-o", "raw", *stores]
    read = subprocess.run(words, capture_output=True, timeout=60, check=True).stdout
    assert read == b"".join(b"%d" % number for number in range(COUNT))


def read_all_types(release: PulsarCluster, tmp_path: Path, topic: str, cursors: str) -> None:
    """Publish, receive and ack by all types, and see that the acks are kept."""
    assert release.admin().version().startswith(release.spec.version.partition("-")[0])
    owner, names = quiet_client(release.endpoints.writer_url), [f"s-{kind}" for kind in TYPES]
    pool = Pool(
        release.endpoints,
        tmp_path,
        uuid.uuid4().hex,
        ["--topics", "persistent://public/default/.*", "--cursors", cursors],
    )
    try:
        pool.start(1)
        client = quiet_client(pool.url)
        consumers = [
            client.subscribe(topic, name, consumer_type=getattr(pulsar.ConsumerType, kind))
            for kind, name in zip(TYPES, names, strict=True)
        ]
        publish_numbers(owner, topic, range(COUNT), batching_enabled=False)
        publish_numbers(owner, topic, range(COUNT, 2 * COUNT))
        for consumer in consumers:
            got = [consumer.receive(RECEIVE_MS) for _ in range(2 * COUNT)]
            assert sorted(numbers_of(got)) == list(range(2 * COUNT))
            for message in got:
                consumer.acknowledge(message)
        admin = release.admin()
        if cursors == "owner":
            wait_until(lambda: backlogs(admin, topic) == dict.fromkeys(names, 0), 30)
        else:
            assert not set(names) & backlogs(admin, topic).keys()
        for consumer in consumers:
            consumer.close()
        publish_numbers(owner, topic, [7])
        for name in names:
            assert numbers_of([client.subscribe(topic, name).receive(RECEIVE_MS)]) == [7], "acks were kept"
        client.close()
    finally:
        pool.close()
        owner.close()
