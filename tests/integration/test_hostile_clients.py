"""Clients that harm: what they send is not taken, what they hold is freed, and others at the same broker do not notice."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

import pytest

from tests.integration.raw_client import RawClient

if TYPE_CHECKING:
    from devstack.pool import Pool
    from devstack.pulsar.status import Endpoints

HUGE_BYTES = 60 << 20
SLOW_PING_S = 1.0


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


@pytest.mark.parametrize("where", ["owner", "pool"])
def test_a_huge_frame_of_somebody_unknown_is_not_taken(pool: Pool, pulsar: Endpoints, where: str) -> None:
    url = pool.brokers[0].url if where == "pool" else pulsar.writer_url
    with Innocent(url) as innocent, connect(url) as sock:
        sock.sendall(HUGE_BYTES.to_bytes(4, "big"))
        assert sent_until_closed(sock, HUGE_BYTES) < HUGE_BYTES // 4
    assert innocent.failure is None
    assert innocent.slowest < SLOW_PING_S
