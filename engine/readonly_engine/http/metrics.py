"""Prometheus metrics, collected when they are asked for: the read path only counts in plain integers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from readonly_engine.broker.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from readonly_engine.broker.broker import Broker
    from readonly_engine.topic.cache import EntryCache

_LABELS = ["topic", "subscription"]


class BrokerCollector(Collector):
    """Metrics of one broker; a subscription's counters stay when its consumers leave."""

    def __init__(self, broker: Broker, cache: EntryCache) -> None:
        self._broker = broker
        self._cache = cache

    def collect(self) -> Iterator[Metric]:
        """Called by prometheus_client."""
        dispatched = CounterMetricFamily(
            "pulsar_readonly_messages_dispatched", "Messages sent to consumers", labels=_LABELS
        )
        size = CounterMetricFamily("pulsar_readonly_bytes_dispatched", "Bytes sent to consumers", labels=_LABELS)
        acks = CounterMetricFamily("pulsar_readonly_acks_relayed", "Acks relayed to the owner", labels=_LABELS)
        failures = CounterMetricFamily("pulsar_readonly_read_failures", "Reads that were tried again", labels=_LABELS)
        consumers = GaugeMetricFamily("pulsar_readonly_consumers", "Consumers connected", labels=_LABELS)
        for (topic, name), counters in self._broker.topics.counters.items():
            labels = [str(topic), name]
            dispatched.add_metric(labels, counters.messages)
            size.add_metric(labels, counters.bytes)
            acks.add_metric(labels, counters.acks)
            failures.add_metric(labels, counters.read_failures)
        for topic, served in self._broker.topics.all:
            for name, subscription in served.subscriptions.items():
                consumers.add_metric([str(topic), name], len(subscription.consumers))
        yield from (dispatched, size, acks, failures, consumers)
        passing = GaugeMetricFamily(
            "pulsar_readonly_passed_through", "Subscriptions left to the owner, by the reason", labels=["reason"]
        )
        reasons = Counter(found.reason for found in self._broker.topics.passing.passing)
        for reason in Reason:
            passing.add_metric([reason], reasons[reason])
        yield passing
        yield GaugeMetricFamily(
            "pulsar_readonly_connections", "Client connections open", value=len(self._broker.connections)
        )
        yield GaugeMetricFamily("pulsar_readonly_cache_bytes", "Bytes of entries in the cache", value=self._cache.size)
        yield CounterMetricFamily("pulsar_readonly_cache_hits", "Entries found in the cache", value=self._cache.hits)
        yield CounterMetricFamily(
            "pulsar_readonly_cache_misses", "Entries not found in the cache", value=self._cache.misses
        )
