"""The HTTP port of a broker under strangers: the kubelet's probes and the clients of the Pulsar port do not notice them."""

from __future__ import annotations

import re
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import pytest
from readonly_engine.http.guard import BOUNDS

from devstack.pool import BrokerProcess, Pool
from tests.support.innocent_client import InnocentClient
from tests.support.pulsar.raw_client import RawClient
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nightly

PROBE_S: Final = 2.0
"""`timeoutSeconds` of the probes of a pool's pods."""

SLOW_PING_S: Final = 1.5
SLACK_S: Final = 10.0
"""Deadlines are kept to within this, on machines where much else runs."""

OTHERS: Final = 8
"""Descriptors that a broker opens and closes meanwhile for other ends, such as connections to owners."""

MUCH_BYTES: Final = 64 << 20
FLOOD: Final = 10_000
GET: Final = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


def probe(broker: BrokerProcess, path: str) -> float:
    """How long the broker takes to answer one probe, in seconds; an error or a late answer fails."""
    begin = time.monotonic()
    with socket.create_connection(("127.0.0.1", broker.http_port), timeout=PROBE_S) as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        answer = sock.recv(1 << 10)
    assert answer.startswith(b"HTTP/1.1 200"), answer
    return time.monotonic() - begin


def descriptors(broker: BrokerProcess) -> int:
    return len(list(Path(f"/proc/{broker.process.pid}/fd").iterdir()))


def resident_bytes(broker: BrokerProcess) -> int:
    status = Path(f"/proc/{broker.process.pid}/status").read_text(encoding="utf-8")
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) << 10


class Strangers:
    """Connections to the HTTP port of one broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._address = ("127.0.0.1", broker.http_port)
        self._stack = ExitStack()
        self.open: list[socket.socket] = []

    def __enter__(self) -> Strangers:  # noqa: PYI034 - nobody derives from it
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def connect(self, request: bytes = b"") -> None:
        """Open one more, and send the beginning of a request."""
        sock = self._stack.enter_context(socket.create_connection(self._address, timeout=30))
        self.open.append(sock)
        with suppress(ConnectionError):
            sock.sendall(request)

    def send(self, byte: bytes) -> None:
        """Send something more by each."""
        for sock in self.open:
            with suppress(ConnectionError):
                sock.sendall(byte)

    def left(self) -> int:
        """Close those that the broker has ended; return how many are left."""
        with selectors.DefaultSelector() as selector:
            for sock in self.open:
                selector.register(sock, selectors.EVENT_READ, sock)
            for key, _ in selector.select(0):
                sock = key.data
                try:
                    ended = not sock.recv(1 << 16)
                except ConnectionError:
                    ended = True
                if ended:
                    self.open.remove(sock)
                    sock.close()
        return len(self.open)


@pytest.fixture
def broker(own_pool: Callable[..., Pool]) -> BrokerProcess:
    return own_pool(1, "--topics", "persistent://public/default/test-.*").brokers[0]


@pytest.fixture
def neighbour(broker: BrokerProcess, topic: str) -> Iterator[InnocentClient]:
    """A consumer at the Pulsar port, which pings all the time."""
    client = RawClient(broker.url)
    client.subscribe(topic, "s")
    with InnocentClient(client) as innocent:
        yield innocent
        assert innocent.failure is None
        assert innocent.slowest < SLOW_PING_S


@pytest.mark.usefixtures("neighbour")
@pytest.mark.parametrize("request_bytes", [b"", GET[:-1], GET], ids=["silent", "in part", "idle"])
def test_10_000_connections_take_256_descriptors_and_no_probe(broker: BrokerProcess, request_bytes: bytes) -> None:
    held, memory = descriptors(broker), resident_bytes(broker)
    with Strangers(broker) as strangers:
        for number in range(FLOOD):
            strangers.connect(request_bytes)
            if number % 100 == 0:
                probe(broker, "/healthz")
                probe(broker, "/readyz")
                strangers.left()
        assert descriptors(broker) <= held + BOUNDS.connections + OTHERS
        assert resident_bytes(broker) < memory + MUCH_BYTES
        wait_until(lambda: strangers.left() <= BOUNDS.connections, SLACK_S)
        with RawClient(broker.url) as client:
            client.ping()
    wait_until(lambda: descriptors(broker) <= held + OTHERS, SLACK_S, "descriptors are free again")


@pytest.mark.slow
def test_a_keep_alive_ends_after_90_s(broker: BrokerProcess) -> None:
    with Strangers(broker) as strangers:
        begin = time.monotonic()
        strangers.connect(GET)
        (idle,) = strangers.open
        idle.settimeout(BOUNDS.keep_alive_s + SLACK_S)
        assert idle.recv(1 << 10).startswith(b"HTTP/1.1 200")
        idle.sendall(GET[:-1])
        assert idle.recv(1) == b""
        assert BOUNDS.keep_alive_s - 1 < time.monotonic() - begin < BOUNDS.keep_alive_s + SLACK_S
