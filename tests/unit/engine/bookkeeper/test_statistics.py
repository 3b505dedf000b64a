"""What a broker counts of each bookie, and the metrics of it."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from readonly_engine.bookkeeper.errors import BookieUnavailableError
from readonly_engine.bookkeeper.pool import BookiePool
from readonly_engine.bookkeeper.statistics import MAX_BOOKIES, ReadStatistics, RequestKind
from readonly_engine.http.bookie_metrics import BookieCollector
from readonly_engine.wire.bookkeeper_pb2 import EOK, ETOOMANYREQUESTS

from tests.unit.engine.bookkeeper.test_reads import Bookie, serving


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
