"""Prometheus metrics, collected on request. The read path counts in plain integers."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from readonly_engine.broker.cursors.commits import LATENCY_BOUNDS as COMMIT_BOUNDS
from readonly_engine.broker.dispatch.latency import LATENCY_BOUNDS
from readonly_engine.broker.passthrough.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prometheus_client.metrics_core import Metric

    from readonly_engine.broker.dispatch.counters import Counters
    from readonly_engine.broker.server.broker import Broker
    from readonly_engine.http.backlog_age import BacklogAges
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.topic.cache import EntryCache

_LABELS = ["cluster", "namespace", "topic", "subscription"]
"""As in Pulsar's own metrics: the source cluster, TENANT/NAMESPACE, the full name of a topic or partition, the subscription."""

MAX_LABELS = 1000
"""Subscriptions with labels of their own. Above it, labels name topics only; above ten times as many, there is one total."""

MAX_LABEL_CHARACTERS = 512
"""Longest name in a label; a longer one is left out. An exposition repeats each name about ten times, and Prometheus may refuse
all of it for one long label (label_value_length_limit)."""

_Labels = tuple[str, str, str, str]
"""Values of _LABELS."""

_READER = re.compile(r"(reader|multiTopicsReader)-[0-9a-f]+")
"""Names of subscriptions that clients generate for readers (ReaderImpl, MultiTopicsReaderImpl)."""


class BrokerCollector(Collector):
    """Metrics of one broker. A subscription keeps its counters after its consumers have disconnected.

    Args:
        broker: the broker.
        cache: its cache of entries.
        ages: measured ages of the subscriptions' backlogs.
    """

    def __init__(self, broker: Broker, cache: EntryCache, ages: BacklogAges) -> None:
        self._broker = broker
        self._cache = cache
        self._ages = ages

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; called by prometheus_client."""
        dispatched = CounterMetricFamily(
            "pulsar_readonly_dispatched_messages", "Messages sent to consumers", labels=_LABELS
        )
        size = CounterMetricFamily("pulsar_readonly_dispatched_bytes", "Bytes sent to consumers", labels=_LABELS)
        acks = CounterMetricFamily("pulsar_readonly_relayed_acks", "Acks relayed to the owner", labels=_LABELS)
        failures = CounterMetricFamily(
            "pulsar_readonly_read_failures", "Reads that failed and were retried", labels=_LABELS
        )
        consumers = GaugeMetricFamily("pulsar_readonly_consumers", "Consumers connected", labels=_LABELS)
        for labels, counters in self._labelled():
            dispatched.add_metric(labels, counters.messages)
            size.add_metric(labels, counters.bytes)
            acks.add_metric(labels, counters.acks)
            failures.add_metric(labels, counters.read_failures)
        backlog = GaugeMetricFamily(
            "pulsar_readonly_backlog_entries", "Readable entries that are not acked", labels=_LABELS
        )
        age = GaugeMetricFamily(
            "pulsar_readonly_backlog_age_seconds",
            "Time since the publication of the oldest readable entry that is not acked; missing while it is unknown",
            labels=_LABELS,
        )
        oldest: dict[_Labels, float] = {}
        connected: Counter[_Labels] = Counter()
        unacked: Counter[_Labels] = Counter()
        for topic, served in self._broker.topics.all:
            for name, subscription in served.subscriptions.items():
                label = self._label(topic, name)
                connected[label] += len(subscription.consumers)
                unacked[label] += subscription.backlog
                seconds = self._ages.seconds(topic, name, served, subscription)
                if seconds is not None:
                    oldest[label] = max(oldest.get(label, 0.0), seconds)
        for label, count in connected.items():
            consumers.add_metric(label, count)
            backlog.add_metric(label, unacked[label])
        for label, seconds in oldest.items():
            age.add_metric(label, seconds)
        yield from (dispatched, size, acks, failures, consumers, backlog, age)
        yield from self._latencies()
        passing = GaugeMetricFamily(
            "pulsar_readonly_passed_through_subscriptions",
            "Subscriptions that pass through to the owner, by reason",
            labels=["reason"],
        )
        reasons = Counter(found.reason for found in self._broker.passthrough.passed_through)
        for reason in Reason:
            passing.add_metric([reason], reasons[reason])
        yield passing
        yield GaugeMetricFamily(
            "pulsar_readonly_connections", "Client connections open", value=len(self._broker.connections)
        )
        yield from self._tails()
        yield from self._local_cursors()
        yield from self._pool()
        yield GaugeMetricFamily("pulsar_readonly_cache_bytes", "Bytes of entries in the cache", value=self._cache.size)
        yield CounterMetricFamily("pulsar_readonly_cache_hits", "Entries found in the cache", value=self._cache.hits)
        yield CounterMetricFamily(
            "pulsar_readonly_cache_misses", "Entries not found in the cache", value=self._cache.misses
        )

    def _latencies(self) -> Iterator[Metric]:
        sampler = self._broker.topics.latency
        found = HistogramMetricFamily(
            "pulsar_readonly_end_to_end_latency_seconds",
            "Time from the publication of an entry until the broker hands it to the client's socket, of a sample of entries: "
            "at most 100 per second. Redelivered and delayed ones are not measured",
            labels=["read"],
        )
        for read, histogram in (("tail", sampler.tail), ("backlog", sampler.backlog)):
            found.add_metric([read], _buckets(LATENCY_BOUNDS, histogram.counts), histogram.total)
        yield found
        yield CounterMetricFamily(
            "pulsar_readonly_end_to_end_latency_clock_skew",
            "Entries that are missing in this latency: they were published more than 5 ms later than the broker's clock says",
            value=sampler.skewed,
        )

    def _local_cursors(self) -> Iterator[Metric]:
        stores = [partition.store for partition in self._broker.local_cursors.held.values()]
        yield GaugeMetricFamily(
            "pulsar_readonly_local_cursor_partitions",
            "Partitions of local cursors that the broker has",
            value=len(stores),
        )
        yield GaugeMetricFamily(
            "pulsar_readonly_local_subscriptions",
            "Durable subscriptions in these partitions, also those without consumers",
            value=sum(map(len, stores)),
        )
        counts = [sum(found) for found in zip(*(store.commits.latencies for store in stores), strict=True)]
        yield HistogramMetricFamily(
            "pulsar_readonly_local_cursor_commit_duration_seconds",
            "Time from the first change of local cursors in a commit until it is stored",
            buckets=_buckets(COMMIT_BOUNDS, counts or [0] * len(COMMIT_BOUNDS)),
            sum_value=sum(store.commits.latency_sum for store in stores),
        )

    def _tails(self) -> Iterator[Metric]:
        topics = GaugeMetricFamily(
            "pulsar_readonly_tail_topics",
            "Open topics by the source of their new entries: pushed by the owner, or read from bookies",
            labels=["source"],
        )
        served = [served for _, served in self._broker.topics.all]
        pushed = sum(one.tail is not None and one.tail.pushed for one in served)
        topics.add_metric(["owner"], pushed)
        topics.add_metric(["bookies"], len(served) - pushed)
        yield topics
        yield CounterMetricFamily(
            "pulsar_readonly_tail_source_changes",
            "Changes of the source of a topic's new entries",
            value=self._broker.topics.tail_changes,
        )

    def _pool(self) -> Iterator[Metric]:
        broker = self._broker
        relayed = sum(consumer.flow_window is not None and bool(consumer.peer) for consumer in broker.consumers)
        producers = sum(len(connection.producers) for connection in broker.connections)
        buffered = sum(connection.buffered for connection in broker.connections)
        for name, text, value in (
            ("pool_members", "Brokers of the pool", len(broker.pool.members)),
            (
                "bindings_invalid",
                "1 while the bindings file is invalid and the last valid bindings are in force",
                broker.bindings_error is not None,
            ),
            (
                "claimed_subscriptions",
                "Shared and Key_Shared subscriptions that this broker has claimed",
                len(broker.claim_store.held),
            ),
            (
                "dispatch_suspended",
                "1 while dispatch to claimed subscriptions is suspended, because the metadata store does not answer",
                broker.claim_store.suspended,
            ),
            ("relayed_consumers", "Consumers that are relayed to another broker of the pool", relayed),
            ("relayed_producers", "Producers that are relayed to their owner", producers),
            ("slow_clients", "Clients whose socket buffer is full", broker.slow_clients),
            ("buffered_bytes", "Bytes buffered for slow clients", buffered),
        ):
            yield GaugeMetricFamily(f"pulsar_readonly_{name}", text, value=value)
        yield CounterMetricFamily(
            "pulsar_readonly_redirected_consumers",
            "Consumers redirected to the broker that serves their subscription",
            value=broker.redirects.redirected,
        )
        lookups = CounterMetricFamily(
            "pulsar_readonly_lookups",
            "Lookups answered with a broker of the pool, by its locality: that of the client or of the asked broker (same), "
            "another one (other), or unknown",
            labels=["locality"],
        )
        for nearness, count in broker.member_selector.selected.items():
            lookups.add_metric([nearness], count)
        yield lookups
        yield CounterMetricFamily(
            "pulsar_readonly_limit_refusals",
            "Connections and consumers refused by a limit",
            value=broker.limits.refused,
        )

    def _labelled(self) -> Iterable[tuple[_Labels, Counters]]:
        """Return counters by labels; subscriptions share labels where there would be too many."""
        self._broker.topics.flush_accounting()
        found: dict[_Labels, Counters] = {}
        for (topic, name), counters in self._broker.topics.counters.items():
            label = self._label(topic, name)
            total = found.get(label)
            if total is None:
                found[label] = replace(counters)
            else:
                total.messages += counters.messages
                total.bytes += counters.bytes
                total.acks += counters.acks
                total.read_failures += counters.read_failures
        return found.items()

    def _label(self, topic: TopicName, subscription: str) -> _Labels:
        """Return the labels of a subscription: its names while they are short and few. Readers of a topic share one."""
        known, cluster = self._broker.topics.counters, self._broker.topics.cluster_name
        if len(known) > MAX_LABELS * 10:
            return cluster, "", "", ""
        if _READER.fullmatch(subscription):
            subscription = "reader"
        elif len(known) > MAX_LABELS:
            subscription = ""
        names = f"{topic.tenant}/{topic.namespace}", str(topic), subscription
        namespace, full_name, subscription = (name if len(name) <= MAX_LABEL_CHARACTERS else "" for name in names)
        return cluster, namespace, full_name, subscription


def _buckets(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return cumulative buckets of a histogram.

    Args:
        bounds: upper bounds; the last one is infinite.
        counts: number of values in each bucket alone.
    """
    names = [f"{bound:g}".replace("inf", "+Inf") for bound in bounds]
    return list(zip(names, map(float, accumulate(counts)), strict=True))
