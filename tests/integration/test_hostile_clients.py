"""Clients that harm: what they send is not taken, what they hold is freed, and others at the same broker do not notice."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

import pytest
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

from tests.integration.raw_client import RawClient, RefusedError

if TYPE_CHECKING:
    import pulsar as pulsar_lib

    from devstack.pool import Pool
    from devstack.pulsar.status import Endpoints

HUGE_BYTES = 60 << 20
SLOW_PING_S = 1.0

FREED_S = 15.0
"""A stock owner takes 6 s; machines that run much else take longer."""

GIVEN_UP_S = 40.0
RETRY_S = 0.3


def connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=30)


class Innocent:
    """Pings all the time, as others do what they do; the slowest answer counts."""

    def __init__(self, url: str) -> None:
        self._client = RawClient(url)
        self.slowest = 0.0
        self.failure: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.01):
                self.slowest = max(self.slowest, self._client.ping())
        except Exception as error:  # noqa: BLE001 - the test says what it was
            self.failure = error


def sent_until_closed(sock: socket.socket, size: int) -> int:
    """Send so many bytes, or fewer where the server ends the connection; returns how many."""
    piece, sent = bytes(1 << 16), 0
    try:
        while sent < size:
            sent += sock.send(piece[: size - sent])
        assert sock.recv(1) == b"", "the server answers"
    except ConnectionError:
        pass
    return sent


def serving(url: str, topic: str) -> str:
    """Where a topic is served, of a broker of the pool or of its owner."""
    with RawClient(url) as client:
        return client.lookup(topic)


def seconds_until_free(url: str, topic: str) -> float:
    """How long others try to get an Exclusive subscription."""
    begin = time.monotonic()
    while True:
        with RawClient(url) as client:
            try:
                client.subscribe(topic, "s")
            except RefusedError as error:
                if error.args[1] != "ConsumerBusy" or time.monotonic() - begin > GIVEN_UP_S:
                    raise
            else:
                return time.monotonic() - begin
        time.sleep(RETRY_S)


def freeze(url: str, topic: str) -> RawClient:
    """A client that has an Exclusive subscription, and reads nothing of what comes."""
    client = RawClient(url)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
    client.subscribe(topic, "s", initial_position=CommandSubscribe.Earliest)
    client.flow(10_000)
    return client


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
        owner = serving(pulsar.writer_url, name)
        first, second = (url or owner for url in urls)
        with freeze(first, name):
            assert seconds_until_free(second, name) < FREED_S


def test_a_living_client_keeps_its_exclusive_subscription(pool: Pool, topic: str) -> None:
    with RawClient(pool.brokers[0].url) as first, RawClient(pool.brokers[0].url) as second:
        first.subscribe(topic, "s")
        stop = time.monotonic() + 8
        while time.monotonic() < stop:
            answering = threading.Thread(target=first.pending, args=("MESSAGE",))
            answering.start()
            with pytest.raises(RefusedError, match="ConsumerBusy"):
                second.subscribe(topic, "s", consumer_id=1)
            answering.join()
        first.ping()


@pytest.mark.parametrize("where", ["owner", "pool"])
def test_a_huge_frame_of_somebody_unknown_is_not_taken(pool: Pool, pulsar: Endpoints, where: str) -> None:
    url = pool.brokers[0].url if where == "pool" else pulsar.writer_url
    with Innocent(url) as innocent, connect(url) as sock:
        sock.sendall(HUGE_BYTES.to_bytes(4, "big"))
        assert sent_until_closed(sock, HUGE_BYTES) < HUGE_BYTES // 4
    assert innocent.failure is None
    assert innocent.slowest < SLOW_PING_S
