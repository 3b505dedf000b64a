"""Generate docs/reference/metrics.md from the collectors of brokers and operator: type, labels and unit of each metric."""

from __future__ import annotations

import asyncio
import types
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import ProcessCollector
from prometheus_client.metrics import MetricWrapperBase
from readonly_engine.bookkeeper.statistics import MAX_BOOKIES, ReadStatistics
from readonly_engine.broker.dispatch.counters import Counters
from readonly_engine.broker.dispatch.latency import LatencySampler
from readonly_engine.broker.passthrough.reasons import Reason
from readonly_engine.broker.pool.bindings import Bindings
from readonly_engine.broker.replay.replay import Replay
from readonly_engine.broker.server.broker import Broker
from readonly_engine.http.backlog_age import BacklogAges
from readonly_engine.http.bookie_metrics import BookieCollector
from readonly_engine.http.certificate_metrics import CertificateCollector
from readonly_engine.http.loop_delay import EventLoopDelay
from readonly_engine.http.metrics import MAX_LABEL_CHARACTERS, MAX_LABELS, BrokerCollector
from readonly_engine.http.owner_metrics import OwnerCollector
from readonly_engine.http.process_metrics import BuildCollector
from readonly_engine.http.status.slices import Slices
from readonly_engine.http.store_metrics import StoreCollector
from readonly_engine.net.durations import Durations
from readonly_engine.owner.durations import RequestDurations
from readonly_engine.topic.cache import EntryCache
from readonly_engine.topic.replay.clock import ReplayClock
from readonly_engine.topic.replay.shared import SharedClock
from readonly_operator import metrics as operator_metrics
from readonly_operator.bindings.topic_index import BindingTopicIndex
from readonly_operator.kube.store import Store

from docsite.dashboard import names
from docsite.markdown import NOTE, code, sentence, table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.metrics_core import Metric

UNITS: Final = {
    "ended": "0 or 1",
    "ratio": "seconds per second",
    "suspended": "0 or 1",
    "bindings": "0 or 1",
    "leader": "0 or 1",
    "fds": "files",
    "readable": "0 or 1",
    "unwell": "1",
    "connected": "0 or 1",
    "info": "1",
    "skew": "samples",
    "denials": "requests and connections",
    "seconds": "seconds",
    "bytes": "bytes",
    "bookie": "requests",
    "messages": "messages",
    "entries": "entries",
    "cache": "entries",
    "acks": "acks",
    "read": "reads",
    "consumers": "consumers",
    "lookups": "lookups",
    "topics": "topics",
    "changes": "changes",
    "connections": "connections",
    "refusals": "connections and consumers",
    "clients": "clients",
    "producers": "producers",
    "subscriptions": "subscriptions",
    "partitions": "partitions",
    "members": "brokers",
    "brokers": "brokers",
    "workqueue": "pools",
    "reconcile": "reconciles",
    "objects": "objects",
    "object": "objects",
    "events": "events",
}
"""The unit of a metric whose name has this word; the first word that is there counts."""

HEAD = f"""# Metrics

{NOTE}

`/metrics` answers in Prometheus's text format. In Kubernetes, Prometheus adds the labels `namespace`, `pool` and `pod` to the metrics
of brokers ([Monitor brokers](../how-to/monitoring.md)). Its `namespace` is that of Kubernetes. It renames Pulsar's to
`exported_namespace`, unless the scrape has `honor_labels`. With `--workers`, each sample has the label `worker` too.
"""
BROKER = f"""## Brokers
`cluster`, `namespace`, `topic` and `subscription` mean the same as in Pulsar's own metrics: the name of the source cluster,
TENANT/NAMESPACE, the full name of a topic or partition, and the subscription. `cluster` is empty until the admin API has named it.
Readers get a new name each time, so all readers of a topic count as subscription `reader`. With more than {MAX_LABELS:,} subscriptions
the label `subscription` is empty; with more than {MAX_LABELS * 10:,}, `namespace` and `topic` are too. A name of more than
{MAX_LABEL_CHARACTERS} characters is empty as well. `bookie` is a bookie's id; from the {MAX_BOOKIES + 1}st bookie on it is empty.
`limit` is the option without its `max-`. `reason` is one of {", ".join(code(reason) for reason in Reason)}.
`option` is the option that names the file of a certificate. `request` is a command of Pulsar's protocol. `read` is `tail` for entries that were sent as soon as they were readable, else `backlog`. End-to-end latency compares two clocks: that of the broker, and that
of the owner where the cluster stores broker entry metadata (`brokerEntryMetadataInterceptors`), else that of the producer.
"""
OPERATOR = """## Operator
No metric has a label with the name of a pool or a binding. `kind` is a kind of Kubernetes object, `result` one of `created`,
`patched` and `deleted`, `type` one of `Normal` and `Warning`. `condition` and `status` are those of [conditions](conditions.md).
`controller` is `pool` for reconciles, and `source-cluster` for background work at source clusters.
"""

PROCESS = """## Processes
Brokers and the operator have these metrics of their own process, and programs of other projects have them too. In Kubernetes, the label
`pool` distinguishes brokers.
"""
KUBERNETES = """## Kubernetes and Prometheus
The dashboard also shows metrics that the kubelet (cAdvisor) and Prometheus provide. Without them, these panels are empty.
"""
OTHERS: Final = (
    (names.ALERTS, "gauge", ("alertname", "alertstate", "severity"), "1", "1 for each pending or firing alert"),
    (
        names.PERIODS,
        "counter",
        ("namespace", "pod", "container"),
        "periods",
        "Periods of the CPU limit",
    ),
    (
        names.THROTTLED,
        "counter",
        ("namespace", "pod", "container"),
        "periods",
        "Periods in which the CPU limit stopped the container",
    ),
    (
        names.RECEIVED,
        "counter",
        ("namespace", "pod", "interface"),
        "bytes",
        "Bytes that a pod received",
    ),
    (
        names.SENT,
        "counter",
        ("namespace", "pod", "interface"),
        "bytes",
        "Bytes that a pod sent",
    ),
)
"""Metrics of other programs that the dashboard shows: name, type, labels, unit and meaning."""


def of_process() -> list[Metric]:
    """Return the metrics of a process."""
    return list(ProcessCollector(registry=None).collect())


def idle_broker() -> Broker:
    """Return a broker that serves nothing."""
    parts: Any = types.SimpleNamespace
    topics = parts(
        counters={},
        dropped_counters=Counters(),
        all=[],
        tail_changes=0,
        latency=LatencySampler(),
        cluster_name="",
    )
    passthrough = parts(passed_through=[])
    claim_store = parts(held=(), suspended=False)
    owners: Any = types.SimpleNamespace(refused_credentials=0, durations=RequestDurations())
    return Broker(
        owners,
        topics,
        passthrough,
        parts(members={}),
        claim_store,
        parts(held={}),
        parts(),
        parts(refused={}),
        Bindings(),
        None,
        replay=Replay(SharedClock(ReplayClock.started(0, None, 1.0, 0.0)), parts()),
    )


def of_broker() -> list[Metric]:
    """Return the metrics of a broker that serves nothing."""
    stores: Any = types.SimpleNamespace(connected=True, denied=0, durations=Durations())
    broker = idle_broker()
    own = BrokerCollector(broker, EntryCache(1000), BacklogAges(broker))

    async def collected() -> list[Metric]:
        return [metric async for metric in own.collect(Slices())]

    others = (
        StoreCollector(stores),
        BookieCollector(ReadStatistics()),
        OwnerCollector(broker.owners.durations),
        CertificateCollector({}),
        EventLoopDelay(),
        BuildCollector({}),
    )
    return [*asyncio.run(collected()), *(metric for one in others for metric in one.collect())]


def of_operator() -> list[Metric]:
    """Return the metrics of an operator that knows no objects."""
    single = [one for one in vars(operator_metrics).values() if isinstance(one, MetricWrapperBase)]
    found = []
    for metric in single:
        described: Any = next(iter(metric.describe()))
        described._labelnames = metric._labelnames  # noqa: SLF001 - prometheus_client has no other way
        found.append(described)
    return [*found, *operator_metrics.InventoryCollector(Store(BindingTopicIndex())).collect()]


def labels(metric: Any) -> tuple[str, ...]:
    """Return the names of a metric's labels."""
    return tuple(metric._labelnames)  # noqa: SLF001 - prometheus_client has no other way


def page() -> str:
    """Return the whole page, Markdown."""
    head = ["metric", "type", "labels", "unit", "meaning"]
    others = [
        [code(name), kind, ", ".join(map(code, given)), unit_, sentence(text)]
        for name, kind, given, unit_, text in OTHERS
    ]
    parts = [HEAD, BROKER, table(head, _rows(of_broker())), f"\n{OPERATOR}", table(head, _rows(of_operator()))]
    parts += [f"\n{PROCESS}", table(head, _rows(of_process())), f"\n{KUBERNETES}", table(head, others)]
    return "\n".join(parts) + "\n"


def _rows(metrics: Iterable[Metric]) -> list[list[str]]:
    return sorted(
        [
            code(f"{metric.name}_total" if metric.type == "counter" else metric.name),
            metric.type,
            ", ".join(map(code, labels(metric))),
            unit(metric.name),
            sentence(metric.documentation),
        ]
        for metric in metrics
    )


def unit(name: str) -> str:
    """Return the unit of a metric.

    Raises:
        ValueError: no word of its name says it.
    """
    words = name.split("_")
    for word, found in UNITS.items():
        if word in words:
            return found
    raise ValueError(f"{name}: add a word of this name to UNITS")
