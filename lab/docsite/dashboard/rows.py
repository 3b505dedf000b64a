"""Rows and panels of the dashboard."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from docsite.dashboard import names
from docsite.dashboard.model import (
    ANY_POOL,
    BY_BROKER,
    BY_POOL,
    OF_TOPIC,
    SCHEMA_VERSION,
    Panel,
    PanelRow,
    laid_out,
    of_brokers,
    of_pods,
    quantile,
    rate,
    total,
    variable,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

POOL: Final = "{{namespace}}/{{pool}}"
POD: Final = "{{namespace}}/{{pod}}"
_MESSAGE_RATE: Final = rate(of_brokers(names.MESSAGES))
_BYTE_RATE: Final = rate(of_brokers(names.BYTES))
_TOPIC_MESSAGES: Final = rate(of_brokers(names.MESSAGES, OF_TOPIC))
_HITS: Final = total(rate(of_brokers(names.CACHE_HITS)), *BY_BROKER)
_MISSES: Final = total(rate(of_brokers(names.CACHE_MISSES)), *BY_BROKER)
_BROKERS: Final = f"max by (namespace, pod) ({of_brokers(names.CONNECTIONS)})"
"""One sample for each broker, to leave other pods out of figures of Kubernetes."""


def _by_broker(metric: str) -> tuple[str, str]:
    """Return the sum of a metric over the workers of each broker."""
    return total(of_brokers(metric), *BY_BROKER), POD


def _mean(seconds: str, answers: str, *labels: str) -> str:
    """Return the mean of a summary over the samples with the same labels."""
    return f"{total(rate(of_brokers(seconds)), *labels)} / {total(rate(of_brokers(answers)), *labels)}"


def _only_brokers(expression: str) -> str:
    """Return an expression with labels of pods, without the pods that are no brokers."""
    return f"{expression} and on (namespace, pod) {_BROKERS}"


def _of_broker_pods(counter: str) -> str:
    """Return the rate of a counter of Kubernetes, for the pods of brokers."""
    return _only_brokers(total(rate(of_pods(counter)), "namespace", "pod"))


def _pools() -> PanelRow:
    return PanelRow(
        "Pools",
        (
            Panel(
                "Brokers", "Brokers that answer Prometheus.",
                [(f"count({_BROKERS})", "")], kind="stat",
            ),
            Panel("Connections", "Client connections open.", [(total(of_brokers(names.CONNECTIONS)), "")], kind="stat"),
            Panel(
                "Consumers", "Consumers and readers connected.", [(total(of_brokers(names.CONSUMERS)), "")], kind="stat"
            ),
            Panel(
                "Messages sent", "Messages sent to consumers per second.", [(total(_MESSAGE_RATE), "")], "mps", "stat"
            ),
            Panel("Bytes sent", "Bytes sent to consumers per second.", [(total(_BYTE_RATE), "")], "Bps", "stat"),
            Panel(
                "Suspended brokers",
                "Brokers that suspend their claimed subscriptions, because the metadata store does not answer.",
                [(total(of_brokers(names.SUSPENDED)), "")],
                kind="stat",
                alert="critical",
            ),
        ),
    )  # fmt: skip


def _alerts() -> PanelRow:
    firing = f'{names.ALERTS}{{alertname=~"{names.ALERT_PREFIX}.*", alertstate="firing"}}'
    return PanelRow(
        "Alerts",
        (
            Panel(
                "Firing alerts",
                "Alerts of monitoring/rules.yaml that fire now and before, in the colours of their severities.",
                [(f"max by (severity, alertname) ({firing})", "{{severity}}: {{alertname}}")],
                kind="state-timeline",
                severities=True,
            ),
        ),
    )


def _dispatch() -> PanelRow:
    return PanelRow(
        "Dispatch",
        (
            Panel(
                "Messages by topic", "The ten topics with the most messages.",
                [(f"topk(10, {total(_TOPIC_MESSAGES, 'topic')})", "{{topic}}")], "mps",
            ),
            Panel(
                "Acks sent to owner brokers", "Acks that owner brokers got from the pool.",
                [(total(rate(of_brokers(names.ACKS, OF_TOPIC)), *BY_POOL), POOL)], "ops",
            ),
            Panel(
                "Backlog", "Readable entries that are not acked: the ten largest.",
                [(f"topk(10, max by (topic, subscription) ({of_brokers(names.BACKLOG, OF_TOPIC)}))",
                  "{{topic}} {{subscription}}")],
            ),
            Panel(
                "Unacked messages",
                "Messages that consumers of Shared and Key_Shared subscriptions have received and not acked: the ten largest.",
                [(f"topk(10, sum by (topic, subscription) ({of_brokers(names.UNACKED, OF_TOPIC)}))",
                  "{{topic}} {{subscription}}")],
            ),
            Panel(
                "Consumers by broker", "Consumers and readers connected.",
                [(total(of_brokers(names.CONSUMERS, OF_TOPIC), *BY_BROKER), POD)],
            ),
            Panel(
                "Failed reads", "Reads from bookies that failed and are retried.",
                [(f"{total(rate(of_brokers(names.READ_FAILURES, OF_TOPIC)), 'topic')} > 0", "{{topic}}")],
                "ops", alert="warning", limit=0.1,
            ),
            Panel(
                "Sources of new entries",
                "Topics whose new entries the owner pushes, and changes between the owner and bookies.",
                [(total(of_brokers(names.TAIL_TOPICS, 'source="owner"'), *BY_POOL), f"{POOL}: pushed by the owner"),
                 (total(rate(of_brokers(names.TAIL_CHANGES)), *BY_POOL), f"{POOL}: changes per second")],
            ),
        ),
    )  # fmt: skip


def _latency() -> PanelRow:
    newest = of_brokers(names.LATENCY, 'read="tail"')
    older = of_brokers(names.LATENCY, 'read="backlog"')
    return PanelRow(
        "Latency",
        (
            Panel(
                "End-to-end latency",
                "Time from the publication of an entry to the client's socket. Entries that were not the newest of their topic are the "
                "backlog.",
                [(quantile(0.5, newest, *BY_POOL), f"{POOL}: p50"),
                 (quantile(0.99, newest, *BY_POOL), f"{POOL}: p99"),
                 (quantile(0.99, older, *BY_POOL), f"{POOL}: p99 of the backlog")], "s",
            ),
            Panel(
                "Age of the backlog",
                "Time since the publication of the oldest entry that is not acked: the ten oldest.",
                [(f"topk(10, max by (topic, subscription) ({of_brokers(names.BACKLOG_AGE, OF_TOPIC)}))",
                  "{{topic}} {{subscription}}")], "s",
            ),
            Panel(
                "Clock skew",
                "Samples of the latency per second that were published in the future: the clocks of brokers and producers differ.",
                [(total(rate(of_brokers(names.CLOCK_SKEW)), *BY_BROKER), POD)], "ops",
            ),
            Panel(
                "Delay of the event loop", "By how much a broker is late with a timer, 99th percentile: the wait for its CPU.",
                [(quantile(0.99, of_brokers(names.LOOP_DELAY), *BY_BROKER), POD)], "s",
            ),
            Panel(
                "Answer time of owners and metadata stores", "Mean time until an answer, by request of Pulsar's protocol.",
                [(_mean(names.OWNER_SECONDS, names.OWNER_ANSWERS, *BY_POOL, "request"), f"{POOL}: {{{{request}}}}"),
                 (_mean(names.STORE_SECONDS, names.STORE_ANSWERS, *BY_POOL), f"{POOL}: metadata store")], "s",
            ),
            Panel(
                "Commit latency of local cursors",
                "Time from the first change in a commit until it is stored, 50th and 99th percentile.",
                [(quantile(0.5, of_brokers(names.LOCAL_COMMITS), *BY_POOL), f"{POOL}: p50"),
                 (quantile(0.99, of_brokers(names.LOCAL_COMMITS), *BY_POOL), f"{POOL}: p99")], "s",
            ),
            Panel(
                "Reconcile duration", "Time in which the operator compares a pool with its spec, and applies the differences.",
                [(quantile(0.5, f"{names.RECONCILES}_bucket"), "p50"),
                 (quantile(0.99, f"{names.RECONCILES}_bucket"), "p99"),
                 (f"max({names.LONGEST_RECONCILE})", "longest present one")], "s",
            ),
            Panel(
                "Wait for a worker", "Time for which a due pool has waited for a worker of the operator.",
                [(quantile(0.5, names.QUEUE_WAIT), "p50"), (quantile(0.99, names.QUEUE_WAIT), "p99")], "s",
            ),
        ),
    )  # fmt: skip


def _cpu() -> PanelRow:
    cpu = rate(of_brokers(names.CPU, ANY_POOL))
    throttled = total(rate(of_pods(names.THROTTLED, 'container="broker"')), "namespace", "pod")
    periods = total(rate(of_pods(names.PERIODS, 'container="broker"')), "namespace", "pod")
    return PanelRow(
        "CPU",
        (
            Panel(
                "CPU by broker", "Cores that each broker uses, with its workers.",
                [(_only_brokers(total(cpu, *BY_BROKER)), POD)], "none",
            ),
            Panel(
                "CPU of the busiest worker", "Cores that the busiest process of each broker uses. An event loop uses one at most.",
                [(_only_brokers(f"max by (namespace, pool, pod) ({cpu})"), POD)], "none",
            ),
            Panel(
                "CPU time per message", "CPU time of a pool divided by the messages that it sends.",
                [(f"{total(cpu, *BY_POOL)} / ({total(_MESSAGE_RATE, *BY_POOL)} > 0)", POOL)], "s",
            ),
            Panel(
                "CPU throttling", "Share of the periods in which the CPU limit stopped a broker. Kubernetes only.",
                [(_only_brokers(f"{throttled} / {periods}"), POD)], "percentunit", maximum=1,
                alert="warning", limit=0.25,
            ),
        ),
    )  # fmt: skip


def _memory() -> PanelRow:
    files = f"{of_brokers(names.OPEN_FILES, ANY_POOL)} / {of_brokers(names.MAX_FILES, ANY_POOL)}"
    return PanelRow(
        "Memory",
        (
            Panel(
                "Memory by broker", "Resident memory of each broker, with its workers.",
                [(_only_brokers(total(of_brokers(names.RESIDENT, ANY_POOL), *BY_BROKER)), POD)], "bytes",
            ),
            Panel("Cache: bytes", "Bytes of entries in the cache.", [_by_broker(names.CACHE_BYTES)], "bytes"),
            Panel("Send buffers", "Unsent bytes of slow clients.", [_by_broker(names.BUFFERED)], "bytes"),
            Panel(
                "Cache hit ratio", "Misses are read from bookies or tiered storage.",
                [(f"{_HITS} / ({_HITS} + {_MISSES})", POD)], "percentunit", maximum=1,
            ),
            Panel(
                "Open files", "Share of the open files that the limit allows, of the fullest worker.",
                [(_only_brokers(f"max by (namespace, pool, pod) ({files})"), POD)],
                "percentunit", maximum=1, alert="warning", limit=0.8,
            ),
        ),
    )  # fmt: skip


def _network() -> PanelRow:
    return PanelRow(
        "Network",
        (
            Panel(
                "Bytes by broker", "Bytes sent to consumers. The lines are close together in a balanced pool.",
                [(total(rate(of_brokers(names.BYTES, OF_TOPIC)), *BY_BROKER), POD)], "Bps",
            ),
            Panel(
                "Sent by pods", "All bytes that the pods of brokers send. Kubernetes only.",
                [(_of_broker_pods(names.SENT), POD)], "Bps",
            ),
            Panel(
                "Received by pods",
                "All bytes that the pods of brokers receive: entries from bookies and owners, and requests. Kubernetes only.",
                [(_of_broker_pods(names.RECEIVED), POD)], "Bps",
            ),
            Panel("Connections by broker", "Client connections open.", [_by_broker(names.CONNECTIONS)]),
            Panel("Slow clients", "Clients that do not read their data.", [_by_broker(names.SLOW_CLIENTS)]),
            Panel(
                "Refused",
                "Connections and consumers refused by a limit, SUBSCRIBEs answered with an error, clients whose credentials the owners "
                "refuse, and brokers whose newest bindings are invalid.",
                [(total(rate(of_brokers(names.LIMIT_REFUSALS)), *BY_POOL, "limit"), f"{POOL}: {{{{limit}}}} per second"),
                 (total(rate(of_brokers(names.SUBSCRIBE_REFUSALS)), *BY_POOL, "error"), f"{POOL}: SUBSCRIBE, {{{{error}}}} per second"),
                 (total(rate(of_brokers(names.AUTHENTICATION_REFUSALS)), *BY_POOL), f"{POOL}: credentials per second"),
                 (total(of_brokers(names.BINDINGS_INVALID), *BY_POOL), f"{POOL}: brokers with old bindings")],
                alert="warning", limit=0.001,
            ),
        ),
    )  # fmt: skip


def _bookies() -> PanelRow:
    return PanelRow(
        "Bookies",
        (
            Panel(
                "Requests by kind", "Requests to bookies: single entries, batches of entries, the last add confirmed, long polls.",
                [(total(rate(of_brokers(names.BOOKIE_REQUESTS)), "kind"), "{{kind}}")], "ops",
            ),
            Panel(
                "Bytes by bookie", "Bytes that brokers receive from each bookie.",
                [(total(rate(of_brokers(names.BOOKIE_BYTES)), "bookie"), "{{bookie}}")], "Bps",
            ),
            Panel(
                "Answer time by bookie", "Mean time until a bookie answers a read.",
                [(_mean(names.BOOKIE_SECONDS, names.BOOKIE_ANSWERS, "bookie"), "{{bookie}}")], "s",
            ),
            Panel(
                "Failures by bookie",
                "Connections that fail, requests without an answer, and reads that a bookie refuses because it has too many.",
                [(f"{total(rate(of_brokers(names.BOOKIE_FAILURES)), 'bookie')} > 0", "{{bookie}}: failures"),
                 (f"{total(rate(of_brokers(names.BOOKIE_BUSY)), 'bookie')} > 0", "{{bookie}}: too many requests")],
                "ops", alert="warning", limit=0.1,
            ),
        ),
    )  # fmt: skip


def _membership() -> PanelRow:
    return PanelRow(
        "Pool and source cluster",
        (
            Panel(
                "Members that each broker knows", "All brokers of a healthy pool show the same number.",
                [(f"max by (namespace, pool, pod) ({of_brokers(names.MEMBERS)})", POD)],
            ),
            Panel(
                "Subscriptions claimed", "Shared and Key_Shared subscriptions, each served by one broker.",
                [_by_broker(names.CLAIMS)],
            ),
            Panel(
                "Passthrough subscriptions", "By reason; see docs/reference/status.md.",
                [(f"{total(of_brokers(names.PASSED_THROUGH), 'reason')} > 0", "{{reason}}")],
            ),
            Panel(
                "Clients redirected and proxied",
                "Clients redirected to another broker of the pool or to the owner, and clients that did not follow.",
                [(total(rate(of_brokers(names.REDIRECTED)), *BY_POOL, "to"), f"{POOL}: redirected to {{{{to}}}} per second"),
                 (total(of_brokers(names.RELAYED_CONSUMERS), *BY_POOL), f"{POOL}: consumers proxied"),
                 (total(of_brokers(names.RELAYED_PRODUCERS), *BY_POOL), f"{POOL}: producers proxied"),
                 (total(rate(of_brokers(names.LOOKUPS, 'locality="other"')), *BY_POOL),
                  f"{POOL}: lookups answered with another zone per second")],
            ),
            Panel(
                "Metadata store",
                "Brokers that are connected to the metadata store, and requests and connections that it refuses for a missing "
                "right, login or certificate.",
                [(total(of_brokers(names.STORE_CONNECTED), *BY_POOL), f"{POOL}: connected brokers"),
                 (total(rate(of_brokers(names.STORE_DENIALS)), *BY_POOL), f"{POOL}: refused per second")],
            ),
            Panel(
                "Certificates", "Time until the first certificate of a file expires.",
                [(f"min by (namespace, pool, option) ({of_brokers(names.CERTIFICATES)}) - time()", f"{POOL}: {{{{option}}}}")], "s",
            ),
            Panel(
                "Local subscriptions",
                "Durable subscriptions whose cursors the pool keeps, and the partitions of cursors that its brokers have.",
                [(total(of_brokers(names.LOCAL_SUBSCRIPTIONS), *BY_POOL), f"{POOL}: subscriptions"),
                 (total(of_brokers(names.LOCAL_PARTITIONS), *BY_POOL), f"{POOL}: partitions")],
            ),
            Panel(
                "Replay lag",
                "How far a replay's clock is behind the present, and the slowest topic behind that clock, in publish time.",
                [(f"time() - max by (namespace, pool) ({of_brokers(names.REPLAY_CLOCK)})", f"{POOL}: behind the present"),
                 (f"max by (namespace, pool) ({of_brokers(names.REPLAY_BEHIND)})", f"{POOL}: slowest topic behind the clock")], "s",
            ),
            Panel(
                "Replay speed", "Speed of a replay's clock, 0 while it is paused, and whether the replay has ended.",
                [(f"max by (namespace, pool) ({of_brokers(names.REPLAY_SPEED)})", f"{POOL}: speed"),
                 (f"max by (namespace, pool) ({of_brokers(names.REPLAY_ENDED)})", f"{POOL}: ended")],
            ),
            Panel(
                "Versions", "Processes of brokers and operators by version and commit.",
                [(f"count by (namespace, pool, version, commit) ({of_brokers(names.BUILD)})", f"{POOL} {{{{version}}}} {{{{commit}}}}"),
                 (f"count by (version, commit) ({names.OPERATOR_BUILD})", "operator {{version}} {{commit}}")],
            ),
        ),
    )  # fmt: skip


def _operator() -> PanelRow:
    conditions = f'{names.CONDITIONS}{{status!="True", condition!~"Progressing|Paused|Stalled"}}'
    return PanelRow(
        "Operator",
        (
            Panel(
                "Reconciles", "Pools that were queued and reconciled per second, and errors. Those of source-cluster are errors of background work.",
                [(total(rate(f"{names.RECONCILES}_count")), "reconciles"),
                 (total(rate(names.QUEUE_ADDS)), "queued"),
                 (total(rate(names.RECONCILE_ERRORS), "controller"), "errors: {{controller}}")], "ops",
            ),
            Panel(
                "Queue length", "Pools that wait for a reconcile.", [(total(names.QUEUE_DEPTH), "pools")],
                alert="warning", limit=10,
            ),
            Panel("Leader", "1 at the leader; the other processes wait for the Lease.", [(names.LEADER, "{{pod}}")]),
            Panel(
                "Objects changed", "Objects of pools that the operator created, patched or deleted.",
                [(f"{total(rate(names.APPLIED), 'kind', 'result')} > 0", "{{kind}} {{result}}")], "ops",
            ),
            Panel(
                "Events", "Kubernetes Events that the operator recorded, by type: kubectl get events.",
                [(f"{total(rate(names.EVENTS), 'type')} > 0", "{{type}}")], "ops",
            ),
            Panel(
                "Conditions not True", "Pools and bindings by conditions that are False or Unknown: kubectl get pulsar -A.",
                [(f"{total(conditions, 'kind', 'condition', 'status')} > 0", "{{kind}} {{condition}} {{status}}")],
            ),
            Panel(
                "Desired and ready brokers", "Of all pools that this operator serves.",
                [(total(names.BROKERS_DESIRED), "desired"), (total(names.BROKERS_READY), "ready")],
            ),
            Panel(
                "Unwell pools", "Conditions by which pools are unwell, of at most 100 pools.",
                [(f"max by (object, condition) ({names.UNWELL})", "{{object}} {{condition}}")], alert="warning",
            ),
            Panel(
                "Namespaces that cannot be read", "Served namespaces in which the API server refuses the operator's requests.",
                [(f"max by (name) ({names.READABLE}) == 0", "{{name}}")],
            ),
        ),
    )  # fmt: skip


def rows() -> Sequence[PanelRow]:
    """Return the rows, in their order."""
    return (
        _pools(), _alerts(), _dispatch(), _latency(), _cpu(), _memory(), _network(), _bookies(), _membership(), _operator(),
    )  # fmt: skip


def dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    chosen = 'namespace=~"$namespace", pool=~"$pool"'
    source = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "current": {}}
    return {
        "title": "Pulsar read-only pools",
        "uid": "pulsar-readonly",
        "tags": ["pulsar", "pulsar-readonly"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                source,
                variable("namespace", "Namespace", f"label_values({names.CONNECTIONS}, namespace)"),
                variable("pool", "Pool", f'label_values({names.CONNECTIONS}{{namespace=~"$namespace"}}, pool)'),
                variable("broker", "Broker", f"label_values({names.CONNECTIONS}{{{chosen}}}, pod)"),
                variable("topic", "Topic", f"label_values({of_brokers(names.CONSUMERS)}, topic)"),
            ]
        },
        "annotations": {"list": []},
        "links": [],
        "panels": laid_out(rows()),
    }


def text() -> str:
    """Return the file of the dashboard."""
    return json.dumps(dashboard(), indent=1) + "\n"
