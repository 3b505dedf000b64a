"""What ZooKeeper holds of a real cluster, followed through losses of the session."""

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import pulsar
import pytest
from kazoo.client import KazooClient
from readonly_engine.bookkeeper.pool import BookiePool
from readonly_engine.metadata import watches
from readonly_engine.metadata.cluster import ClusterMetadata
from readonly_engine.metadata.store import MetadataStore
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.topic.cursors import read_cursor

from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.status import Endpoints
from tests.integration.conftest import zookeeper_only
from tests.support.pulsar.metadata import opened_store
from tests.support.waiting import until

DEADLINE_S = 60


@asynccontextmanager
async def metadata_of(pulsar_: Endpoints) -> AsyncIterator[tuple[MetadataStore, ClusterMetadata, BookiePool]]:
    async with opened_store(pulsar_.metadata_store) as store:
        cluster = ClusterMetadata(store)
        with closing(BookiePool(cluster.bookie_address)) as pool:
            yield store, cluster, pool


@pytest.fixture
def other(pulsar: Endpoints):
    """Another client of the same ZooKeeper, which writes below our own root."""
    client = KazooClient(
        pulsar.metadata_store.removeprefix("zk:"), timeout=40
    )  # outlives what a test does to ZooKeeper
    client.start(10)
    root = f"/pulsar-readonly/test-{uuid.uuid4().hex[:8]}"
    yield client, root
    client.delete(root, recursive=True) if client.exists(root) else None
    client.stop()
    client.close()


def end_session(pulsar_: Endpoints, session: tuple[int, bytes]) -> None:
    """Whoever shows a session's id and password takes it over, and may close it."""
    thief = KazooClient(pulsar_.metadata_store.removeprefix("zk:"), client_id=session)
    thief.start()
    thief.stop()
    thief.close()


@zookeeper_only
async def test_a_node_is_followed_from_before_it_is_there_until_after(pulsar, other) -> None:
    client, root = other
    told, names = [], []
    async with metadata_of(pulsar) as (store, _, _):
        store.watch(f"{root}/node", lambda node: told.append(node and node.value))
        store.watch_children(root, names.append)
        await until(lambda: told == [None] and names == [frozenset()], 60, what="first looks")
        await asyncio.to_thread(client.create, f"{root}/node", b"one")
        await until(lambda: told[-1] == b"one" and names[-1] == {"node"}, 60, what="made")
        await asyncio.to_thread(client.set, f"{root}/node", b"two")
        await until(lambda: told[-1] == b"two", 60, what="changed")
        await asyncio.to_thread(client.delete, f"{root}/node")
        await until(lambda: told[-1] is None and names[-1] == frozenset(), 60, what="deleted")
        assert await store.children(f"{root}/nowhere") is None
        with pytest.raises(ValueError, match="must not be written"):
            await store.register("/managed-ledgers/x", b"")


async def test_of_two_writers_of_a_version_one_is_told_that_it_was_late(pulsar) -> None:
    path = f"/pulsar-readonly/test-{uuid.uuid4().hex[:8]}/a/b"
    async with metadata_of(pulsar) as (store, _, _):
        first = await store.put_if(path, b"1", None)
        assert first is not None
        assert await store.put_if(path, b"2", None) is None
        second = await store.put_if(path, b"2", first)
        assert second is not None
        assert await store.put_if(path, b"3", first) is None
        found = await store.get(path)
        assert (found.value, found.version) == (b"2", second)
        await store.remove(path)
        assert await store.put_if(path, b"3", second) is None
        assert await store.get(path) is None
        with pytest.raises(ValueError, match="must not be written"):
            await store.put_if("/managed-ledgers/x", b"", None)


@zookeeper_only
async def test_watches_and_our_own_nodes_survive_the_loss_of_the_session(pulsar, other, monkeypatch) -> None:
    client, root = other
    told, names = [], []
    async with metadata_of(pulsar) as (store, _, _):
        store.watch(f"{root}/node", lambda node: told.append(node and node.value))
        store.watch_children(f"{root}/members", names.append)
        await store.register(f"{root}/members/me", b"here")
        await until(lambda: told == [None] and names and names[-1] == {"me"}, 60, what="first looks")
        first = store._source._client.client_id[0]
        for _ in range(10):  # our own client may have been quicker, and have taken it back before it was closed
            await asyncio.to_thread(end_session, pulsar, store._source._client.client_id)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(3):
                    await until(lambda: store.connected and store._source._client.client_id[0] != first)
                    break
        assert store._source._client.client_id[0] != first

        def ours() -> bool:
            stat = client.retry(client.exists, f"{root}/members/me")
            return stat is not None and stat.ephemeralOwner == store._source._client.client_id[0]

        deadline = time.monotonic() + DEADLINE_S
        while not await asyncio.to_thread(ours):
            assert time.monotonic() < deadline, "our node is not there again"
            await asyncio.sleep(0.1)
        # Watches of the new session, not the slow poll, must tell.
        monkeypatch.setattr(watches.NodeWatch, "_compare", None)
        for value in (b"one", b"two"):
            write = client.set if client.retry(client.exists, f"{root}/node") else client.create
            client.retry(write, f"{root}/node", value)
            await until(lambda value=value: told[-1] == value, 60, what="told after the loss of the session")
        client.retry(client.create, f"{root}/members/you")
        await until(lambda: names[-1] == {"me", "you"}, 60, what="children told after the loss of the session")


async def test_partitions_topics_and_namespaces(pulsar, admin: PulsarAdmin, topic: str) -> None:
    admin.create_partitioned_topic(topic, 3)
    admin.create_topic(f"{topic} and more")
    name = parse_topic_name(topic)
    async with metadata_of(pulsar) as (_, cluster, _):
        assert await cluster.partitions(name) == 3
        assert await cluster.partitions(name.at(0)) == 0
        assert (await cluster.partitioned_topics("public", "default"))[name] == 3
        topics = await cluster.topics("public", "default")
        assert {name.at(0), name.at(1), name.at(2), parse_topic_name(f"{topic} and more")} <= set(topics)
        assert "public/default" in await cluster.namespaces()
        assert await cluster.topics("public", "nowhere") == []
        assert await cluster.topic(parse_topic_name(f"{topic}-none")) is None


def acked_with_holes(client, topic: str, count: int) -> None:
    shared = pulsar.ConsumerType.Shared
    consumer = client.subscribe(topic, "holes", consumer_type=shared)
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(count):
        producer.send(b"%d" % number)
    for _ in range(count):
        message = consumer.receive(20_000)
        number = int(message.data())
        if number < 5 or number % 10 == 0:
            consumer.acknowledge(message)
    consumer.close()


async def test_a_subscription_is_where_the_owner_says_it_is_in_use_and_after_an_unload(
    pulsar, pulsar_client, admin: PulsarAdmin, topic: str
) -> None:
    acked_with_holes(pulsar_client, topic, 250)
    name = parse_topic_name(topic)

    def owners_word():
        return admin.internal_stats(topic)["cursors"]["holes"]

    def told_by(state) -> tuple[str, str]:
        ranges = ",".join(f"({low[0]}:{low[1]}..{high[0]}:{high[1]}]" for low, high in state.holes)
        return f"{state.mark_delete[0]}:{state.mark_delete[1]}", f"[{ranges}]"

    async with metadata_of(pulsar) as (_, cluster, pool):
        assert await cluster.subscriptions(name) == ["holes"]
        assert await read_cursor(cluster, pool, name, "nobody") is None
        deadline = time.monotonic() + 90  # the owner flushes what is left every 60 s
        while True:
            state = await read_cursor(cluster, pool, name, "holes")
            stats = await asyncio.to_thread(owners_word)
            if told_by(state) == (stats["markDeletePosition"], stats["individuallyDeletedMessages"]):
                break
            assert time.monotonic() < deadline, f"{state} is not {stats}"
            await asyncio.sleep(0.5)
        assert state.cursor_ledger >= 0
        await asyncio.to_thread(admin.unload, topic)
        state = await read_cursor(cluster, pool, name, "holes")
        assert state.cursor_ledger == -1
        assert told_by(state) == (stats["markDeletePosition"], stats["individuallyDeletedMessages"])
