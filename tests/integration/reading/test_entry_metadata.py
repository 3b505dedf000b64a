"""The owner's own metadata of entries (index, broker publish time): through a pool byte for byte as from the owner."""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandRedeliverUnacknowledgedMessages,
    CommandSubscribe,
    MessageIdData,
)
from readonly_spark.errors import SourceError

from devstack.pool import Pool
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import PulsarSpec
from tests.support.entry_metadata import EXPOSED, WRITTEN
from tests.support.pulsar.fleet import TESTS, quiet_client
from tests.support.pulsar.raw_client import RawClient
from tests.support.pulsar.spark_driver import Driver, read_rows
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.own_stack]

BASE_PORT = 26050
MAGIC = b"\x0e\x02"
SINGLES = 5
BATCH = 10
BACKLOG, TAIL = SINGLES + 1, 3
"""Numbers of entries."""

OLD_VERSION = 17
"""Protocol version of clients that cannot take the metadata, whatever flags they send."""

EARLIEST = {"initial_position": CommandSubscribe.Earliest}
READER = {"durable": False, "start_message_id": MessageIdData(ledger_id=0, entry_id=0)}
SUBSCRIPTIONS: dict[str, dict[str, Any]] = {
    "exclusive": {"sub_type": CommandSubscribe.Exclusive, **EARLIEST},
    "shared": {"sub_type": CommandSubscribe.Shared, **EARLIEST},
    "failover": {"sub_type": CommandSubscribe.Failover, **EARLIEST},
    "key-shared": {"sub_type": CommandSubscribe.Key_Shared, **EARLIEST},
    "reader": {"sub_type": CommandSubscribe.Exclusive, **READER},
    "passed-through": {"sub_type": CommandSubscribe.Shared, **EARLIEST},
}
CLIENTS: dict[str, dict[str, Any]] = {
    "takes": {"entry_metadata": True},
    "does not": {"entry_metadata": False},
    "too old": {"entry_metadata": True, "protocol_version": OLD_VERSION},
}


@pytest.fixture(scope="module")
def stack() -> Iterator[PulsarCluster]:
    spec = PulsarSpec(
        name="entry-metadata", base_port=BASE_PORT, bookies=1, brokers=1, quick=True, settings=(WRITTEN, EXPOSED)
    )
    made = PulsarCluster(spec)
    made.up(renew=True)
    yield made
    made.down()


@pytest.fixture(params=["owner", "bookies"])
def pool(stack: PulsarCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pool]:
    """A pool with this source of new entries."""
    with closing(
        Pool(stack.endpoints, tmp_path, uuid.uuid4().hex, ["--topics", TESTS, "--tail", request.param])
    ) as made:
        made.start(1)
        yield made


class Publisher:
    """Publishes numbers at the owner."""

    def __init__(self, url: str, topic: str) -> None:
        self._client = quiet_client(url)
        self._single = self._client.create_producer(topic)
        self._batching = self._client.create_producer(
            topic, batching_enabled=True, batching_max_messages=BATCH, batching_max_publish_delay_ms=10_000
        )

    def publish(self, singles: int) -> None:
        """Publish single messages, and then a batch."""
        for number in range(singles):
            self._single.send(b"%d" % number)
        for number in range(BATCH):
            self._batching.send_async(b"batched %d" % number, None)
        self._batching.flush()

    def close(self) -> None:
        self._client.close()


@pytest.fixture
def publisher(stack: PulsarCluster, topic: str) -> Iterator[Publisher]:
    with closing(Publisher(stack.endpoints.writer_url, topic)) as made:
        yield made


class RawConsumer:
    """A consumer that shows what it gets."""

    def __init__(self, url: str, topic: str, name: str, client: str, stack: PulsarCluster) -> None:
        self._open = ExitStack()
        subscription = f"{name} {client} {uuid.uuid4().hex[:6]}"
        if name == "passed-through":
            # A pool leaves a Shared subscription that has consumers at the owner to the owner.
            idle = self._open.enter_context(RawClient(stack.endpoints.writer_url))
            idle.lookup(topic)
            idle.subscribe(topic, subscription, **SUBSCRIPTIONS[name])
        self.client = self._open.enter_context(RawClient(url, **CLIENTS[client]))
        self.client.lookup(topic)
        self.client.subscribe(topic, subscription, **SUBSCRIPTIONS[name])
        self.client.flow(1000)

    def take(self, count: int) -> list[bytes]:
        return [self.client.receive() for _ in range(count)]

    def again(self, count: int) -> list[bytes]:
        """The same entries once more."""
        redeliver = CommandRedeliverUnacknowledgedMessages(consumer_id=0)
        command = BaseCommand(
            type=BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES, redeliver_unacknowledged_messages=redeliver
        )
        self.client.send(command)
        return self.take(count)

    def close(self) -> None:
        self._open.close()


def kinds_of(pool: Pool, topic: str) -> list[str]:
    """The sources of a topic's new entries at the pool's brokers."""
    return [broker.stats()["topics"].get(topic, {}).get("tail", {}).get("source", "") for broker in pool.brokers]


def test_consumers_get_the_owners_metadata_of_entries_as_from_the_owner(
    stack: PulsarCluster, pool: Pool, topic: str, publisher: Publisher, request: pytest.FixtureRequest
) -> None:
    publisher.publish(SINGLES)
    cases = [(name, client) for name in SUBSCRIPTIONS for client in CLIENTS]
    with ExitStack() as open_:

        def consumers(url: str) -> dict[tuple[str, str], RawConsumer]:
            made = {case: RawConsumer(url, topic, *case, stack) for case in cases}
            for consumer in made.values():
                open_.callback(consumer.close)
            return made

        at = {"owner": consumers(stack.endpoints.writer_url), "pool": consumers(pool.url)}
        got = {(where, case): one.take(BACKLOG) for where, of in at.items() for case, one in of.items()}
        if request.node.callspec.params["pool"] == "owner":
            wait_until(lambda: kinds_of(pool, topic) == ["owner"], what="the owner pushes")
        publisher.publish(TAIL - 1)
        for where, of in at.items():
            for case, one in of.items():
                got[where, case] += one.take(TAIL)
                if case[0] == "shared":
                    got[where, case] += one.again(BACKLOG + TAIL)
    for case in cases:
        assert got["pool", case] == got["owner", case], case
        exposed = case[1] == "takes"
        assert [payload.startswith(MAGIC) for payload in got["pool", case]] == [exposed] * len(got["pool", case]), case


def test_a_query_starts_and_ends_at_the_number_of_a_message(
    stack: PulsarCluster, topic: str, publisher: Publisher
) -> None:
    publisher.publish(SINGLES)
    batch = list(range(SINGLES, SINGLES + BATCH))
    everything = [*range(SINGLES), *batch]
    starts = {0: everything, 3: [3, 4, *batch], 7: batch, batch[-1] + 1: []}
    ends = {0: [], 3: [0, 1, 2], SINGLES: list(range(SINGLES)), 7: everything, batch[-1] + 1: everything}
    cases = [("startingIndex", *one) for one in starts.items()] + [("endingIndex", *one) for one in ends.items()]
    for option, number, expected in cases:
        with closing(Driver(stack, topic, **{option: str(number)})) as driver:

            def read(driver: Driver = driver) -> list[int]:
                try:
                    return [row["index"] for row in read_rows(driver.tasks(), ("index",))]
                except SourceError:
                    return [-1]  # the bookies do not know the last entries yet

            wait_until(lambda read=read, expected=expected: read() == expected, 60, f"{option}={number}")
    with (
        closing(Driver(stack, topic, startingIndex=str(batch[-1] + 2))) as driver,
        pytest.raises(
            SourceError, match=f"has no message {batch[-1] + 2} yet; its next one has the number {batch[-1] + 1}"
        ),
    ):
        driver.tasks()


@pytest.mark.parametrize("pool", ["bookies"], indirect=True)
def test_a_pool_follows_an_owner_that_exposes_its_metadata_no_more(
    stack: PulsarCluster, pool: Pool, topic: str, publisher: Publisher
) -> None:
    publisher.publish(SINGLES)
    before = RawConsumer(pool.url, topic, "exclusive", "takes", stack)
    assert [payload.startswith(MAGIC) for payload in before.take(BACKLOG)] == [True] * BACKLOG
    hidden = PulsarCluster(replace(stack.spec, settings=(WRITTEN,)), stack.state.root)
    try:
        hidden.up()  # with another setting, so it restarts the broker

        def follows() -> bool:
            publisher.publish(0)
            (payload,) = before.take(1)
            return not payload.startswith(MAGIC)

        wait_until(follows, 60, what="new messages come without it")
        for name in SUBSCRIPTIONS:
            pair = [RawConsumer(url, topic, name, "takes", hidden) for url in (stack.endpoints.writer_url, pool.url)]
            at_owner, through = [one.take(BACKLOG) for one in pair]
            assert through == at_owner, name
            assert not any(payload.startswith(MAGIC) for payload in through), name
            for one in pair:
                one.close()
    finally:
        before.close()
        stack.up()
