"""Local cursors where the owner deletes subscriptions that have no consumer: it must not delete the guards of the pool."""

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pulsar
import pytest

from devstack.pool import Pool
from devstack.pulsar.cluster import PulsarCluster
from tests.support.messages import numbers_of, publish_numbers
from tests.support.pulsar.fleet import quiet_client
from tests.support.pulsar.stacks import broker_settings, fresh_stack
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.own_stack]

EXPIRATION_MINUTES: Final = 1
LEDGER_ENTRIES: Final = 50
TOTAL: Final = 200
ACKED: Final = 10
RECEIVE_MS: Final = 20_000
EARLIEST: Final = pulsar.InitialPosition.Earliest


@pytest.fixture
def stack() -> Iterator[PulsarCluster]:
    """A stack of its own, which looks for inactive subscriptions once a minute, and not only every five."""
    settings = broker_settings(
        subscriptionExpiryCheckIntervalInMinutes=1,
        managedLedgerMaxEntriesPerLedger=LEDGER_ENTRIES,
        managedLedgerMinLedgerRolloverTimeMinutes=0,
    )
    with fresh_stack("expiring", 15850, settings=settings) as stack:
        yield stack


def test_messages_of_a_consumer_that_rests_outlive_the_expiration_of_subscriptions(
    stack: PulsarCluster, tmp_path: Path
) -> None:
    admin, namespace = stack.admin(), f"public/expiring-{uuid.uuid4().hex[:8]}"
    topic = f"persistent://{namespace}/orders"
    admin.create_namespace(namespace)
    admin.set_namespace_policy(namespace, "subscriptionExpirationTime", EXPIRATION_MINUTES)
    pool = Pool(stack.endpoints, tmp_path, uuid.uuid4().hex, ["--topics", topic, "--cursors", "local"])
    writer = quiet_client(stack.endpoints.writer_url)
    reader = None
    try:
        pool.start(1)
        reader = quiet_client(pool.url)
        consumer = reader.subscribe(topic, "rests", initial_position=EARLIEST, receiver_queue_size=5)
        ids = publish_numbers(writer, topic, range(TOTAL), batching_enabled=False)
        got = [consumer.receive(RECEIVE_MS) for _ in range(ACKED)]
        consumer.acknowledge_cumulative(got[-1])
        admin.create_subscription(topic, "unused")
        started = time.monotonic()
        wait_until(lambda: "unused" not in admin.subscriptions(topic), 240)
        # It was created later than the guard, and is gone. One more check of the owner follows.
        again = time.monotonic() + 60 * EXPIRATION_MINUTES + 5
        wait_until(lambda: time.monotonic() > again, 60 * EXPIRATION_MINUTES + 20)
        admin.trim(topic)
        assert time.monotonic() - started > 60 * EXPIRATION_MINUTES
        assert int(admin.internal_stats(topic)["ledgers"][0]["ledgerId"]) == ids[0].ledger_id()
        rest = [consumer.receive(RECEIVE_MS) for _ in range(TOTAL - ACKED)]
        assert numbers_of(rest) == list(range(ACKED, TOTAL))
    finally:
        for client in (reader, writer):
            if client is not None:
                client.close()
        pool.close()
