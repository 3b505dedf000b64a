"""Prometheus metrics, collected on request. The read path counts in plain integers."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from readonly_engine.broker.consumer.stats import NO_BROKERS
from readonly_engine.broker.cursors.commits import LATENCY_BOUNDS as COMMIT_BOUNDS
from readonly_engine.broker.dispatch.counters import Counters
from readonly_engine.broker.dispatch.latency import LATENCY_BOUNDS
from readonly_engine.broker.passthrough.reasons import Reason
from readonly_engine.http.exposition import SAMPLES_PER_PART, cumulative
from readonly_engine.http.replay_metrics import replay_metrics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping

    from prometheus_client.metrics_core import Metric

    from readonly_engine.broker.server.broker import Broker
    from readonly_engine.http.backlog_age import BacklogAges
    from readonly_engine.http.status.slices import Slices
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.topic.cache import EntryCache

_LABELS = ["cluster", "namespace", "topic", "subscription"]
"""As in Pulsar's own metrics: the source cluster, TENANT/NAMESPACE, the full name of a topic or partition, the subscription."""

MAX_LABELS = 1000
"""Subscriptions with labels of their own. Above it, labels name topics only; above ten times as many, there is one total."""

MAX_LABEL_CHARACTERS = 512
"""Longest name in a label; a longer one is left out. An exposition repeats each name about ten times, and Prometheus may refuse
all of it for one long label (label_value_length_limit)."""

_STEPS_PER_SUBSCRIPTION: Final = 3
_STEPS_PER_COUNTERS: Final = 2

_Labels = tuple[str, str, str, str]
"""Values of _LABELS."""

_READER = re.compile(r"(reader|multiTopicsReader)-[0-9a-f]+")
"""Names of subscriptions that clients generate for readers (ReaderImpl, MultiTopicsReaderImpl)."""


@dataclass(slots=True)
class _Figures:
    """Figures of the subscriptions with the same labels.

    Attributes:
        total: their counters, also of those that have ended.
        served: whether any of them is served now.
        consumers: consumers connected.
        backlog: readable entries that are not acked.
        unacked: messages that consumers have not acked; entries where an entry is acked as a whole.
        age: the largest age of a backlog, in seconds; None while all are unknown.
    """

    total: Counters = field(default_factory=Counters)
    served: bool = False
    consumers: int = 0
    backlog: int = 0
    unacked: int = 0
    age: float | None = None


_SUBSCRIPTION_METRICS: Final[
    tuple[tuple[type[CounterMetricFamily | GaugeMetricFamily], str, str, Callable[[_Figures], float | None]], ...]
] = (
    (CounterMetricFamily, "dispatched_messages", "Messages sent to consumers", lambda one: one.total.messages),
    (CounterMetricFamily, "dispatched_bytes", "Bytes sent to consumers", lambda one: one.total.bytes),
    (CounterMetricFamily, "relayed_acks", "Acks relayed to the owner", lambda one: one.total.acks),
    (CounterMetricFamily, "read_failures", "Reads that failed and were retried", lambda one: one.total.read_failures),
    (GaugeMetricFamily, "consumers", "Consumers connected", lambda one: one.consumers if one.served else None),
    (
        GaugeMetricFamily,
        "backlog_entries",
        "Readable entries that are not acked",
        lambda one: one.backlog if one.served else None,
    ),
    (
        GaugeMetricFamily,
        "unacked_messages",
        "Messages that consumers have received and not acked; of Shared and Key_Shared subscriptions",
        lambda one: one.unacked if one.served else None,
    ),
    (
        GaugeMetricFamily,
        "backlog_age_seconds",
        "Time since the publication of the oldest readable entry that is not acked; missing while it is unknown",
        lambda one: one.age,
    ),
)
"""Metrics of subscriptions: kind, name, meaning, and the value for the subscriptions with the same labels; None for no sample."""


class BrokerCollector:
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

    async def collect(self, slices: Slices) -> AsyncIterator[Metric]:
        """Yield all metrics, in parts as for `exposition.render`.

        Args:
            slices: gives the event loop its turns.
        """
        figures = await self._figures(slices)
        for part in _of_subscriptions(figures):
            yield part
        for metric in self._latencies():
            yield metric
        passing = GaugeMetricFamily(
            "pulsar_readonly_passed_through_subscriptions",
            "Subscriptions that pass through to the owner, by reason",
            labels=["reason"],
        )
        reasons: Counter[str] = Counter()
        for found in self._broker.passthrough.passed_through:
            reasons[found.reason] += 1
            if slices.add():
                await slices.pause()
        for reason in Reason:
            passing.add_metric([reason], reasons[reason])
        yield passing
        yield GaugeMetricFamily(
            "pulsar_readonly_connections", "Client connections open", value=len(self._broker.connections)
        )
        for metric in await self._tails(slices):
            yield metric
        for metric in self._local_cursors():
            yield metric
        for metric in await replay_metrics(self._broker, slices):
            yield metric
        for metric in await self._pool(slices):
            yield metric
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
            "at most two per second. Redelivered and delayed ones are not measured",
            labels=["read"],
        )
        for read, histogram in (("tail", sampler.tail), ("backlog", sampler.backlog)):
            found.add_metric([read], cumulative(LATENCY_BOUNDS, histogram.counts), histogram.total)
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
            buckets=cumulative(COMMIT_BOUNDS, counts or [0] * len(COMMIT_BOUNDS)),
            sum_value=sum(store.commits.latency_sum for store in stores),
        )

    async def _tails(self, slices: Slices) -> Iterable[Metric]:
        topics = GaugeMetricFamily(
            "pulsar_readonly_tail_topics",
            "Open topics by the source of their new entries: pushed by the owner, or read from bookies",
            labels=["source"],
        )
        counts = [0, 0]
        for _, served in self._broker.topics.all:
            counts[served.tail is not None and served.tail.pushed] += 1
            if slices.add():
                await slices.pause()
        topics.add_metric(["owner"], counts[True])
        topics.add_metric(["bookies"], counts[False])
        changes = CounterMetricFamily(
            "pulsar_readonly_tail_source_changes",
            "Changes of the source of a topic's new entries",
            value=self._broker.topics.tail_changes,
        )
        return topics, changes

    async def _pool(self, slices: Slices) -> Iterable[Metric]:
        broker = self._broker
        relayed = producers = buffered = 0
        for connection in list(broker.connections):
            consumers = connection.consumers
            relayed += sum(one.served_by not in NO_BROKERS for one in consumers)
            producers += len(connection.producers)
            buffered += connection.buffered
            if slices.add(1 + len(consumers)):
                await slices.pause()
        metrics: list[Metric] = []
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
            metrics.append(GaugeMetricFamily(f"pulsar_readonly_{name}", text, value=value))
        redirected = CounterMetricFamily(
            "pulsar_readonly_redirected_consumers",
            "Consumers redirected to the broker that serves their subscription: to one of the pool (pool), or to the owner "
            "because they are cheaper there (owner)",
            labels=["to"],
        )
        for to, count in broker.redirects.redirected.items():
            redirected.add_metric([to], count)
        lookups = CounterMetricFamily(
            "pulsar_readonly_lookups",
            "Lookups answered with a broker of the pool, by its locality: that of the client or of the asked broker (same), "
            "another one (other), or unknown",
            labels=["locality"],
        )
        for nearness, count in broker.member_selector.selected.items():
            lookups.add_metric([nearness], count)
        refused = CounterMetricFamily(
            "pulsar_readonly_limit_refusals",
            "Connections and consumers refused by a limit",
            labels=["limit"],
        )
        for limit, count in broker.limits.refused.items():
            refused.add_metric([limit], count)
        subscribes = CounterMetricFamily(
            "pulsar_readonly_subscribe_refusals",
            "SUBSCRIBEs that the broker answered with an error, its own or the owner's",
            labels=["error"],
        )
        for error, count in sorted(broker.subscribe_refusals.by_error.items()):
            subscribes.add_metric([error], count)
        unauthenticated = CounterMetricFamily(
            "pulsar_readonly_authentication_refusals",
            "Connections of clients whose credentials the owners refused",
            value=broker.owners.refused_credentials,
        )
        return [*metrics, redirected, lookups, refused, subscribes, unauthenticated]

    async def _figures(self, slices: Slices) -> dict[_Labels, _Figures]:
        """Return the figures by labels; subscriptions share labels where there would be too many.

        The number of subscriptions and the cluster's name at the start decide on the labels: they may change between two slices.
        """
        topics, found = self._broker.topics, dict[_Labels, _Figures]()
        all_counters = topics.counters
        cluster, count = topics.cluster_name, len(all_counters)
        for topic, served in topics.all:
            for name, subscription in list(served.subscriptions.items()):
                subscription.flush_accounting()
                figures = found.setdefault(_label(cluster, count, topic, name), _Figures())
                figures.served = True
                figures.consumers += len(subscription.consumers)
                figures.backlog += subscription.backlog
                figures.unacked += sum(consumer.dispatch_state.unacked for consumer in subscription.consumers)
                seconds = self._ages.seconds(topic, name, served, subscription)
                if seconds is not None:
                    figures.age = seconds if figures.age is None else max(figures.age, seconds)
                steps = _STEPS_PER_SUBSCRIPTION + subscription.backlog_steps + len(subscription.consumers)
                if slices.add(steps):
                    await slices.pause()
        for (topic, name), counters in list(all_counters.items()):
            found.setdefault(_label(cluster, count, topic, name), _Figures()).total.add(counters)
            if slices.add(_STEPS_PER_COUNTERS):
                await slices.pause()
        if count > MAX_LABELS * 10:
            # Prometheus takes a total that falls for one that began again at 0.
            found.setdefault((cluster, "", "", ""), _Figures()).total.add(topics.dropped_counters)
        return found


def _label(cluster: str, count: int, topic: TopicName, subscription: str) -> _Labels:
    """Return the labels of a subscription: its names while they are short and few. Readers of a topic share one."""
    if count > MAX_LABELS * 10:
        return cluster, "", "", ""
    if _READER.fullmatch(subscription):
        subscription = "reader"
    elif count > MAX_LABELS:
        subscription = ""
    names = f"{topic.tenant}/{topic.namespace}", str(topic), subscription
    namespace, full_name, subscription = (name if len(name) <= MAX_LABEL_CHARACTERS else "" for name in names)
    return cluster, namespace, full_name, subscription


def _of_subscriptions(figures: Mapping[_Labels, _Figures]) -> Iterator[Metric]:
    """Yield the metrics of subscriptions, in parts."""
    series = list(figures.items())
    for metric, name, text, value in _SUBSCRIPTION_METRICS:
        for begin in range(0, max(len(series), 1), SAMPLES_PER_PART):
            part = metric(f"pulsar_readonly_{name}", text, labels=_LABELS)
            for labels, one in series[begin : begin + SAMPLES_PER_PART]:
                found = value(one)
                if found is not None:
                    part.add_metric(labels, found)
            yield part
