"""Clients that freeze lose what they hold to others that ask for it, and those that live keep it."""

import socket
import threading
import time
from typing import Any

import pulsar as pulsar_lib
import pytest
from readonly_engine.wire.pulsar_pb2 import (
    CommandSubscribe,
    IntRange,
    KeySharedMeta,
    KeySharedMode,
)

from devstack.pool import Pool
from devstack.pulsar.status import Endpoints
from tests.support.pulsar.raw_client import RawClient, RefusedError

pytestmark = pytest.mark.second_stack

FREED_S = 15.0
"""A stock owner takes 6 s; machines that run much else take longer."""

GIVEN_UP_S = 40.0
RETRY_S = 0.3


def serving(url: str, topic: str) -> str:
    """Where a topic is served, of a broker of the pool or of its owner."""
    with RawClient(url) as client:
        return client.lookup(topic)


def seconds_until_free(url: str, topic: str, **fields: Any) -> float:
    """How long others try to get an Exclusive subscription, or ranges of hashes."""
    begin = time.monotonic()
    while True:
        with RawClient(url) as client:
            try:
                client.subscribe(topic, "s", **fields)
            except RefusedError as error:
                if (
                    error.args[1] not in {"ConsumerBusy", "ConsumerAssignError"}
                    or time.monotonic() - begin > GIVEN_UP_S
                ):
                    raise
            else:
                return time.monotonic() - begin
        time.sleep(RETRY_S)


def freeze(url: str, topic: str, **fields: Any) -> RawClient:
    """A client that has an Exclusive subscription, or ranges of hashes, and reads nothing of what comes."""
    client = RawClient(url)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
    client.subscribe(topic, "s", initial_position=CommandSubscribe.Earliest, **fields)
    client.flow(10_000)
    return client


@pytest.mark.nightly
@pytest.mark.parametrize("where", ["owner", "pool", "pool and owner", "two brokers of the pool"])
def test_a_frozen_client_loses_its_exclusive_subscription(
    pool: Pool, pulsar: Endpoints, pulsar_client: pulsar_lib.Client, topic: str, where: str
) -> None:
    """It has much to read still: more than sockets take."""
    urls = {
        "owner": (None, None),
        "pool": (pool.brokers[0].url, pool.brokers[0].url),
        "pool and owner": (pool.brokers[0].url, None),
        "two brokers of the pool": (pool.brokers[0].url, pool.brokers[1].url),
    }[where]
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    for _ in range(300):
        producer.send_async(bytes(100_000), lambda *_: None)
    producer.flush()
    quiet = topic + "-quiet"  # one for which nothing waits is frozen as well
    for name in (topic, quiet):
        pulsar_client.create_producer(
            name
        ).close()  # its owner has loaded it: a lookup alone may name a broker that has not
        owner = serving(pulsar.writer_url, name)
        first, second = (url or owner for url in urls)
        with freeze(first, name):
            assert seconds_until_free(second, name) < FREED_S


def sticky(first: int, last: int) -> dict[str, Any]:
    """Fields of a SUBSCRIBE for a range of hashes."""
    meta = KeySharedMeta(key_shared_mode=KeySharedMode.STICKY, hash_ranges=[IntRange(start=first, end=last)])
    return {"sub_type": CommandSubscribe.Key_Shared, "key_shared_meta": meta}


def test_a_frozen_client_loses_its_ranges_of_hashes(pool: Pool, topic: str) -> None:
    url = pool.brokers[0].url
    with freeze(url, topic, **sticky(0, 40_000)), freeze(url, topic, **sticky(40_001, 65_535)):
        assert seconds_until_free(url, topic, **sticky(30_000, 50_000)) < FREED_S


def test_a_living_client_keeps_its_exclusive_subscription(pool: Pool, topic: str) -> None:
    with RawClient(pool.brokers[0].url) as first, RawClient(pool.brokers[0].url) as second:
        first.subscribe(topic, "s")
        stop, answered = time.monotonic() + 8, threading.Event()

        def answer() -> None:
            """Answer the broker's questions for as long as the second client asks for the subscription."""
            while not answered.is_set():
                first.pending("MESSAGE")

        while time.monotonic() < stop:
            answered.clear()
            answering = threading.Thread(target=answer)
            answering.start()
            try:
                with pytest.raises(RefusedError, match="ConsumerBusy"):
                    second.subscribe(topic, "s", consumer_id=1)
            finally:
                answered.set()
                answering.join()
        first.ping()
