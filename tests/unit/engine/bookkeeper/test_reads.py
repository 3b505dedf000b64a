"""EntryReads against scripted bookies, for replies that a real bookie cannot be made to give at will.

The tests with real bookies are in tests/integration/reading/test_bookkeeper.py.
"""

import asyncio
import struct
import time
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from readonly_engine.bookkeeper import reads, replicas
from readonly_engine.bookkeeper.errors import BookieUnavailableError, ReadFailedError
from readonly_engine.bookkeeper.ledger import LedgerReader
from readonly_engine.bookkeeper.pool import BookiePool
from readonly_engine.bookkeeper.reads import stretches
from readonly_engine.bookkeeper.statistics import MAX_BOOKIES, ReadStatistics, RequestKind
from readonly_engine.http.bookie_metrics import BookieCollector
from readonly_engine.wire.bookkeeper_pb2 import EIO, EOK, ETOOMANYREQUESTS, Request, Response
from readonly_engine.wire.bookkeeper_pb2 import LedgerMetadataFormat as Metadata
from readonly_engine.wire.digest import digest_for
from readonly_engine.wire.ledgers import LedgerMetadata

LEDGER = 5
DIGEST = digest_for(Metadata.CRC32C)


def ledger(*ensembles, write_quorum=2):
    return LedgerMetadata(
        ensembles=ensembles or ((0, ("a", "b")),),
        write_quorum=write_quorum,
        ack_quorum=write_quorum,
        closed=True,
        last_entry_id=99,
        digest_type=Metadata.CRC32C,
    )


def body(entry_id):
    payload = b"%d" % entry_id
    header = struct.pack(">qqqq", LEDGER, entry_id, entry_id - 1, 2 * entry_id + 2)
    return header + DIGEST.compute(header, payload) + payload


class Bookie:
    """Answers every request with the next status of its script, the last one again and again."""

    def __init__(self, *script):
        self.script = list(script)
        self.asked_at = []

    def status(self):
        self.asked_at.append(time.monotonic())
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    async def serve(self, reader, writer):
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                answer = self.batch(frame) if frame[0] == 2 else self.single(frame)
                writer.write(len(answer).to_bytes(4, "big") + answer)
        except asyncio.IncompleteReadError:
            writer.close()

    def single(self, frame):
        request = Request.FromString(frame)
        response = Response(header=request.header, status=self.status())
        response.read_response.status = response.status
        if response.status == EOK:
            response.read_response.body = body(request.read_request.entry_id)
        return response.SerializeToString()

    def batch(self, frame):
        _, _, first, request_id, count, _ = struct.unpack(">iqqqiq", frame)
        status = self.status()
        code = {EOK: 0, EIO: 101, ETOOMANYREQUESTS: 106}[status]
        head = struct.pack(">iiqqq", 0x02070000, code, LEDGER, first, request_id)
        bodies = [body(first + i) for i in range(count)] if status == EOK else []
        return head + b"".join(struct.pack(">i", len(b)) + b for b in bodies)


@asynccontextmanager
async def serving(bookies, metadata=None):
    """Start bookies; yields a reader of their ledger."""
    servers = {name: await asyncio.start_server(one.serve, "127.0.0.1", 0) for name, one in bookies.items()}

    async def resolve(name):
        return servers[name].sockets[0].getsockname()[:2]

    pool = BookiePool(resolve)
    try:
        yield LedgerReader(LEDGER, metadata or ledger(), pool)
    finally:
        pool.close()
        for server in servers.values():
            server.close()
        await asyncio.sleep(0.01)


PARTS = pytest.mark.parametrize(("first", "last"), [(3, 3), (0, 40)], ids=["one by one", "in batches"])


@PARTS
async def test_another_replica_answers_for_one_that_has_too_many_requests(monkeypatch, first, last):
    monkeypatch.setattr(replicas, "AVOID_BUSY_S", (60.0, 60.0))  # longer than this test, on any machine
    bookies = {"a": Bookie(ETOOMANYREQUESTS), "b": Bookie(EOK)}
    async with serving(bookies) as reader:
        for _ in range(3):
            entries = await reader.read(first, last)
            assert [entry.entry_id for entry in entries] == list(range(first, last + 1))
    assert len(bookies["a"].asked_at) <= 1  # and then it is left alone


@PARTS
async def test_when_all_have_too_many_requests_they_are_asked_again_after_a_growing_rest(first, last):
    bookies = {name: Bookie(*[ETOOMANYREQUESTS] * 3, EOK) for name in "ab"}
    async with serving(bookies) as reader:
        entries = await reader.read(first, last)
    assert [entry.payload for entry in entries] == [b"%d" % i for i in range(first, last + 1)]
    for bookie in bookies.values():
        rests = [later - sooner for sooner, later in zip(bookie.asked_at, bookie.asked_at[1:], strict=False)]
        assert all(rest >= 0.5 * replicas.AVOID_BUSY_S[0] * 0.9 for rest in rests)


@PARTS
async def test_there_is_an_end_to_asking_again(monkeypatch, first, last):
    monkeypatch.setattr(reads, "BUSY_DEADLINE_S", 0.2)
    async with serving({"a": Bookie(ETOOMANYREQUESTS), "b": Bookie(ETOOMANYREQUESTS)}) as reader:
        with pytest.raises(ReadFailedError, match=f"answered {ETOOMANYREQUESTS}"):
            await reader.read(first, last)


@PARTS
async def test_errors_of_every_replica_are_named(first, last):
    async with serving({"a": Bookie(EIO), "b": Bookie(EIO)}) as reader:
        with pytest.raises(ReadFailedError, match=f"a answered {EIO} .*b answered {EIO}|b answered {EIO} .*a answered"):
            await reader.read(first, last)


async def test_batches_are_spread_over_the_replicas(monkeypatch):
    monkeypatch.setattr(reads, "CHUNK_MAX_ENTRIES", 10)
    bookies = {"a": Bookie(EOK), "b": Bookie(EOK)}
    async with serving(bookies) as reader:
        assert len(await reader.read(0, 99)) == 100
    assert [len(bookie.asked_at) for bookie in bookies.values()] == [5, 5]


async def test_an_ensemble_above_the_write_quorum_is_read_one_by_one():
    bookies = {name: Bookie(EOK) for name in "abc"}
    async with serving(bookies, ledger((0, ("a", "b", "c")))) as reader:
        assert len(await reader.read(0, 99)) == 100
    assert sum(len(bookie.asked_at) for bookie in bookies.values()) == 100


@given(st.sets(st.integers(1, 120), max_size=6), st.integers(0, 100), st.integers(0, 60))
def test_stretches_cover_every_entry_once_with_its_ensemble(changes, first, more):
    starts = [0, *sorted(changes)]
    metadata = ledger(*((start, (f"x{start}", f"y{start}")) for start in starts))
    covered = [
        (entry_id, ensemble)
        for begin, end, ensemble in stretches(metadata, first, first + more)
        for entry_id in range(begin, end + 1)
    ]
    assert covered == [(i, metadata.ensemble_at(i)) for i in range(first, first + more + 1)]


@pytest.mark.parametrize(
    ("last", "kind"), [(0, RequestKind.READ), (40, RequestKind.BATCH)], ids=["one by one", "in batches"]
)
async def test_reads_are_counted_by_bookie_and_kind(last, kind):
    async with serving({"a": Bookie(EOK), "b": Bookie(EOK)}) as reader:
        for _ in range(2):
            await reader.read(0, last)
    found = reader._pool.statistics.bookies
    assert sum(one.requests[kind] for one in found.values()) == 2
    assert sum(sum(one.requests.values()) for one in found.values()) == 2
    assert sum(one.reads.answers for one in found.values()) == 2
    assert all(one.reads.seconds > 0 and one.received > 0 for one in found.values() if one.reads.answers)
    assert not any(one.failures or one.busy for one in found.values())


async def test_a_bookie_that_is_busy_or_not_there_is_named():
    bookies = {"a": Bookie(ETOOMANYREQUESTS, EOK), "b": Bookie(ETOOMANYREQUESTS, EOK)}
    async with serving(bookies) as reader:
        await reader.read(0, 0)
        await reader.read(0, 0)
    assert sum(one.busy for one in reader._pool.statistics.bookies.values()) >= 1

    async def resolve(_name):
        return "127.0.0.1", 1

    pool = BookiePool(resolve)
    with pytest.raises(BookieUnavailableError, match="cannot be reached"):
        await pool.for_reads("gone")
    pool.close()
    assert pool.statistics.bookies["gone"].failures == 1


def test_the_bookies_with_figures_of_their_own_have_a_bound():
    statistics = ReadStatistics()
    for number in range(MAX_BOOKIES + 2):
        statistics.of(f"bookie-{number}").requests[RequestKind.READ] += 1
    assert len(statistics.bookies) == MAX_BOOKIES + 1
    assert statistics.of("one more").requests[RequestKind.READ] == 2
    assert statistics.of("bookie-0").requests[RequestKind.READ] == 1


def test_the_metrics_name_the_bookie():
    statistics = ReadStatistics()
    bookie = statistics.of("10.0.0.1:3181")
    bookie.requests[RequestKind.POLL] = 3
    bookie.received, bookie.failures, bookie.busy = 500, 2, 1
    bookie.reads.answered(0.25)
    registry = CollectorRegistry()
    registry.register(BookieCollector(statistics))
    lines = generate_latest(registry).decode().splitlines()
    labels = 'bookie="10.0.0.1:3181"'
    assert {
        f'pulsar_readonly_bookie_requests_total{{{labels},kind="poll"}} 3.0',
        f"pulsar_readonly_bookie_received_bytes_total{{{labels}}} 500.0",
        f"pulsar_readonly_bookie_failures_total{{{labels}}} 2.0",
        f"pulsar_readonly_bookie_busy_total{{{labels}}} 1.0",
        f"pulsar_readonly_bookie_read_duration_seconds_count{{{labels}}} 1.0",
        f"pulsar_readonly_bookie_read_duration_seconds_sum{{{labels}}} 0.25",
    } <= set(lines)
