"""What `/metrics` has: the figures of subscriptions under bounded labels, latencies, and the process."""

import asyncio
import itertools
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families
from readonly_engine.bookkeeper.statistics import ReadStatistics
from readonly_engine.broker.dispatch.counters import Counters
from readonly_engine.broker.dispatch.latency import LatencySampler
from readonly_engine.http import metrics
from readonly_engine.http.exposition import render
from readonly_engine.http.metrics import BrokerCollector
from readonly_engine.http.server import HttpServer
from readonly_engine.http.status.slices import STEPS, Slices
from readonly_engine.metadata.errors import MetadataUnavailableError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.net.durations import Durations
from readonly_engine.topic.cache import EntryCache
from readonly_engine.topic.replay.clock import UNLIMITED, ReplayClock

from docsite.metrics import idle_broker

P = "persistent://public/default/"


BOOKIES = SimpleNamespace(statistics=ReadStatistics())
STORES = SimpleNamespace(connected=True, denied=0, durations=Durations())


class Ages:
    """Ages of backlogs by name of the subscription."""

    def __init__(self, **known):
        self._known = known

    def seconds(self, topic, name, served, subscription):
        return self._known.get(name)


def played(backlog):
    consumer = SimpleNamespace(dispatch_state=SimpleNamespace(unacked=3))
    return SimpleNamespace(consumers=[consumer], backlog=backlog, backlog_steps=1, flush_accounting=lambda: None)


@pytest.fixture
def broker():
    made = idle_broker()
    made.topics.counters = OrderedDict()
    return made


def serve(broker, name, **backlogs):
    """Serve a topic with a subscription for each backlog."""
    topic = parse_topic_name(P + name)
    served = SimpleNamespace(subscriptions={one: played(count) for one, count in backlogs.items()}, tail=None, log=None)
    broker.topics.all.append((topic, served))
    for one in backlogs:
        broker.topics.counters[topic, one] = Counters(messages=2, bytes=20)


def samples(broker, ages=None):
    """Every sample, by its line of text without the value."""
    slices = Slices()
    collected = BrokerCollector(broker, EntryCache(1000), ages or Ages()).collect(slices)
    lines = asyncio.run(render(collected, slices)).decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def of(found, name):
    return {key: value for key, value in found.items() if key.partition("{")[0] == name}


def test_subscriptions_that_share_labels_have_the_largest_age(broker, monkeypatch):
    monkeypatch.setattr(metrics, "MAX_LABELS", 2)
    serve(broker, "t", a=1, b=1, c=1)
    found = of(samples(broker, Ages(a=1.0, b=7.0)), "pulsar_readonly_backlog_age_seconds")
    assert list(found.values()) == [7.0]


@pytest.mark.parametrize(
    ("bound", "labels"),
    [
        (2, 'cluster="one",namespace="public/default",subscription="s",topic="persistent://public/default/t"'),
        (1, 'cluster="one",namespace="public/default",subscription="",topic="persistent://public/default/t"'),
        (0, 'cluster="one",namespace="",subscription="",topic=""'),
    ],
)
def test_labels_are_those_of_pulsar_until_there_are_too_many(broker, monkeypatch, bound, labels):
    monkeypatch.setattr(metrics, "MAX_LABELS", bound)
    broker.topics.cluster_name = "one"
    serve(broker, "t", s=3, **{"reader-0123456789": 0})
    found = samples(broker)
    assert found[f"pulsar_readonly_backlog_entries{{{labels}}}"] == 3
    assert found[f"pulsar_readonly_unacked_messages{{{labels}}}"] in {3, 6}  # the reader's too, where they share labels


def test_a_name_at_the_bound_is_a_label_and_longer_ones_share_an_empty_one(broker):
    longest = "t" * (metrics.MAX_LABEL_CHARACTERS - len(P))
    serve(broker, longest, **{"s" * metrics.MAX_LABEL_CHARACTERS: 1, "s" * (metrics.MAX_LABEL_CHARACTERS + 1): 2})
    serve(broker, longest + "t", s=3)
    serve(broker, longest + "u", s=4)
    found = samples(broker)
    prefix = 'pulsar_readonly_backlog_entries{cluster="",namespace="public/default",subscription='
    assert of(found, "pulsar_readonly_backlog_entries") == {
        f'{prefix}"{"s" * metrics.MAX_LABEL_CHARACTERS}",topic="{P}{longest}"}}': 1,
        f'{prefix}"",topic="{P}{longest}"}}': 2,
        f'{prefix}"s",topic=""}}': 7,
    }
    assert sum(of(found, "pulsar_readonly_dispatched_messages_total").values()) == 8


def test_all_readers_of_a_topic_share_labels(broker):
    serve(broker, "t", **{f"reader-{number:010x}": 1 for number in range(5)})
    (line,) = of(samples(broker), "pulsar_readonly_consumers")
    assert 'subscription="reader"' in line


@pytest.mark.parametrize(("bound", "series"), [(30, 30), (29, 1), (2, 1)])
def test_the_number_of_series_is_bounded(broker, monkeypatch, bound, series):
    monkeypatch.setattr(metrics, "MAX_LABELS", bound)
    serve(broker, "t", **{f"s{number}": 1 for number in range(30)})
    found = samples(broker, Ages(**{f"s{number}": 1.0 for number in range(30)}))
    for name in ("backlog_entries", "backlog_age_seconds", "consumers"):
        assert len(of(found, f"pulsar_readonly_{name}")) == series


def test_latencies_are_cumulative_buckets_apart_for_tail_and_backlog(broker):
    sampler = broker.topics.latency = LatencySampler(lambda _: None, lambda: 1000.0)
    for ms in (1, 7, 7):
        sampler.observe(SimpleNamespace(timestamp=1_000_000 - ms, deliver_at=0), tail=True)
    for ms in (1, 6):
        sampler.observe(SimpleNamespace(timestamp=1_000_000 + ms, deliver_at=0), tail=False)
    found = samples(broker)
    name = "pulsar_readonly_end_to_end_latency_seconds"
    assert found[f'{name}_bucket{{le="0.005",read="tail"}}'] == 1
    assert found[f'{name}_bucket{{le="0.01",read="tail"}}'] == 3
    assert found[f'{name}_bucket{{le="+Inf",read="tail"}}'] == found[f'{name}_count{{read="tail"}}'] == 3
    assert found[f'{name}_sum{{read="tail"}}'] == pytest.approx(0.015)
    assert found[f'{name}_bucket{{le="0.005",read="backlog"}}'] == 1
    assert found["pulsar_readonly_end_to_end_latency_clock_skew_total"] == 1


async def test_threads_that_are_all_busy_do_not_hold_up_the_statistics(broker, monkeypatch):
    monkeypatch.setattr("readonly_engine.http.server.WAIT_S", 0.05)
    free = threading.Event()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    server = HttpServer(broker, STORES, EntryCache(1000), None, BOOKIES)

    async def document(_, tasks):
        return str(tasks).encode()

    server._statistics.document = document
    busy = asyncio.create_task(asyncio.to_thread(free.wait, 10))
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        assert await server._stats_text() == b"0"
    free.set()
    await busy
    monkeypatch.setattr("readonly_engine.http.server.WAIT_S", 30.0)
    assert int(await server._stats_text()) > 0


async def test_the_page_has_the_broker_the_build_and_the_process(broker):
    server = HttpServer(broker, STORES, EntryCache(1000), None, BOOKIES, build={"version": "1.2.3"})
    answer = await server._metrics(None)
    await server.close()
    assert answer.headers["Content-Type"].startswith("text/plain")
    found = list(text_string_to_metric_families(answer.body.decode()))
    families = {family.name: family for family in found}
    assert len(families) == len(found)  # a metric that stands twice fails the whole scrape
    assert families["pulsar_readonly_build_info"].samples[0].labels["version"] == "1.2.3"
    assert {
        f"pulsar_readonly_{name}" for name in ("connections", "metadata_store_connected", "event_loop_delay_seconds")
    } <= set(families)
    if Path("/proc/self").is_dir():  # metrics of processes exist on Linux only
        for end in ("cpu_seconds", "resident_memory_bytes", "virtual_memory_bytes", "open_fds", "start_time_seconds"):
            assert families[f"process_{end}"].samples[0].value > 0


def test_a_total_of_all_subscriptions_never_falls(broker, monkeypatch):
    """Counters that are forgotten still count: else Prometheus takes the total for one that began again."""
    monkeypatch.setattr(metrics, "MAX_LABELS", 0)
    serve(broker, "t", s=1)
    broker.topics.dropped_counters = Counters(messages=100, bytes=1000, acks=7, read_failures=3)
    found = samples(broker)
    totals = {key.partition("{")[0].removeprefix("pulsar_readonly_"): value for key, value in found.items()}
    assert (totals["dispatched_messages_total"], totals["dispatched_bytes_total"]) == (102, 1020)
    assert (totals["relayed_acks_total"], totals["read_failures_total"]) == (7, 3)


class Recorded(Slices):
    """Records the steps of each slice, and calls a function in each pause."""

    def __init__(self, call=lambda: None):
        super().__init__()
        self.counts = [0]
        self._call = call

    async def pause(self):
        self._call()
        self.counts.append(self.steps)
        await super().pause()

    @property
    def longest(self):
        return max(later - earlier for earlier, later in itertools.pairwise([*self.counts, self.steps]))


def collected(broker, slices):
    return asyncio.run(render(BrokerCollector(broker, EntryCache(1000), Ages()).collect(slices), slices))


@pytest.mark.parametrize("ranges", [0, STEPS // 2])
def test_no_slice_of_the_event_loop_grows_with_the_subscriptions(broker, ranges):
    for number in range(30):
        serve(broker, f"t{number}", **{f"s{one}": 1 for one in range(20)})
    for _, served in broker.topics.all:
        for subscription in served.subscriptions.values():
            subscription.backlog_steps = 1 + ranges
    slices = Recorded()
    text = collected(broker, slices)
    assert text.count(b"\npulsar_readonly_backlog_entries{") == 600
    assert slices.longest <= 2 * STEPS + 1


def test_connections_and_passthrough_take_slices_too(broker):
    consumers = [SimpleNamespace(served_by="")] * 10
    connection = SimpleNamespace(consumers=consumers, producers=(), buffered=0)
    broker.connections = [connection] * 300
    broker.passthrough.passed_through = iter([SimpleNamespace(reason="storage")] * 2000)
    slices = Recorded()
    text = collected(broker, slices)
    assert b'pulsar_readonly_passed_through_subscriptions{reason="storage"} 2000.0' in text
    assert slices.steps > 5000
    assert slices.longest <= STEPS + 200


def test_subscriptions_may_come_and_go_between_slices(broker, monkeypatch):
    monkeypatch.setattr(metrics, "MAX_LABELS", 700)
    serve(broker, "t", **{f"s{one}": 1 for one in range(700)})
    topic, served = broker.topics.all[0]
    names = iter(range(10_000))

    def change():
        served.subscriptions.popitem()
        broker.topics.counters[topic, f"new-{next(names)}"] = Counters(messages=1)
        broker.topics.cluster_name = "named meanwhile"

    text = collected(broker, Recorded(change)).decode()
    assert text.count("\npulsar_readonly_backlog_entries{") == 700
    assert "named meanwhile" not in text
    found = list(text_string_to_metric_families(text))
    series = [(one.name, *sorted(one.labels.items())) for family in found for one in family.samples]
    assert len(series) == len(set(series))


async def test_the_id_of_the_source_cluster_is_read_once_and_never_holds_up_the_bindings(broker, monkeypatch):
    """The operator compares source clusters by it."""
    monkeypatch.setattr("readonly_engine.http.server.WAIT_S", 0.05)
    asked = []

    class Cluster:
        async def bookkeeper_id(self):
            asked.append(len(asked))
            if len(asked) == 1:
                raise MetadataUnavailableError("no answer")
            if len(asked) == 2:
                await asyncio.Event().wait()
            return "" if len(asked) == 3 else "id"

    server = HttpServer(
        broker,
        STORES,
        EntryCache(1000),
        Cluster(),
        BOOKIES,
    )
    assert [await server._instance() for _ in range(6)] == ["", "", "", "id", "id", "id"]
    assert len(asked) == 4


def test_a_replay_shows_its_clock_and_a_broker_of_the_present_shows_none(broker):
    shared = broker.replay.shared
    shared.now_ms = lambda: 90_000.0
    shared.clock = ReplayClock.started(5000, 6000, 2.0, 89_800.0)
    found = of_replay(samples(broker))
    assert found == {"clock_timestamp_seconds": 5.4, "speed_ratio": 2.0, "ended": 0.0, "behind_seconds": 0.0}
    shared.clock = shared.clock.with_speed(UNLIMITED, 89_900.0)
    found = of_replay(samples(broker))
    assert (found["speed_ratio"], found["ended"]) == (float("inf"), 1.0)
    shared.clock = shared.clock.pause(89_950.0)
    assert of_replay(samples(broker))["speed_ratio"] == 0.0
    broker.replay = None
    assert of_replay(samples(broker)) == {}


def of_replay(found):
    begin = "pulsar_readonly_replay_"
    return {key.removeprefix(begin): value for key, value in found.items() if key.startswith(begin)}
