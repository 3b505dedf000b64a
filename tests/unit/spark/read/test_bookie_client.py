"""Blocking reads of a task from bookies that are played here, on real sockets. Only the clock is not real."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from readonly_engine.bookkeeper.replicas import SPECULATE_S
from readonly_engine.wire.bookkeeper_pb2 import LedgerMetadataFormat as Metadata
from readonly_engine.wire.digest import digest_for
from readonly_engine.wire.ledgers import LedgerMetadata
from readonly_spark.read import bookie_client
from readonly_spark.read.bookie_client import BookieClient
from readonly_spark.read.fetch import PART_BYTES

LEDGER = 12
SIZE = PART_BYTES // 4
PARTS = 12
LAST = 4 * PARTS - 1
CRC32C = digest_for(Metadata.CRC32C)


def entry(number: int) -> bytes:
    header = struct.pack(">qqqq", LEDGER, number, number - 1, (number + 1) * SIZE)
    payload = bytes(SIZE)
    return header + CRC32C.compute(header, payload) + payload


class Bookie:
    """Answers batch reads while it is let."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.let.set()
        self.requests: list[int] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        with connection, connection.makefile("rb") as asked:
            while request := asked.read(44):
                _, _, ledger, first, number, most, _ = struct.unpack(">iiqqqiq", request)
                self.requests.append(first)
                body = b"".join(struct.pack(">i", len(one)) + one for one in map(entry, range(first, first + most)))
                reply = struct.pack(">iiqqq", 0x02070000, 0, ledger, first, number) + body
                self.let.wait(10.0)
                with suppress(OSError):  # the client may have closed the connection
                    connection.sendall(len(reply).to_bytes(4, "big") + reply)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10.0)
        assert not self._thread.is_alive()


@pytest.fixture
def bookies() -> Iterator[dict[str, Bookie]]:
    made = {"a": Bookie(), "b": Bookie()}
    yield made
    for one in made.values():
        one.close()


class Clock:
    """The clock of the machine, which a test sets forward."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self._real = bookie_client.time.monotonic

    def __call__(self) -> float:
        return self._real() / 1000 + self.ahead  # a slow machine changes nothing


@pytest.mark.parametrize("pause_s", [SPECULATE_S[1] + 1, bookie_client.READ_TIMEOUT_S + 1])
def test_what_a_task_does_between_two_reads_is_no_slowness_of_a_bookie(bookies, monkeypatch, pause_s) -> None:
    """A task writes a row group for seconds. The answers are not all in the socket's buffer then."""
    clock = Clock()
    monkeypatch.setattr(bookie_client.time, "monotonic", clock)
    metadata = LedgerMetadata(((0, ("a", "b")),), 2, 2, True, LAST, Metadata.CRC32C)
    client = BookieClient({name: one.address for name, one in bookies.items()})
    found = []
    try:
        for part in client.read(LEDGER, metadata, 0, LAST, float(SIZE)):
            found += [one.entry_id for one in part]
            bookies["a"].let.clear()
            clock.ahead += pause_s
            threading.Timer(0.05, bookies["a"].let.set).start()
    finally:
        client.close()
    assert found == list(range(LAST + 1))
    assert bookies["b"].requests == []
    assert sorted(bookies["a"].requests) == sorted(set(bookies["a"].requests)), "nothing is read twice"
