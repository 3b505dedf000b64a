"""ReadOnlyTopicBinding: its custom resource definition beyond the spec."""

from __future__ import annotations

from readonly_operator.api.schema import Declared, ListOf, Number, Record
from readonly_operator.api.status import AGE, Column, Reported, condition_column, status_schema

DESCRIPTION = (
    "Topics that a ReadOnlyBrokerPool serves. Lookups of these topics at the pool return its read-only "
    "brokers. Running brokers apply a binding within seconds, without a restart."
)

MAX_LAGGING = 10
"""Topics whose lag the status names, the largest first; the brokers' metrics have all."""

_LAG = Record(
    {
        "topic": Declared(
            Reported(), "Full name of the topic; of a partitioned one, without its partitions.", required=True
        ),
        "subscription": Declared(Reported(), "Its slowest subscription.", required=True),
        "entries": Declared(
            Number(wide=True),
            "Readable entries that the subscription has not acked, rounded to two digits, at the broker with most.",
            required=True,
        ),
    }
)

COLUMNS = (
    Column("Pool", ".spec.poolRef.name", "The pool that serves the topics."),
    Column("Topics", ".spec.topics", "Bound topics."),
    Column("PoolNamespace", ".spec.poolRef.namespace", "The pool's namespace, if it is another one.", wide=True),
    Column("Namespaces", ".spec.namespaces", "Bound namespaces.", wide=True),
    Column("Matched", ".status.matchedTopics", "Existing topics that match.", "integer"),
    Column("Holding", ".status.holdingBrokers", "Brokers that hold this binding now.", "integer"),
    Column("Brokers", ".status.brokers", "Brokers of the pool.", "integer"),
    condition_column("Ready", "Ready", "Whether a broker of the pool serves this binding."),
    condition_column("Reason", "Ready", "Reason of Ready.", "reason"),
    condition_column("LocalCursors", "LocalCursors", "Whether the source cluster allows local cursors.", wide=True),
    AGE,
)

SELECTABLE = (".spec.poolRef.name", ".spec.poolRef.namespace")
"""Fields that `kubectl get --field-selector` supports."""

STATUS = status_schema(
    {
        "brokers": Declared(Number(), "Brokers that the pool has."),
        "holdingBrokers": Declared(
            Number(),
            "Brokers that report this binding now. Numbers follow within seconds, in large pools within minutes.",
        ),
        "servingBrokers": Declared(
            Number(), "Brokers that hold this binding and take clients; with none, it is not ready."
        ),
        "matchedTopics": Declared(
            Number(), "Topics of the source cluster that match the binding; a partitioned topic counts once."
        ),
        "matchedPartitions": Declared(Number(), "Partitions of the matched partitioned topics."),
        "lag": Declared(
            ListOf(_LAG, most=MAX_LAGGING, keys=("topic",)),
            "Topics with the largest lag at the pool, the largest first; the brokers' metric "
            "pulsar_readonly_backlog_entries has "
            "all.",
        ),
        "lookupRevision": Declared(
            Reported(), "Revision of the pool's lookup redirection config with which brokers got this binding."
        ),
    },
    "Ready (at least one broker of the pool serves this binding), Progressing (brokers are about to get it), LookupConfigured "
    "(every ready broker holds its newest generation), LocalCursors (policies of the source cluster allow them; only with local "
    "cursors), TopicConflict (only while a binding of another pool claims a topic too), Accepted (the pool allows it; only if "
    "it refuses the binding, or has refused it), Paused (an annotation pauses it). "
    "Stalled is present while a person must act, Reconciling while Progressing is True.",
)
