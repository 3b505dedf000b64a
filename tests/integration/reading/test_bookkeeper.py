"""Reading from real bookies: whole, killed, damaged, incomplete, encrypted, and too old for batch reads."""

import asyncio
import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import uvloop
from kazoo.client import KazooClient
from readonly_engine.bookkeeper.connect import BookieSecurity
from readonly_engine.bookkeeper.errors import NoSuchEntryError, NoSuchLedgerError, ReadFailedError
from readonly_engine.bookkeeper.ledger import LedgerReader
from readonly_engine.bookkeeper.pool import BATCH_REFUSALS, BookiePool
from readonly_engine.net.tls import ClientTls, TlsFiles
from readonly_engine.wire.bookie import encode_read
from readonly_engine.wire.bookkeeper_pb2 import LedgerMetadataFormat as Metadata
from readonly_engine.wire.ledgers import decode_ledger_metadata

from devstack.cache import cache_root
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import ZOOKEEPER, PulsarSpec, Setting
from tests.integration.conftest import SECURE
from tests.integration.reading.bookie_writer import HandMadeLedger

pytestmark = pytest.mark.nightly

BASE_PORT = 28650
PAYLOADS = [b"%d " % i * 100 for i in range(600)]
FEW = (3, 6)
MANY = (0, len(PAYLOADS) - 1)
LEDGER_IDS = count(1_000_000 + int(time.time()) % 1_000_000 * 100)
"""Far above the ids that BookKeeper gives out here, and others in every run: bookies keep what was written."""


def openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60)


def start_again(stack: PulsarCluster, *indexes: int) -> None:
    """Start bookies and wait until they serve reads: their ports are open a while before."""
    for index in indexes:
        stack.start_bookie(index)
    deadline = time.monotonic() + 30
    for index in indexes:
        while True:
            with (
                contextlib.suppress(ConnectionError),
                socket.create_connection(("127.0.0.1", stack.spec.bookie_port(index)), 5) as connection,
            ):
                connection.sendall(encode_read(1, 1, 1))
                if connection.recv(100):
                    break
            assert time.monotonic() < deadline, f"bookie-{index} does not serve"


@pytest.fixture(scope="module")
def certificates() -> Path:
    """An authority, and a certificate that it has given to bookies and clients of 127.0.0.1."""
    folder = cache_root() / "pulsar" / "bookkeeper-tls"
    if not (folder / "bookie.pem").exists():
        folder.mkdir(parents=True, exist_ok=True)
        key = ("-newkey", "rsa:2048", "-nodes")
        openssl("req", "-x509", *key, "-keyout", folder / "ca.key", "-out", folder / "ca.pem",
                "-days", 3650, "-subj", "/CN=test-authority")  # fmt: skip
        openssl("req", *key, "-keyout", folder / "bookie.key", "-out", folder / "bookie.csr", "-subj", "/CN=bookie")
        (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
        openssl("x509", "-req", "-in", folder / "bookie.csr", "-CA", folder / "ca.pem", "-CAkey", folder / "ca.key",
                "-CAcreateserial", "-days", 3650, "-extfile", folder / "names", "-out", folder / "bookie.pem")  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def stack(certificates: Path) -> Iterator[PulsarCluster]:
    """Three bookies of our own, which speak TLS too: they are stopped and stalled here."""
    settings = {
        "tlsProvider": "JDK",
        "tlsClientAuthentication": "true",
        "tlsProviderFactoryClass": "org.apache.bookkeeper.tls.TLSContextFactory",
        "tlsKeyStoreType": "PEM",
        "tlsKeyStore": certificates / "bookie.key",
        "tlsCertificatePath": certificates / "bookie.pem",
        "tlsTrustStoreType": "PEM",
        "tlsTrustStore": certificates / "ca.pem",
    }
    made = PulsarCluster(
        PulsarSpec(
            name="bookkeeper",
            base_port=BASE_PORT,
            brokers=1,
            metadata=ZOOKEEPER,  # the tests write metadata of ledgers there
            quick=True,
            settings=tuple(Setting("bookie", key, str(value)) for key, value in settings.items()),
        )
    )
    made.up(renew=True)
    start_again(made, 0, 1, 2)
    yield made
    if os.environ.get("KEEP_PULSAR") != "1":
        made.down()


@pytest.fixture(scope="module")
def bookies(stack: PulsarCluster) -> list[tuple[str, tuple[str, int]]]:
    ports = [stack.spec.bookie_port(i) for i in range(3)]
    return [(f"127.0.0.1:{port}", ("127.0.0.1", port)) for port in ports]


@pytest.fixture(scope="module")
def zookeeper(stack: PulsarCluster) -> Iterator[KazooClient]:
    client = KazooClient(f"127.0.0.1:{stack.spec.zookeeper_port}")
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def make(bookies, zookeeper):
    def make_ledger(payloads=PAYLOADS, **options) -> HandMadeLedger:
        ledger = HandMadeLedger(next(LEDGER_IDS), bookies, payloads, **options)
        ledger.write(zookeeper)
        return ledger

    return make_ledger


async def address_of(bookie_id: str) -> tuple[str, int]:
    host, _, port = bookie_id.partition(":")
    return host, int(port)


def with_reader(ledger: HandMadeLedger, scene, resolve=address_of, **options):
    """Run a scene with a reader of the ledger, and close its connections."""

    async def run():
        pool = BookiePool(resolve, **options)
        try:
            return await scene(LedgerReader(ledger.ledger_id, decode_ledger_metadata(ledger.metadata()), pool), pool)
        finally:
            pool.close()
            await asyncio.sleep(0.01)  # the transports close in the next turn

    return uvloop.run(run())


def read(ledger: HandMadeLedger, first: int, last: int, **options) -> list[bytes]:
    async def scene(reader, _pool):
        entries = await reader.read(first, last)
        assert [entry.entry_id for entry in entries] == list(range(first, last + 1))
        return [entry.payload for entry in entries]

    return with_reader(ledger, scene, **options)


def expected(first: int, last: int) -> list[bytes]:
    return PAYLOADS[first : last + 1]


@pytest.mark.parametrize("part", [FEW, MANY], ids=["one by one", "in batches"])
@pytest.mark.parametrize("kind", ["CRC32C", "CRC32", "HMAC", "DUMMY"])
def test_every_digest_type(make, kind: str, part) -> None:
    ledger = make(digest_type=Metadata.DigestType.Value(kind), password=b"secret")
    assert read(ledger, *part) == expected(*part)


@pytest.mark.parametrize("part", [FEW, MANY, (599, 599)])
def test_an_ensemble_larger_than_the_write_quorum(make, part) -> None:
    assert read(make(segments=[(0, [2, 0, 1])]), *part) == expected(*part)


def test_an_ensemble_that_changed_while_the_ledger_was_written(make) -> None:
    ledger = make(segments=[(0, [0, 1]), (200, [2, 1]), (205, [2, 0])])
    assert read(ledger, *MANY) == expected(*MANY)
    assert read(ledger, 198, 206) == expected(198, 206)


def test_entries_of_all_sizes(make) -> None:
    payloads = [os.urandom(size) for size in (0, 1, 4_000_000, 3, 0, 700_000, 700_000, 700_000, 5, 1_500_000, 9, 9)]
    assert read(make(payloads), 0, len(payloads) - 1) == payloads


@pytest.mark.parametrize("segments", [[(0, [0, 1])], [(0, [0, 1, 2])]], ids=["in batches", "one by one"])
def test_damaged_replicas_are_read_elsewhere(make, segments) -> None:
    def tamper(bookie: int, entry_id: int, body: bytes) -> bytes:
        # Every bookie has damage, but none where the other replica has.
        hit = entry_id % 50 in (7, 8, 9) and bookie == segments[0][1][entry_id % len(segments[0][1])]
        return body[:-1] + bytes([body[-1] ^ 1]) if hit else body

    assert read(make(segments=segments, tamper=tamper), *MANY) == expected(*MANY)


def test_replicas_that_miss_entries_give_short_batches(make) -> None:
    def tamper(bookie: int, entry_id: int, body: bytes) -> bytes | None:
        return None if (entry_id // 40 + bookie) % 3 == 0 else body

    assert read(make(tamper=tamper), *MANY) == expected(*MANY)


def test_an_entry_that_nobody_has_and_a_ledger_that_nobody_knows(make, bookies) -> None:
    ledger = make(tamper=lambda _, entry_id, body: None if entry_id == 300 else body)
    for part in (MANY, (300, 300)):
        with pytest.raises(NoSuchEntryError, match=f"{ledger.ledger_id}:300"):
            read(ledger, *part)
    with pytest.raises(NoSuchLedgerError):
        read(HandMadeLedger(next(LEDGER_IDS), bookies, PAYLOADS), *MANY)


def test_an_entry_damaged_everywhere_is_an_error_that_says_so(make) -> None:
    ledger = make(tamper=lambda _, entry_id, body: body[:-1] + b"!" if entry_id == 300 else body)
    with pytest.raises(ReadFailedError, match=f"entry {ledger.ledger_id}:300 .*digest"):
        read(ledger, *MANY)


class OldBookie:
    """Stands before a real bookie and closes the connection at the first BATCH_READ, as BookKeeper before 4.17 does."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.closed = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream = await asyncio.open_connection(*self.target)
        back = asyncio.create_task(self.carry(upstream_reader, writer))
        try:
            while data := await reader.read(1 << 16):
                if data[4:6] == b"\x02\x07":
                    self.closed += 1
                    break
                upstream.write(data)
        finally:
            back.cancel()
            writer.close()
            upstream.close()

    async def carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            sink.write(data)


def test_bookies_that_do_not_know_batch_reads_are_read_one_by_one(make, bookies) -> None:
    ledger = make()

    async def scene(reader, pool):
        old = [OldBookie(address) for _, address in bookies]
        servers = [await asyncio.start_server(bookie.serve, "127.0.0.1", 0) for bookie in old]
        for (name, _), server in zip(bookies, servers, strict=True):
            ports[name] = server.sockets[0].getsockname()[:2]
        for _ in range(4):
            entries = await reader.read(*MANY)
            assert [entry.payload for entry in entries] == PAYLOADS
        # Asked until it was sure, and then never again.
        assert [bookie.closed for bookie in old] == [BATCH_REFUSALS, BATCH_REFUSALS, 0]
        assert [pool.knows_batches(name) for name, _ in bookies] == [False, False, True]
        pool.close()
        for server in servers:
            server.close()

    ports: dict[str, tuple[str, int]] = {}

    async def resolve(bookie_id: str) -> tuple[str, int]:
        return ports[bookie_id]

    with_reader(ledger, scene, resolve=resolve)


def test_a_bookie_that_dies_at_a_batch_read_is_not_taken_for_an_old_one(make, stack: PulsarCluster, bookies) -> None:
    ledger = make()

    async def scene(reader, pool):
        await asyncio.to_thread(stack.kill_bookie, 1)
        for _ in range(3):
            assert len(await reader.read(*MANY)) == len(PAYLOADS)
        assert pool.knows_batches(bookies[1][0])

    try:
        with_reader(ledger, scene)
    finally:
        start_again(stack, 1)


# TLS


@pytest.fixture
def tls(certificates: Path) -> TlsFiles:
    return TlsFiles("bookie-tls", certificates / "ca.pem", certificates / "bookie.pem", certificates / "bookie.key")


@pytest.mark.parametrize("part", [FEW, MANY], ids=["one by one", "in batches"])
def test_reads_over_tls(make, tls: TlsFiles, part) -> None:
    assert read(make(), *part, security=BookieSecurity(ClientTls(tls))) == expected(*part)


def test_a_bookie_that_asks_for_a_certificate_gets_none(make, tls: TlsFiles) -> None:
    with pytest.raises(ReadFailedError):
        read(make(), *FEW, security=BookieSecurity(ClientTls(TlsFiles("bookie-tls", tls.trust))))


def test_tls_where_the_bookies_have_none(make, tls: TlsFiles, pulsar) -> None:
    """The suite's own stack has bookies without TLS, or of another authority where its stores are secure."""

    async def resolve(_bookie_id: str) -> tuple[str, int]:
        host, _, port = pulsar.bookies[0].partition(":")
        return host, int(port)

    said = "CERTIFICATE_VERIFY_FAILED" if SECURE else "TLS is not set up there"
    with pytest.raises(ReadFailedError, match=said):
        read(make(), *FEW, security=BookieSecurity(ClientTls(tls)), resolve=resolve)
