"""Differences between releases of Pulsar at their own defaults, each with a test that shows it through a pool."""

import asyncio
from contextlib import closing
from typing import Final

import pulsar
import pytest
from readonly_engine.bookkeeper.ledger import LedgerReader
from readonly_engine.bookkeeper.pool import BookiePool
from readonly_engine.metadata.cluster import ClusterMetadata
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.topic.cursors import CursorState, read_cursor
from readonly_engine.wire.managed_ledger_pb2 import CursorEntry

from devstack.pool import Pool
from devstack.pulsar.cluster import PulsarCluster
from tests.support.messages import numbers_of, publish_numbers
from tests.support.pulsar.fleet import SHARED, quiet_client
from tests.support.pulsar.metadata import opened_store
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nightly

RECEIVE_MS: Final = 20_000
QUIET_MS: Final = 1_500
"""A message that must not come would have come by then."""

DEFAULTS: Final = {
    "4.2.4": {
        "acknowledgmentAtBatchIndexLevelEnabled": "true",
        "managedLedgerPersistIndividualAckAsLongArray": "true",
        "managedLedgerInfoCompressionType": "NONE",
        "managedCursorInfoCompressionType": "NONE",
        "keySharedLookAheadMsgInReplayThresholdPerConsumer": "2000",
        "keySharedLookAheadMsgInReplayThresholdPerSubscription": "20000",
    },
    "5.0.1": {
        "acknowledgmentAtBatchIndexLevelEnabled": "true",
        "managedLedgerPersistIndividualAckAsLongArray": "true",
        "managedLedgerInfoCompressionType": "LZ4",
        "managedCursorInfoCompressionType": "LZ4",
        "keySharedLookAheadMsgInReplayThresholdPerConsumer": "4000",
        "keySharedLookAheadMsgInReplayThresholdPerSubscription": "40000",
    },
}
"""Defaults that differ from those of 4.0.8: false, false, NONE, NONE, 2000 and 20000."""

COMPRESSED: Final = bytes.fromhex("4778")
"""First bytes of a compressed znode (MAGIC_MANAGED_INFO_METADATA of MetaStoreImpl)."""


def test_the_defaults_that_differ(release: PulsarCluster) -> None:
    expected = DEFAULTS[release.spec.version]
    configuration = release.admin().runtime_configuration()
    assert {name: configuration[name] for name in expected} == expected


async def test_lists_of_ledgers_are_compressed(
    release: PulsarCluster, release_owner: pulsar.Client, release_pool: Pool, topic: str
) -> None:
    publish_numbers(release_owner, topic, range(250), batching_enabled=False)
    codec = release.admin().runtime_configuration()["managedLedgerInfoCompressionType"]
    async with opened_store(release.endpoints.metadata_store) as store:
        node = await store.get(f"/managed-ledgers/public/default/persistent/{topic.rsplit('/', 1)[1]}")
    assert node is not None
    assert node.value.startswith(COMPRESSED) == (codec != "NONE")
    with closing(quiet_client(release_pool.url)) as client:
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        assert numbers_of([reader.read_next(RECEIVE_MS) for _ in range(250)]) == list(range(250))


def test_stored_acks_are_long_arrays(release: PulsarCluster, release_owner: pulsar.Client, topic: str) -> None:
    """The owner stores the bits of acked entries; the engine reads the same holes from them as the owner reports."""
    consumer = release_owner.subscribe(topic, "s", SHARED)
    publish_numbers(release_owner, topic, range(250), batching_enabled=False)
    messages = [consumer.receive(RECEIVE_MS) for _ in range(250)]
    acked = [message for message in messages if int(message.data()) % 3 == 1]
    for message in acked:
        consumer.acknowledge(message)
    positions = {(message.message_id().ledger_id(), message.message_id().entry_id()) for message in acked}

    async def stored() -> tuple[CursorState, CursorEntry] | None:
        async with opened_store(release.endpoints.metadata_store) as store:
            cluster = ClusterMetadata(store)
            with closing(BookiePool(cluster.bookie_address)) as bookies:
                state = await read_cursor(cluster, bookies, parse_topic_name(topic), "s")
                assert state is not None
                metadata = await cluster.ledger(state.cursor_ledger)
                if metadata is None:  # the owner makes the ledger when it stores the first ack
                    return None
                reader = LedgerReader(state.cursor_ledger, metadata, bookies)
                last = (await reader.read_lac()).last_entry
                if last < 0:
                    return None
                (entry,) = await reader.read(last, last)
            await bookies.wait_closed()
            return state, CursorEntry.FromString(entry.payload)

    def holes(state: CursorState) -> set[tuple[int, int]]:
        ranges = [(lower, upper) for lower, upper in state.holes if lower[0] == upper[0]]
        assert len(ranges) == len(state.holes)
        return {(ledger, entry) for (ledger, first), (_, last) in ranges for entry in range(first + 1, last + 1)}

    def complete() -> tuple[CursorState, CursorEntry] | None:
        found = asyncio.run(stored())
        return found if found is not None and holes(found[0]) == positions else None

    _, entry = wait_until(complete, 90, "the owner has stored all acks")
    assert entry.deleted_bits
    assert not entry.individually_deleted


@pytest.mark.parametrize("through", ["owner", "pool"])
def test_key_shared_looks_ahead_as_far_as_the_release(
    release: PulsarCluster, release_owner: pulsar.Client, release_pool: Pool, topic: str, through: str
) -> None:
    """A consumer without permits holds back its key. Other consumers get later messages up to the limit only."""
    per_consumer = int(DEFAULTS[release.spec.version]["keySharedLookAheadMsgInReplayThresholdPerConsumer"])
    client = release_owner if through == "owner" else quiet_client(release_pool.url)
    slow = client.subscribe(topic, "s", pulsar.ConsumerType.KeyShared, receiver_queue_size=1, consumer_name="slow")
    quick = client.subscribe(topic, "s", pulsar.ConsumerType.KeyShared, consumer_name="quick")
    try:
        publish_numbers(release_owner, topic, range(100), key=str, batching_enabled=False)
        keys = {int(quick.receive(RECEIVE_MS).data())}
        first = slow.receive(RECEIVE_MS)
        # The slow consumer has one more message in its queue, and no permits after it.
        slow_key, quick_key = first.partition_key(), str(keys.pop())
        waiting = 5_000
        publish_numbers(release_owner, topic, range(100, 100 + waiting), key=lambda _: slow_key, batching_enabled=False)
        publish_numbers(release_owner, topic, [-1], key=lambda _: quick_key, batching_enabled=False)
        got = []
        try:
            while -1 not in got:
                got.append(int(quick.receive(RECEIVE_MS if 2 * per_consumer > waiting + 100 else QUIET_MS).data()))
        except pulsar.Timeout:
            pass
        assert (-1 in got) == (2 * per_consumer > waiting + 100)
    finally:
        slow.close()
        quick.close()
        if client is not release_owner:
            client.close()


def test_policies_of_a_topic_count_wherever_they_are_stored(
    release: PulsarCluster, release_owner: pulsar.Client, release_pool: Pool, topic: str
) -> None:
    """5.0.1 keeps them in the metadata store here (PIP-469), earlier releases in the namespace's system topic."""
    consumer = release_owner.subscribe(topic, "s", SHARED)
    consumer.close()
    admin, limit = release.admin(), 20
    admin.set_max_unacked_on_consumer(topic, limit)
    publish_numbers(release_owner, topic, range(3 * limit), batching_enabled=False)
    in_system_topic = any("/__change_events" in name for name in admin.topics(system=True))
    assert in_system_topic != release.spec.version.startswith("5.")
    with closing(quiet_client(release_pool.url)) as client:
        consumer = client.subscribe(topic, "s", SHARED)
        messages = [consumer.receive(RECEIVE_MS) for _ in range(limit)]
        with pytest.raises(pulsar.Timeout):
            consumer.receive(QUIET_MS)
        for message in messages:
            consumer.acknowledge(message)
        assert numbers_of([consumer.receive(RECEIVE_MS) for _ in range(limit)]) == list(range(limit, 2 * limit))
