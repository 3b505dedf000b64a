"""Producers on the pool's URL: everything that they send is stored once, in order, at the owner."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pulsar
import pytest

from devstack.pool import Pool
from tests.integration.fleet import quiet_client, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from devstack.pulsar.admin import PulsarAdmin

EARLIEST = pulsar.InitialPosition.Earliest
PRODUCERS = 5
MESSAGES = 40


@pytest.fixture(scope="module")
def namespaces(admin: PulsarAdmin) -> dict[bool, str]:
    """Two namespaces of this file: without and with deduplication."""
    tag = uuid.uuid4().hex[:8]
    names = {on: f"public/test-producers-{'dedup' if on else 'plain'}-{tag}" for on in (False, True)}
    for on, name in names.items():
        admin.create_namespace(name)
        admin.set_deduplication(name, enabled=on)
    return names


@pytest.fixture(scope="module")
def producers_pool(pulsar_stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """Two brokers that serve these namespaces."""
    folder = tmp_path_factory.mktemp("producers")
    pool = Pool(pulsar_stack.endpoints, folder, uuid.uuid4().hex, ["--topics", "persistent://public/test-producers-.*"])
    try:
        pool.start(2)
        yield pool
    finally:
        pool.close()


class Receipts:
    """Counts what became of messages that were sent asynchronously."""

    def __init__(self) -> None:
        self.good = 0
        self.bad: list[pulsar.Result] = []

    def wait(self, count: int) -> None:
        """Wait until so many are stored."""
        wait_for(lambda: self.good >= count, what=f"{count} receipts")

    def __call__(self, result: pulsar.Result, _: pulsar.MessageId) -> None:
        """Called by the client."""
        if result == pulsar.Result.Ok:
            self.good += 1
        else:
            self.bad.append(result)


def stored(client: pulsar.Client, topic: str) -> list[int]:
    """The numbers that the owner has stored in a topic."""
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    numbers = []
    while reader.has_message_available():
        numbers.append(int(reader.read_next(10_000).data()))
    reader.close()
    return numbers


@pytest.mark.parametrize("deduplication", [False, True], ids=["plain", "deduplication"])
@pytest.mark.parametrize("batching", [False, True], ids=["single", "batches"])
@pytest.mark.parametrize("waiting", [False, True], ids=["async", "sync"])
def test_everything_that_is_sent_is_stored_once_in_order(
    producers_pool: Pool,
    pulsar_client: pulsar.Client,
    namespaces: dict[bool, str],
    deduplication: bool,
    batching: bool,
    waiting: bool,
) -> None:
    client = quiet_client(producers_pool.url)
    options: dict[str, Any] = {"batching_enabled": batching, "batching_max_publish_delay_ms": 1}
    for _ in range(PRODUCERS):
        topic = f"persistent://{namespaces[deduplication]}/{uuid.uuid4().hex[:12]}"
        producer = client.create_producer(topic, **options)
        assert producer.is_connected(), "right after it was created"
        receipts = Receipts()
        for number in range(MESSAGES):
            if waiting:
                producer.send(b"%d" % number)
            else:
                producer.send_async(b"%d" % number, receipts)
            assert producer.is_connected()
        producer.flush()
        assert producer.is_connected(), "and for life"
        if not waiting:
            receipts.wait(MESSAGES)
        assert stored(pulsar_client, topic) == list(range(MESSAGES))
        assert producer.last_sequence_id() == MESSAGES - 1
        producer.close()
    client.close()
